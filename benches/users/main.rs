//! Load test: virtual users create, scale and delete Services through the API server, beside many
//! that exist; and how long each change takes until its rules are in the kernel.
//!
//! Programs are compared within one run. Needs root, and the programs that `tests/run.sh` builds:
//!
//! ```text
//! cargo bench --bench users -- --services 1000 --users 25,50,100 --json users.json
//! cargo bench --bench users -- --report users.json --plots plots
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
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
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
mod table;
mod user;

use clap::Parser;

use args::Args;
use figures::Report;
use shared::load::{self, Load};
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
        let (control, _) = Load::in_new_cluster(services, args.endpoints);
        for &program in &args.programs {
            for run in measure::measure(&control, services, program, args) {
                args.output.add(report, run);
            }
        }
    }
}
