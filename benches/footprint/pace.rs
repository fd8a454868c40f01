//! How often a program syncs under some rates of changes, what that costs and how late changes are.
//!
//! CPU and latency are measured in phases of their own: see [`latency`](crate::shared::latency).

use std::thread;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::figures::{Of, Pace, Paces};
use crate::shared::latency::{latencies, percentile};
use crate::shared::load::Load;
use crate::shared::subject::{Node, Running};
use crate::size::cpu;
use crate::support::api::Api;
use crate::support::kube::ControlPlane;

/// What is still on its way after the last change arrives within this.
const SETTLE: Duration = Duration::from_secs(3);

/// All rates, one after the other.
pub fn measure(control: &ControlPlane, load: &mut Load, of: Of, args: &Args) -> Paces {
    let node = Node::new(control, of.backend, of.program);
    let (running, _) = node.start();
    thread::sleep(SETTLE);
    let rates = args.rates().into_iter();
    let rates = rates.map(|rate| {
        let costs = costs(&running, load, control.api(), rate, args.phase);
        let latencies = latencies(&running, load, control.api(), rate, args.phase);
        let pace = Pace {
            programming_p50: percentile(&latencies, 0.5),
            programming_p99: percentile(&latencies, 0.99),
            ..costs
        };
        eprintln!("{}", serde_json::to_string(&pace).unwrap());
        pace
    });
    let rates = rates.collect();
    running.stop();
    Paces { of, rates }
}

/// Everything but the percentiles.
fn costs(running: &Running<'_>, load: &mut Load, api: &Api, rate: u32, phase: Duration) -> Pace {
    let (before, used, began) = (running.sample(), running.usage(), Instant::now());
    let changes = load.churn(api, rate, phase).len();
    let took = began.elapsed().as_secs_f64();
    thread::sleep(SETTLE);
    let (used, after) = (running.usage() - used, running.sample());
    let (syncs, programming) = (
        after.sync - before.sync,
        after.programming - before.programming,
    );
    Pace {
        rate,
        changes_per_second: changes as f64 / took,
        syncs_per_second: syncs.count / took,
        sync_mean: syncs.mean(),
        in_syncs: syncs.sum / took,
        cpu: cpu(used, took),
        programming_mean: programming.mean(),
        programming_p50: None,
        programming_p99: None,
    }
}
