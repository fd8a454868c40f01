//! What was measured, as a table in Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use crate::damage::Damage;
use crate::measure::Run;
use crate::shared::latency::percentile;

/// A line for each damage, with a column for each program and backend.
pub fn text(services: usize, runs: &[Run]) -> String {
    let mut text = format!("| {services} Services: outage p50 / p99 / longest |");
    for run in runs {
        let _ = write!(text, " {}, {} |", run.program.name(), run.backend.name());
    }
    text += "\n|---|";
    text += &"---:|".repeat(runs.len());
    for damage in Damage::ALL {
        let _ = write!(text, "\n| {} |", damage.name());
        for run in runs {
            let _ = write!(text, " {} |", outages(run, damage));
        }
    }
    text += "\n| full restores, but for those after `-F` of the table |";
    for run in runs {
        let _ = write!(text, " {} |", run.full_restores);
    }
    text += "\n| idle, share of one CPU |";
    for run in runs {
        let idle = run.idle.map(|share| format!("{:.3} %", share * 100.0));
        let _ = write!(text, " {} |", idle.unwrap_or_default());
    }
    text + "\n"
}

fn outages(run: &Run, damage: Damage) -> String {
    let tries = run.outages.get(&damage).map_or(&[][..], Vec::as_slice);
    if tries.iter().any(Option::is_none) {
        return format!("not within {} s", run.patience.as_secs());
    }
    let mut sorted: Vec<Duration> = tries.iter().copied().flatten().collect();
    sorted.sort_unstable();
    if sorted.is_empty() {
        return String::new();
    }
    let at = [50, 99, 100].map(|percent| percentile(&sorted, percent).unwrap());
    at.map(|time| format!("{} ms", time.as_millis()))
        .join(" / ")
}
