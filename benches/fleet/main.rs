//! What an API server bears from as many nodes as this machine can play: real processes of one
//! program, then as many of the other, beside an API server of their own.
//!
//! Nothing here is about the kernel: all nodes share one network namespace, and the iptables
//! programs are stand-ins that read what they are told and succeed. Needs root, and the programs
//! that `tests/run.sh` builds:
//!
//! ```text
//! cargo bench --bench fleet -- --watchers 60 --services 1000 --rate 20 --phase 10s
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
mod counted;
mod figures;
mod fleet;
mod measure;
mod meter;
mod stand_in;
mod subject;
mod table;
mod wire;

use clap::Parser;

use args::Args;
use shared::machine;
use support::{Need, machine_has};

fn main() {
    let args = Args::parse();
    assert!(machine_has(Need::Upstream), "cannot measure here");
    let mut runs = Vec::new();
    for &subject in &args.programs {
        eprintln!("{}", subject.name());
        runs.push(measure::measure(subject, &args));
    }
    print!("{}", table::text(&machine::describe(), &runs));
}
