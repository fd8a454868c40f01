//! One program at one size: after its start, idle, under changes, and what a scrape costs.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::args::Args;
use crate::figures::{Cpu, Of, Phase, Scrape, Size};
use crate::shared::cgroup::{Cgroup, Peak};
use crate::shared::load::Load;
use crate::shared::subject::{Node, Running};
use crate::shared::usage::Usage;
use crate::support::kube::ControlPlane;
use crate::support::objects;
use crate::support::wait::{ensure, eventually};

/// After a start and after changes: what is still on its way arrives within this.
const SETTLE: Duration = Duration::from_secs(3);
/// kube-proxy needs some minutes for 10,000 Services on nft.
const LONGEST_FULL: Duration = Duration::from_secs(10 * 60);
/// Enough to divide a clock that ticks every 10 ms.
const SCRAPES: u32 = 500;

/// Starts the program on an empty node, lets more and more change, and starts it again.
pub fn measure(control: &ControlPlane, load: &mut Load, of: Of, args: &Args) -> Size {
    let node = Node::new(control, of.backend, of.program);
    let cgroup = Cgroup::new();
    let (running, _) = cgroup.start(|| node.start());
    let start = running.usage();
    thread::sleep(SETTLE);
    let first_start = cgroup.peak();
    let settled = running.usage();
    let mut phases = vec![phase(&running, 0, args, || thread::sleep(args.phase))];
    for rate in args.rates() {
        phases.push(phase(&running, rate, args, || {
            load.churn(control.api(), rate, args.phase);
        }));
    }
    rewrite_everything(control, &running, &of);
    let size = Size {
        of,
        start: cpu(start, 1.0),
        rss: settled.rss,
        peak_rss: settled.peak_rss,
        first_start,
        rewrite: cgroup.peak(),
        restart: Peak::default(),
        phases,
        scrape: scrape(&running),
    };
    running.stop();
    drop(cgroup);
    let cgroup = Cgroup::new();
    let (running, _) = cgroup.start(|| node.start());
    thread::sleep(SETTLE);
    let restart = cgroup.peak();
    running.stop();
    Size { restart, ..size }
}

/// Makes it write all rules over those that are there, as it does every hour: it is then that the
/// programs it starts need the most memory.
fn rewrite_everything(control: &ControlPlane, running: &Running<'_>, of: &Of) {
    let before = running.sample().full.count;
    let node = objects::node("10.200.0.2", "fd00:200::2");
    let zone = format!("zone-{}-{}", of.program.name(), of.services);
    let labels = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
    control.api().merge(&node, &labels);
    eventually(LONGEST_FULL, || {
        let grown = running.sample().full.count - before;
        ensure(grown > 0.0, || "no full sync yet".to_owned())
    });
    thread::sleep(SETTLE);
}

/// CPU for each of so many units of time.
pub fn cpu(used: Usage, units: f64) -> Cpu {
    Cpu {
        own: used.own_cpu / units,
        children: used.children_cpu / units,
    }
}

fn phase(running: &Running<'_>, rate: u32, args: &Args, work: impl FnOnce()) -> Phase {
    let (before, used, began) = (running.sample(), running.usage(), Instant::now());
    work();
    let took = began.elapsed().as_secs_f64();
    if rate > 0 {
        thread::sleep(SETTLE);
    }
    let (used, after) = (running.usage() - used, running.sample());
    Phase {
        rate,
        changes_per_second: f64::from(rate) * args.phase.as_secs_f64() / took,
        syncs_per_second: (after.sync - before.sync).count / took,
        cpu: cpu(used, took / 60.0),
        rss: used.rss,
        peak_rss: used.peak_rss,
    }
}

fn scrape(running: &Running<'_>) -> Scrape {
    let page = running.page();
    let used = running.usage();
    for _ in 0..SCRAPES {
        running.page();
    }
    let used = running.usage() - used;
    Scrape {
        bytes: page.len(),
        series: page.lines().filter(|line| !line.starts_with('#')).count(),
        cpu: used.own_cpu / f64::from(SCRAPES),
    }
}
