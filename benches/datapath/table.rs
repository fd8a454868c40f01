//! The figures as Markdown.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::figures::{Report, Run, Target};
use crate::subject::Subject;

/// All tables.
pub fn text(report: &Report) -> String {
    let table = Table::of(report);
    format!(
        "{}\n\n\
         Duration of `connect()`, p50 / p90 / p99 in microseconds:\n\n{}\n\
         New connections per second at saturation:\n\n{}\n\
         CPU time of one of these in microseconds, of all CPUs / of client and server alone:\n\n\
         {}\n{}\n",
        report.machine,
        table.latency(),
        table.by_size(|run| format!("{:.0}", run.saturation.rate())),
        table.by_size(|run| {
            let (all, own) = run.saturation.cpu_each();
            format!("{all:.1} / {own:.1}")
        }),
        quality(&report.runs),
    )
}

/// Runs, with a column for each subject.
struct Table<'r> {
    runs: &'r [Run],
    subjects: BTreeSet<Subject>,
    sizes: BTreeSet<usize>,
}

impl<'r> Table<'r> {
    fn of(report: &'r Report) -> Self {
        let runs = &report.runs;
        Self {
            runs,
            subjects: runs.iter().map(|run| run.subject).collect(),
            sizes: runs.iter().map(|run| run.services).collect(),
        }
    }

    fn latency(&self) -> String {
        let mut text = self.head("| Services | to |", "|---:|---|");
        for &services in &self.sizes {
            for target in Target::ALL {
                write!(text, "| {services} | {} |", target.name()).unwrap();
                self.cells(&mut text, services, |run| latency(run, target));
            }
        }
        text
    }

    fn by_size(&self, cell: fn(&Run) -> String) -> String {
        let mut text = self.head("| Services |", "|---:|");
        for &services in &self.sizes {
            write!(text, "| {services} |").unwrap();
            self.cells(&mut text, services, cell);
        }
        text
    }

    fn head(&self, names: &str, rule: &str) -> String {
        let mut head = names.to_owned();
        for subject in &self.subjects {
            write!(head, " {} |", subject.name()).unwrap();
        }
        head + "\n" + rule + &"---:|".repeat(self.subjects.len()) + "\n"
    }

    fn cells(&self, text: &mut String, services: usize, cell: impl Fn(&Run) -> String) {
        for &subject in &self.subjects {
            let of = |run: &&Run| (run.services, run.subject) == (services, subject);
            let run = self.runs.iter().find(of);
            write!(text, " {} |", run.map_or_else(|| "-".to_owned(), &cell)).unwrap();
        }
        text.push('\n');
    }
}

fn latency(run: &Run, target: Target) -> String {
    let Some(latency) = run.latency.get(&target) else {
        return "-".to_owned();
    };
    let percentiles = [latency.p50, latency.p90, latency.p99].map(|value| {
        let decimals = usize::from(value < 99.95);
        format!("{value:.decimals$}")
    });
    percentiles.join(" / ")
}

/// How far the figures can be trusted.
fn quality(runs: &[Run]) -> String {
    let latencies = || runs.iter().flat_map(|run| run.latency.values());
    let mut spreads: Vec<f64> = latencies()
        .map(|latency| {
            let rounds = || latency.p50_of_rounds.iter().copied();
            let (low, high) = (
                rounds().fold(f64::MAX, f64::min),
                rounds().fold(0.0, f64::max),
            );
            (high / low - 1.0) * 100.0
        })
        .collect();
    spreads.sort_by(f64::total_cmp);
    let middle = spreads.get(spreads.len() / 2).copied().unwrap_or_default();
    let largest = spreads.last().copied().unwrap_or_default();
    let saturations = || runs.iter().map(|run| run.saturation);
    let failed: usize = latencies().map(|latency| latency.failed).sum::<usize>()
        + saturations()
            .map(|saturation| saturation.failed)
            .sum::<usize>();
    let all: usize = latencies()
        .map(|latency| latency.connections)
        .sum::<usize>()
        + saturations()
            .map(|saturation| saturation.connections)
            .sum::<usize>()
        + failed;
    let load = runs.iter().map(|run| run.other_load).fold(0.0, f64::max) * 100.0;
    format!(
        "Noise: the p50 of the rounds of one cell differ by {middle:.0} % (median), {largest:.0} % \
         at most. Other programs took up to {load:.0} % of all CPUs. {failed} of {all} connections failed."
    )
}
