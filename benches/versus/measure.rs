//! One program through all phases.
//!
//! CPU and latency are measured in phases of their own: to attribute a change to its sync the
//! metrics are read many times a second, which costs the program CPU.

use std::thread;
use std::time::Duration;

use crate::args::Args;
use crate::figures::{Churn, Run, Start};
use crate::shared::latency::{latencies, percentile};
use crate::shared::load::Load;
use crate::shared::scrape::Sample;
use crate::shared::subject::{Node, Running, Subject};
use crate::support::daemon::Backend;
use crate::support::kube::ControlPlane;

/// After a start and after changes: what is still on its way arrives within this.
const SETTLE: Duration = Duration::from_secs(6);
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
    let latencies = latencies(&running, load, control.api(), args.rate, args.phase);
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
        programming_p50: percentile(&latencies, 50),
        programming_p99: percentile(&latencies, 99),
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
