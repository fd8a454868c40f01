//! One program through all phases.
//!
//! CPU and latency are measured in phases of their own: to attribute a change to its sync the
//! metrics are read many times a second, which costs the program CPU.

use std::thread;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::figures::{Churn, Run, Start, percentile};
use crate::load::Load;
use crate::scrape::Sample;
use crate::subject::{Backend, Node, Running, Subject};
use crate::support::kube::ControlPlane;

/// After a start and after changes: what is still on its way arrives within this.
const SETTLE: Duration = Duration::from_secs(6);
/// How exactly a sync's end is seen, if several fall between two scrapes.
const SCRAPE_EVERY: Duration = Duration::from_millis(25);
/// How many Services are added, and as many removed. kube-proxy syncs once a second.
const EXTRAS: usize = 8;

/// Starts the program on an empty node, changes things, restarts it.
pub fn measure(
    control: &ControlPlane,
    load: &mut Load,
    backend: Backend,
    subject: Subject,
    args: &Args,
) -> Run {
    let node = Node::new(control, backend, subject);
    let (running, first) = start(&node);
    let endpoint_chains = node.endpoint_chains();
    let churn = churn(&running, load, control, args);
    let latencies = latencies(&running, load, control, args);
    let (added, removed) = extras(&running, load, control);
    let rss = running.usage();
    running.stop();
    let (running, restart) = start(&node);
    let again = running.usage();
    running.stop();
    Run {
        services: load.services(),
        endpoints: load.endpoints(),
        backend,
        program: subject,
        endpoint_chains,
        first,
        restart,
        churn,
        programming_p50: percentile(&latencies, 0.5),
        programming_p99: percentile(&latencies, 0.99),
        service_added: added,
        service_removed: removed,
        rss: rss.rss,
        peak_rss: rss.peak_rss.max(again.peak_rss),
    }
}

fn start(node: &Node) -> (Running<'_>, Start) {
    let (running, took) = node.start();
    let (sample, at_rules) = (running.sample(), running.usage());
    thread::sleep(SETTLE);
    let start = Start {
        seconds: took.as_secs_f64(),
        sync: sample.sync.mean(),
        own_cpu: at_rules.own_cpu,
        children_cpu: at_rules.children_cpu,
    };
    (running, start)
}

fn churn(running: &Running<'_>, load: &mut Load, control: &ControlPlane, args: &Args) -> Churn {
    let (before, used) = (running.sample(), running.usage());
    let changes = load.churn(control.api(), args.rate, args.phase).len();
    thread::sleep(SETTLE);
    let (used, after) = (running.usage() - used, running.sample());
    Churn {
        changes,
        seen: (after.programming - before.programming).count,
        syncs: (after.partial - before.partial).count,
        sync_mean: (after.partial - before.partial).mean(),
        programming_mean: (after.programming - before.programming).mean(),
        full_syncs: (after.full - before.full).count,
        own_cpu: used.own_cpu,
        children_cpu: used.children_cpu,
    }
}

/// How long each change took until its rules were in the kernel, in seconds.
///
/// Both programs add every change to one histogram when its sync ends, oldest first. So the growth
/// between two scrapes says which changes were in a sync, and the growth of the sum when it ended.
fn latencies(
    running: &Running<'_>,
    load: &mut Load,
    control: &ControlPlane,
    args: &Args,
) -> Vec<f64> {
    let first = running.sample();
    let (asked, samples) = thread::scope(|scope| {
        let churn = scope.spawn(|| load.churn(control.api(), args.rate, args.phase));
        let mut samples = vec![first];
        let mut ends = None;
        while ends.is_none_or(|ends| Instant::now() < ends) {
            thread::sleep(SCRAPE_EVERY);
            samples.push(running.sample());
            if ends.is_none() && churn.is_finished() {
                ends = Some(Instant::now() + SETTLE);
            }
        }
        (churn.join().unwrap(), samples)
    });
    attribute(&asked, &samples)
}

fn attribute(asked: &[Instant], samples: &[Sample]) -> Vec<f64> {
    let mut latencies = Vec::new();
    let mut waiting = asked.iter();
    for pair in samples.windows(2) {
        let grown = pair[1].programming - pair[0].programming;
        // A count of changes: small and whole.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "see above"
        )]
        let batch: Vec<_> = waiting.by_ref().take(grown.count as usize).collect();
        let Some(&&last) = batch.last() else {
            continue;
        };
        // The sum is that of `end - asked` over the batch.
        let before_last: f64 = batch.iter().map(|&&at| (last - at).as_secs_f64()).sum();
        let end = (grown.sum - before_last) / batch.len() as f64;
        latencies.extend(batch.iter().map(|&&at| end + (last - at).as_secs_f64()));
    }
    latencies.sort_by(f64::total_cmp);
    latencies
}

/// Mean times of the syncs that add a Service, and of those that remove one.
fn extras(
    running: &Running<'_>,
    load: &mut Load,
    control: &ControlPlane,
) -> (Option<f64>, Option<f64>) {
    let mut sums = [(0.0, 0.0); 2];
    for turn in 0..EXTRAS * 2 {
        let before = running.sample();
        load.toggle_extra(control.api());
        let quiet = quiet(running);
        let grown = quiet.sync - before.sync;
        sums[turn % 2].0 += grown.sum;
        sums[turn % 2].1 += 1.0;
    }
    let mean = |(sum, count): (f64, f64)| (count > 0.0).then(|| sum / count);
    (mean(sums[0]), mean(sums[1]))
}

/// Waits until no sync has ended for a while.
fn quiet(running: &Running<'_>) -> Sample {
    let mut last = running.sample();
    loop {
        thread::sleep(Duration::from_millis(2_500));
        let now = running.sample();
        if now.sync.count.total_cmp(&last.sync.count).is_eq() {
            return now;
        }
        last = now;
    }
}
