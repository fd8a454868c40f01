//! The memory of the programs that a proxy starts.
//!
//! Apart because nobody reports it: they live for milliseconds, so they are looked at while they
//! do. A container's limit is about them as well.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Programs that need much memory live longer than this.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks at the children of this process's children, of which only the proxy has any.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl Watch {
    /// Looks from now on.
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut peak = 0.0_f64;
            while !stopped.load(Ordering::Relaxed) {
                let proxies = children(std::process::id());
                let all = proxies.into_iter().flat_map(programs);
                peak = all.fold(peak, f64::max);
                thread::sleep(LOOK_EVERY);
            }
            peak
        });
        Self { stop, thread }
    }

    /// The largest resident set that any of them had, in MiB.
    pub fn peak(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch")
    }
}

/// The peaks of what this process has started.
fn programs(parent: u32) -> Vec<f64> {
    let exe = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = exe(parent);
    let started = children(parent).into_iter();
    // Until it has become another program, a child shows the memory of its parent.
    let started = started.filter(|&child| exe(child).is_some_and(|exe| Some(exe) != own));
    started.filter_map(peak_rss).collect()
}

fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let of_all: Vec<String> = lists.collect();
    of_all
        .iter()
        .flat_map(|list| list.split_whitespace())
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

fn peak_rss(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes / 1024.0)
}
