//! New connections through the rules of deltaproxy and kube-proxy: latency, rate, and CPU, by the
//! number of Services.
//!
//! A client connects through a node to a server, each in a network namespace. The rules of all
//! programs are there at once, and take turns. Needs root, and the programs that `tests/run.sh`
//! builds:
//!
//! ```text
//! cargo bench --bench datapath -- --services 100,1000 --json figures.json
//! cargo bench --bench datapath -- --limit kube-proxy-nft=30000 --json figures.json
//! cargo bench --bench datapath -- --report figures.json --write
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

#[path = "../shared/duration.rs"]
mod duration;
#[path = "../shared/load.rs"]
#[allow(dead_code, reason = "other benches change what is loaded")]
mod load;
#[path = "../shared/machine.rs"]
mod machine;
#[path = "../shared/report.rs"]
mod report;
#[path = "../shared/scrape.rs"]
#[allow(dead_code, reason = "other benches look at what it times")]
mod scrape;
#[path = "../shared/store.rs"]
mod store;
#[path = "../../tests/support/mod.rs"]
mod support;

mod args;
mod connect;
mod docs;
mod figures;
mod interrupt;
mod measure;
mod order;
mod plot;
mod saturation;
mod server;
mod site;
mod subject;
mod table;

use clap::Parser;

use args::Args;
use figures::Report;
use support::{Need, machine_has};

fn main() {
    let args = Args::parse();
    let report = match &args.report {
        Some(path) => report::read(path),
        None => run(&args),
    };
    print!("{}", table::text(&report));
    if args.write {
        docs::write(&report);
    }
}

/// Figures join those that the file has of the same programs and machine.
fn begin(args: &Args) -> Report {
    let machine = machine::describe();
    match &args.json {
        Some(path) if path.exists() => {
            let report: Report = report::read(path);
            let file = path.display();
            assert_eq!(report.machine, machine, "{file} has other figures");
            report
        }
        _ => Report::new(machine),
    }
}

fn run(args: &Args) -> Report {
    interrupt::watch();
    assert!(machine_has(Need::Upstream), "cannot measure here");
    let mut report = begin(args);
    for &services in &args.services {
        for run in measure::measure(services, args) {
            report.add(run);
        }
        // Now, and not when all is done: that may take hours.
        if let Some(path) = &args.json {
            report::write(&report, path);
        }
    }
    report
}
