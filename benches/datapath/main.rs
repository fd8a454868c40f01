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

#[path = "../shared/mod.rs"]
mod shared;
#[path = "../../tests/support/mod.rs"]
mod support;

mod args;
mod connect;
mod docs;
mod figures;
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
    let report = args.output.report(|report| run(&args, report));
    print!("{}", table::text(&report));
    if args.write {
        docs::write(&report);
    }
}

fn run(args: &Args, report: &mut Report) {
    assert!(machine_has(Need::Upstream), "cannot measure here");
    for &services in &args.services {
        for run in measure::measure(services, args) {
            args.output.add(report, run);
        }
    }
}
