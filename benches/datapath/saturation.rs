//! Connections at saturation, and what all CPUs do.

use std::fs;
use std::net::SocketAddrV4;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::connect::Sources;
use crate::figures::Saturation;

/// Share of all CPUs above which the machine does something else.
const QUIET: f64 = 0.05;
/// Measuring begins after this time at the latest.
const WAIT_FOR_QUIET: Duration = Duration::from_secs(60);
/// `/proc/stat` counts in these, on every architecture since Linux 2.6.
const TICKS_PER_SECOND: f64 = 100.0;

/// Connects to the targets in turn, on several threads without a pause.
pub fn saturate(targets: &[SocketAddrV4], threads: u8, time: Duration) -> Saturation {
    let (before, own_before, start) = (busy(), own(), Instant::now());
    let counts: Vec<(usize, usize)> = thread::scope(|scope| {
        let threads = (1..=threads)
            .map(|number| scope.spawn(move || connect_until(start + time, number, targets)));
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    Saturation {
        connections: counts.iter().map(|(connections, _)| connections).sum(),
        failed: counts.iter().map(|(_, failed)| failed).sum(),
        seconds: start.elapsed().as_secs_f64(),
        cpu: busy() - before,
        own_cpu: own() - own_before,
    }
}

fn connect_until(end: Instant, number: u8, targets: &[SocketAddrV4]) -> (usize, usize) {
    let mut sources = Sources::of(number);
    let (mut connections, mut failed) = (0, 0);
    for to in targets.iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        match sources.connect(*to) {
            Ok(_) => connections += 1,
            Err(_) => failed += 1,
        }
    }
    (connections, failed)
}

/// Waits until the kernel has dismantled earlier namespaces and other programs rest. Returns the
/// share of all CPUs that is still busy.
pub fn wait_until_quiet() -> f64 {
    let cpus = thread::available_parallelism().map_or(1, usize::from) as f64;
    let start = Instant::now();
    loop {
        let (before, from) = (busy(), Instant::now());
        thread::sleep(Duration::from_secs(2));
        let share = (busy() - before) / from.elapsed().as_secs_f64() / cpus;
        if share < QUIET || start.elapsed() > WAIT_FOR_QUIET {
            return share;
        }
    }
}

/// Seconds that all CPUs have been busy.
fn busy() -> f64 {
    let stat = fs::read_to_string("/proc/stat").expect("proc");
    let line = stat.lines().next().unwrap();
    // user, nice, system, idle, iowait, irq, softirq
    let ticks: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .map(|word| word.parse().unwrap())
        .collect();
    (ticks[..3].iter().sum::<f64>() + ticks[5..7].iter().sum::<f64>()) / TICKS_PER_SECOND
}

/// CPU seconds of the client's and the server's threads so far.
fn own() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("usage");
    let time = usage.user_time() + usage.system_time();
    time.num_microseconds() as f64 / 1e6
}
