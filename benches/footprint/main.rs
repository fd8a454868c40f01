//! What a node spends on its proxy: memory and CPU by the number of Services and by how often they
//! change, what a scrape costs, and whether memory is steady.
//!
//! For operators who size the DaemonSet. Needs root, and the programs that `tests/run.sh` builds:
//!
//! ```text
//! cargo bench --bench footprint -- --json resources.json
//! cargo bench --bench footprint -- --churn-for 30m --services 1000 --rate 10 --plots FOLDER
//! cargo bench --bench footprint -- --backend legacy
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
mod plot;
mod size;
mod steady;
mod table;

use clap::Parser;

use args::Args;
use figures::{Of, Report};
use shared::load::Load;
use shared::machine;
use support::kube::ControlPlane;
use support::{Need, machine_has};

fn main() {
    let args = Args::parse();
    let report = args.output.earlier().unwrap_or_else(|| run(&args));
    print!("{}", table::text(&report));
    args.output.write(&report);
    if let Some(folder) = &args.plots {
        plot::write_all(&report, folder);
    }
}

fn run(args: &Args) -> Report {
    assert!(machine_has(Need::Upstream), "cannot measure here");
    let mut report = Report::new(machine::describe());
    for services in args.services() {
        eprintln!(
            "{services} Services x {} endpoints: loading",
            args.endpoints
        );
        let (control, mut load) = Load::in_new_cluster(services, args.endpoints);
        for &program in &args.programs {
            eprintln!("{services} Services: {}", program.name());
            let of = Of {
                services,
                endpoints: args.endpoints,
                backend: args.backend,
                program,
            };
            measure(&mut report, &control, &mut load, of, args);
        }
    }
    // The sizes of one program stand together.
    report.sizes.sort_by_key(|size| size.of.program.name());
    report
}

fn measure(report: &mut Report, control: &ControlPlane, load: &mut Load, of: Of, args: &Args) {
    match args.churn_for {
        None => report.sizes.push(size::measure(control, load, of, args)),
        Some(time) => report
            .steady
            .push(steady::measure(control, load, of, time, args)),
    }
}
