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

#[path = "../shared/duration.rs"]
mod duration;
#[path = "../shared/latency.rs"]
mod latency;
#[path = "../shared/load.rs"]
mod load;
#[path = "../shared/machine.rs"]
mod machine;
#[path = "../shared/report.rs"]
mod report;
#[path = "../shared/scrape.rs"]
mod scrape;
#[path = "../shared/store.rs"]
mod store;
#[path = "../shared/subject.rs"]
mod subject;
#[path = "../../tests/support/mod.rs"]
mod support;
#[path = "../shared/usage.rs"]
mod usage;

mod args;
mod figures;
mod measure;
mod plot;
mod quantity;
mod table;

use clap::Parser;

use args::Args;
use figures::Report;
use load::Load;
use support::{Need, machine_has};

fn main() {
    let args = Args::parse();
    let report = match &args.report {
        Some(path) => report::read(path),
        None => run(&args),
    };
    print!("{}", table::text(&report));
    if let Some(folder) = &args.plots {
        plot::write_all(&report, folder);
    }
}

/// What is measured joins what the file has of the same programs and machine.
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
    assert!(machine_has(Need::Upstream), "cannot measure here");
    let mut report = begin(args);
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
                report.add(measure::measure(
                    &control, &mut load, backend, program, args,
                ));
                // Now, and not when all is done: that may take hours.
                if let Some(path) = &args.json {
                    report::write(&report, path);
                }
            }
        }
    }
    report
}
