//! The figures as pictures: p50 against the number of Services.

use std::path::Path;

use plotters::prelude::RGBColor;

use crate::figures::{Report, Target};
use crate::shared::plot::{Drawn, Line, Plot};
use crate::subject::Subject;
use crate::support::daemon::Backend;

const SIZE: (u32, u32) = (720, 440);
/// Enough for labels between the powers of ten.
const LABELS: usize = 24;

/// Colors that people who do not see red and green apart can tell apart. The backend is that of
/// the stroke: legacy is dashed.
const COLORS: [(Subject, RGBColor); 7] = [
    (Subject::KubeProxyNft, RGBColor(0xd5, 0x5e, 0x00)),
    (Subject::FlatNft, RGBColor(0x66, 0x66, 0x66)),
    (Subject::TreeNft, RGBColor(0x00, 0x72, 0xb2)),
    (Subject::KubeProxyLegacy, RGBColor(0xd5, 0x5e, 0x00)),
    (Subject::FlatLegacy, RGBColor(0x66, 0x66, 0x66)),
    (Subject::TreeLegacy, RGBColor(0x00, 0x72, 0xb2)),
    (Subject::KubeProxyNftables, RGBColor(0xcc, 0x79, 0xa7)),
];

/// Name of the file of each plot, and its target.
pub const PLOTS: [(&str, Target); 2] = [
    ("datapath-last.svg", Target::Last),
    ("datapath-absent.svg", Target::Absent),
];

/// Writes all plots.
pub fn write_all(report: &Report, folder: &Path) {
    for (name, target) in PLOTS {
        draw(&folder.join(name), report, target).expect("draw a plot");
    }
}

fn draw(path: &Path, report: &Report, target: Target) -> Drawn {
    let lines = COLORS.into_iter().map(|(subject, color)| Line {
        name: subject.name(),
        color,
        dash: (subject.backend() == Backend::Legacy).then_some((6, 4)),
        points: points(report, target, subject),
    });
    let plot = Plot {
        size: SIZE,
        caption: format!("Latency of a new connection to {}, p50", target.name()),
        axes: ["Services", "connect()"],
        labels: [&|services| label(*services, ""), &|value| {
            label(*value, " µs")
        }],
        most_labels: LABELS,
        // Labels begin at a power of ten.
        range: |low, high| 10_f64.powf(low.log10().floor())..(high * 1.3),
        lines: lines.filter(|line| !line.points.is_empty()).collect(),
    };
    plot.draw(path)
}

/// One, two and five of a power of ten have labels.
fn label(value: f64, unit: &str) -> String {
    let number = format!("{value:.0}");
    if number.starts_with(['1', '2', '5']) {
        number + unit
    } else {
        String::new()
    }
}

fn points(report: &Report, target: Target, subject: Subject) -> Vec<(f64, f64)> {
    let runs = report.runs.iter().filter(|run| run.subject == subject);
    let points = runs.filter_map(|run| {
        let latency = run.latency.get(&target)?;
        Some((run.services as f64, latency.p50))
    });
    points.collect()
}
