//! The figures as Markdown.

use std::fmt::Write;

use crate::figures::{Report, Run};

/// One table for each number of Services that exist besides.
pub fn text(report: &Report) -> String {
    let mut text = format!("{}\n", report.machine);
    let groups = report
        .runs
        .chunk_by(|one, other| one.services == other.services);
    for runs in groups {
        let Some(first) = runs.first() else { continue };
        let (services, backend) = (first.services, first.backend.name());
        write!(
            text,
            "\n{services} Services besides, {backend}; latencies in ms, memory in MiB\n\n\
             | users | program | iterations | average | min | median | p90 | p95 | p99 | max | \
             syncs | own CPU | with children | own memory | with children |\n|---:|---|{}\n",
            "---:|".repeat(13)
        )
        .unwrap();
        let mut runs: Vec<&Run> = runs.iter().collect();
        runs.sort_by_key(|run| (run.users, run.program));
        for run in runs {
            writeln!(text, "{}", row(run)).unwrap();
        }
    }
    text
}

fn row(run: &Run) -> String {
    let mut row = format!(
        "| {} | {} | {} |",
        run.users,
        run.program.name(),
        run.iterations
    );
    let latencies = run.latency.as_ref().map(|latency| {
        [
            latency.average,
            latency.minimum,
            latency.median,
            latency.p90,
            latency.p95,
            latency.p99,
            latency.maximum,
        ]
    });
    for latency in latencies.map_or([f64::NAN; 7], |all| all) {
        write!(row, " {:.0} |", latency * 1000.0).unwrap();
    }
    let whole = run.own_cpu + run.children_cpu;
    write!(
        row,
        " {:.0} | {:.2} s | {whole:.1} s | {:.0} | {:.0} |",
        run.syncs, run.own_cpu, run.own_memory, run.peak_memory
    )
    .unwrap();
    row
}
