//! The figures as pictures: each quantity against the number of Services.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::figures::{Report, Run};
use crate::quantity::{QUANTITIES, Quantity, Unit};
use crate::shared::plot::{Drawn, Line, Plot, SIZE};
use crate::shared::subject::Subject;
use crate::support::daemon::Backend;

/// Programs that are drawn, in the order of the legend.
const LINES: [Subject; 5] = [
    Subject::KubeProxy,
    Subject::KubeProxyNftables,
    Subject::Deltaproxy,
    Subject::Deltaproxy1s,
    Subject::Deltaproxy0s,
];

/// Of everything that is measured, what pages show.
const DRAWN: [&str; 6] = [
    "full-sync",
    "restart",
    "partial-sync",
    "programming-p50",
    "total-cpu",
    "rss",
];

/// Writes `BACKEND-QUANTITY.svg` for all that is drawn and was measured at two sizes or more.
pub fn write_all(report: &Report, folder: &Path) {
    fs::create_dir_all(folder).expect("make the folder");
    for backend in [Backend::Nft, Backend::Legacy] {
        let runs: Vec<&Run> = report
            .runs
            .iter()
            .filter(|run| run.backend == backend)
            .collect();
        let sizes: BTreeSet<usize> = runs.iter().map(|run| run.services).collect();
        if sizes.len() < 2 {
            continue;
        }
        let is_drawn = |quantity: &&Quantity| DRAWN.contains(&quantity.slug);
        for quantity in QUANTITIES.iter().filter(is_drawn) {
            let path = folder.join(format!("{}-{}.svg", backend.name(), quantity.slug));
            draw(&path, quantity, backend, &runs).expect("draw a plot");
        }
    }
}

fn draw(path: &Path, quantity: &Quantity, backend: Backend, runs: &[&Run]) -> Drawn {
    let lines = LINES.into_iter().map(|subject| Line {
        name: subject.name(),
        color: subject.color(),
        dash: None,
        points: points(quantity, subject, runs),
    });
    let what = match quantity.unit {
        Unit::Seconds => "time",
        Unit::Mebibytes => "memory",
    };
    let plot = Plot {
        size: SIZE,
        caption: format!("{}, iptables-{}", quantity.name, backend.name()),
        axes: ["Services x 5 endpoints", what],
        labels: [&|services| format!("{services:.0}"), &|value| {
            quantity.unit.write(*value)
        }],
        most_labels: 11,
        range: |low, high| (low / 1.5)..(high * 1.5),
        lines: lines.filter(|line| !line.points.is_empty()).collect(),
    };
    plot.draw(path)
}

fn points(quantity: &Quantity, subject: Subject, runs: &[&Run]) -> Vec<(f64, f64)> {
    let runs = runs.iter().filter(|run| run.program == subject);
    let mut points: Vec<(f64, f64)> = runs
        .filter_map(|run| Some((run.services as f64, (quantity.of)(run)?)))
        // A logarithmic scale has no nought; CPU below a tick reads as one.
        .filter(|(_, value)| *value > 0.0)
        .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}
