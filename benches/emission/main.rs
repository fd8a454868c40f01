//! What each way of telling the kernel the same thing costs: the restore program on real payloads
//! and rearranged ones, in a network namespace with the rules of a whole cluster.
//!
//! The product's payloads are rendered by the product; what it does not write is made of what it
//! does. CPU is that of the program (user and system); compare that, and not the time on the clock,
//! where the machine is shared. Needs root and both sets of iptables programs:
//!
//! ```text
//! cargo bench --bench emission -- --services 1000,10000 --backend nft,legacy --json emission.json
//! ```

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a bench runs programs, prints, and fails loudly"
)]

#[path = "../../tests/support/cluster.rs"]
mod cluster;
#[path = "../shared/duration.rs"]
mod duration;
#[path = "../shared/machine.rs"]
mod machine;
#[path = "../shared/report.rs"]
#[allow(dead_code, reason = "other benches read their figures again")]
mod report;
#[path = "../../tests/support/mod.rs"]
mod support;

mod apart;
mod args;
mod arrange;
mod bursts;
mod dispatch;
mod figures;
mod floor;
mod full;
mod kernel;
mod product;
mod table;

use clap::Parser;
use deltaproxy::testing::rules::Backend;

use args::{Args, Topic};
use figures::{Notes, Report};
use kernel::Kernel;
use support::netns::Netns;
use support::{Need, machine_has};

fn main() {
    let args = Args::parse();
    assert!(machine_has(Need::Kernel), "cannot measure here");
    let mut report = Report::new(machine::describe());
    for &services in &args.services {
        for &backend in &args.backends {
            for &topic in args.topics.iter().filter(|topic| **topic != Topic::Floor) {
                eprintln!("{services} Services, {backend}: {topic:?}");
                report.add(in_namespace(|| payloads(topic, services, backend, &args)));
            }
        }
    }
    if args.topics.contains(&Topic::Floor) {
        for &backend in &args.backends {
            let services = args.floor_size(backend);
            eprintln!("{services} Services, {backend}: Floor");
            let floor = in_namespace(|| floor::measure(services, backend, args.changes));
            report.floors.push(floor);
        }
    }
    print!("{}", table::text(&report));
    if let Some(path) = &args.json {
        report::write(&report, path);
    }
}

/// Runs `work` in a network namespace that vanishes after it.
fn in_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    Netns::new("emission").enter(work)
}

fn payloads(topic: Topic, services: usize, backend: Backend, args: &Args) -> Notes {
    let mut notes = Notes::new(topic, services, backend, args);
    let kernel = Kernel::new(backend);
    match topic {
        Topic::Full => full::measure(&kernel, &mut notes),
        Topic::Dispatch => dispatch::measure(&kernel, &mut notes),
        Topic::Bursts => bursts::measure(&kernel, &mut notes),
        Topic::Apart => apart::measure(&kernel, &mut notes),
        Topic::Floor => {}
    }
    notes
}
