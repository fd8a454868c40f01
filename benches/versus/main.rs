//! kube-proxy and deltaproxy side by side: same machine, same API server, same changes, one after
//! the other.
//!
//! Absolute times say more about the machine than about the programs; what counts are the ratios
//! between programs of one run. Needs root, and the programs that `tests/run.sh` builds:
//!
//! ```text
//! cargo bench --bench versus -- --services 1000,10000 --backend nft --json figures.json
//! cargo bench --bench versus -- --report figures.json --plots deploy/docs/speed
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
mod figures;
mod measure;
mod plot;
mod quantity;
mod table;

use clap::Parser;

use args::Args;
use figures::Report;
use shared::load::Load;
use support::{Need, machine_has};

fn main() {
    let args = Args::parse();
    let report = args.output.report(|report| run(&args, report));
    print!("{}", table::text(&report));
    if let Some(folder) = &args.plots {
        plot::write_all(&report, folder);
    }
}

fn run(args: &Args, report: &mut Report) {
    assert!(machine_has(Need::Upstream), "cannot measure here");
    for &services in &args.services {
        eprintln!(
            "{services} Services x {} endpoints: loading",
            args.endpoints
        );
        let (control, mut load) = Load::in_new_cluster(services, args.endpoints);
        for &backend in &args.backends {
            for &program in &args.programs {
                eprintln!(
                    "{services} Services, {}: {}",
                    backend.name(),
                    program.name()
                );
                let run = measure::measure(&control, &mut load, backend, program, args);
                args.output.add(report, run);
            }
        }
    }
}
