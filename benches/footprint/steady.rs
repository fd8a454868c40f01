//! Memory over a long time of mixed changes: it must not grow.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::figures::{Memory, Of, Steady};
use crate::shared::load::Load;
use crate::shared::subject::{Node, Running};
use crate::support::kube::ControlPlane;

/// Often enough for a picture.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// Every so many changes, a Service is added or removed instead of an endpoint moved. All names and
/// all addresses are new ones, so that whatever is kept of old ones adds up.
const EXTRA_EVERY: usize = 10;

/// Changes things at the first of the rates until the time is over.
pub fn measure(
    control: &ControlPlane,
    load: &mut Load,
    of: Of,
    time: Duration,
    args: &Args,
) -> Steady {
    let node = Node::new(control, of.backend, of.program);
    let (running, _) = node.start();
    let rate = args.rates()[0];
    let (began, changes) = (Instant::now(), AtomicUsize::new(0));
    let samples = thread::scope(|scope| {
        let churn = scope.spawn(|| {
            while began.elapsed() < time {
                let change = changes.load(Ordering::Relaxed);
                let due = Duration::from_secs(1) / rate * u32::try_from(change).unwrap();
                thread::sleep(due.saturating_sub(began.elapsed()));
                if change % EXTRA_EVERY == 0 {
                    load.toggle_extra(control.api());
                } else {
                    load.move_some(control.api(), 1);
                }
                changes.store(change + 1, Ordering::Relaxed);
            }
        });
        let mut samples = Vec::new();
        while !churn.is_finished() {
            let sample = sample(&running, began, changes.load(Ordering::Relaxed));
            eprintln!("{}", serde_json::to_string(&sample).unwrap());
            samples.push(sample);
            let next = SAMPLE_EVERY * u32::try_from(samples.len()).unwrap();
            thread::sleep(next.saturating_sub(began.elapsed()));
        }
        samples
    });
    running.stop();
    Steady { of, rate, samples }
}

fn sample(running: &Running<'_>, began: Instant, changes: usize) -> Memory {
    let (usage, sample) = (running.usage(), running.sample());
    Memory {
        seconds: began.elapsed().as_secs_f64(),
        changes,
        syncs: sample.sync.count,
        rss: usage.rss,
        peak_rss: usage.peak_rss,
    }
}
