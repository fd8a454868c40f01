//! The figures as Markdown: what each phase took, and in parentheses what of it falls to one
//! watcher, over and above the work of the server without watchers.

use std::fmt::Write as _;

use crate::figures::Run;
use crate::shared::machine::Machine;
use crate::subject::Subject;

type Write = fn(f64) -> String;
type Of = fn(&Run) -> f64;

/// One row, or the heading of a phase.
struct Row {
    name: &'static str,
    of: Of,
    write: Write,
    /// How the part of one watcher is written, and what else it is divided by.
    part: Option<(Write, Of)>,
}

/// All rows, phase by phase.
const ROWS: [Row; 28] = [
    plain("**all start at once**", seconds, |run| run.start.seconds),
    of_each("API server CPU", seconds, milliseconds, |run| {
        run.start.server_cpu
    }),
    of_each("CPU of the fleet", seconds, milliseconds, |run| {
        run.start.fleet_cpu
    }),
    plain("etcd CPU", seconds, |run| run.start.store_cpu),
    of_each("bytes sent", megabytes, megabytes, |run| {
        run.start.sent as f64
    }),
    of_each("requests", count, hundredths, |run| run.start.requests),
    of_each("connections", count, hundredths, |run| {
        run.start.accepted as f64
    }),
    of_each("watches open", count, hundredths, |run| run.start.watches),
    of_each("API server RSS", mebibytes, mebibytes, |run| {
        run.start.server_rss
    }),
    plain("**changes**", count, |run| run.changes as f64),
    of_each_change("API server CPU", seconds, microseconds, |run| {
        run.churn.server_cpu
    }),
    of_each_change("CPU of the fleet", seconds, microseconds, |run| {
        run.churn.fleet_cpu
    }),
    plain("etcd CPU", seconds, |run| run.churn.store_cpu),
    of_each_change("bytes sent", megabytes, bytes, |run| run.churn.sent as f64),
    of_each_change("bytes received", megabytes, bytes, |run| {
        run.churn.received as f64
    }),
    plain("**idle**", seconds, |run| run.idle.seconds),
    of_each("API server CPU", seconds, milliseconds, |run| {
        run.idle.server_cpu
    }),
    of_each("bytes sent", megabytes, bytes, |run| run.idle.sent as f64),
    plain("**server restarted**, until all watch", seconds, |run| {
        run.restart.seconds
    }),
    of_each("API server CPU", seconds, milliseconds, |run| {
        run.restart.server_cpu
    }),
    of_each("bytes sent", megabytes, megabytes, |run| {
        run.restart.sent as f64
    }),
    plain("most in one second", megabytes, |run| {
        run.restart.most_sent.unwrap_or_default()
    }),
    of_each("requests", count, hundredths, |run| run.restart.requests),
    of_each("connections", count, hundredths, |run| {
        run.restart.accepted as f64
    }),
    of_each("API server RSS", mebibytes, mebibytes, |run| {
        run.restart.server_rss
    }),
    plain("**API server RSS, peak**", mebibytes, |run| run.peak_rss),
    of_each("**RSS of the fleet**", mebibytes, mebibytes, |run| {
        run.fleet_rss
    }),
    of_each("**RSS of the fleet, peak**", mebibytes, mebibytes, |run| {
        run.fleet_peak_rss
    }),
];

const fn plain(name: &'static str, write: Write, of: Of) -> Row {
    Row {
        name,
        of,
        write,
        part: None,
    }
}

const fn of_each(name: &'static str, write: Write, part: Write, of: Of) -> Row {
    let part = Some((part, one as Of));
    Row {
        part,
        ..plain(name, write, of)
    }
}

const fn of_each_change(name: &'static str, write: Write, part: Write, of: Of) -> Row {
    let part = Some((part, changes as Of));
    Row {
        part,
        ..plain(name, write, of)
    }
}

fn one(_: &Run) -> f64 {
    1.0
}

fn changes(run: &Run) -> f64 {
    run.changes as f64
}

/// One table for all programs.
pub fn text(machine: &Machine, runs: &[Run]) -> String {
    let mut text = format!("{machine}\n");
    if let Some(run) = runs.iter().max_by_key(|run| run.watchers) {
        let (services, endpoints, watchers) = (run.services, run.endpoints, run.watchers);
        writeln!(
            text,
            "\n{services} Services x {endpoints} endpoints, {watchers} watchers\n"
        )
        .unwrap();
    }
    let baseline = runs.iter().find(|run| run.program == Subject::None);
    let names: Vec<_> = runs.iter().map(|run| run.program.name()).collect();
    writeln!(text, "|  | {} |", names.join(" | ")).unwrap();
    writeln!(text, "|---|{}", "---:|".repeat(names.len())).unwrap();
    for row in &ROWS {
        let cells: Vec<_> = runs.iter().map(|run| cell(row, run, baseline)).collect();
        writeln!(text, "| {} | {} |", row.name, cells.join(" | ")).unwrap();
    }
    text
}

fn cell(row: &Row, run: &Run, baseline: Option<&Run>) -> String {
    let value = (row.of)(run);
    let all = (row.write)(value);
    match row.part {
        Some((write, divisor)) if run.watchers > 0 => {
            let own = baseline.map_or(0.0, row.of);
            let part = (value - own) / (run.watchers as f64 * divisor(run));
            format!("{all} ({})", write(part))
        }
        _ => all,
    }
}

fn seconds(value: f64) -> String {
    format!("{value:.1} s")
}

fn milliseconds(value: f64) -> String {
    format!("{:.1} ms", value * 1e3)
}

fn microseconds(value: f64) -> String {
    format!("{:.0} µs", value * 1e6)
}

fn bytes(value: f64) -> String {
    format!("{value:.0} B")
}

fn megabytes(value: f64) -> String {
    format!("{:.2} MB", value / 1e6)
}

fn mebibytes(value: f64) -> String {
    format!("{value:.1} MiB")
}

fn count(value: f64) -> String {
    format!("{value:.0}")
}

fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}
