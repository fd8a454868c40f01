//! How long rules stay broken that another program has damaged, seen by a client: kube-proxy and
//! deltaproxy on the same machine, with the same Services, one after the other.
//!
//! A client in the node's namespace connects to one Service again and again. An outage begins with
//! the first connection that fails after the damage, and ends with the first one that succeeds.
//!
//! ```text
//! cargo bench --bench drift -- --services 1000 --backend nft,legacy --tries 50
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
mod client;
mod damage;
mod measure;
mod table;

use clap::Parser;

use args::Args;
use shared::load::Load;
use support::{Need, machine_has};

fn main() {
    let args = Args::parse();
    assert!(machine_has(Need::Upstream), "cannot measure here");
    println!("{}\n", shared::machine::describe());
    for &services in &args.services {
        let (control, _load) = Load::in_new_cluster(services, args.endpoints);
        client::create_service(control.api());
        let mut runs = Vec::new();
        for &backend in &args.backends {
            for &program in &args.programs {
                eprintln!(
                    "{services} Services, {}: {}",
                    backend.name(),
                    program.name()
                );
                runs.push(measure::measure(&control, backend, program, &args));
            }
        }
        println!("{}", table::text(services, &runs));
    }
}
