//! The figures as pictures: p50 against the number of Services.

use std::error::Error;
use std::path::Path;

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use crate::figures::{Report, Target};
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

/// `(Services, microseconds)` from left to right.
type Points = Vec<(f64, f64)>;

/// Writes all plots.
pub fn write_all(report: &Report, folder: &Path) {
    for (name, target) in PLOTS {
        draw(&folder.join(name), report, target).expect("draw a plot");
    }
}

fn draw(path: &Path, report: &Report, target: Target) -> Result<(), Box<dyn Error>> {
    let lines: Vec<(Subject, RGBColor, Points)> = COLORS
        .into_iter()
        .map(|(subject, color)| (subject, color, points(report, target, subject)))
        .filter(|(_, _, points)| !points.is_empty())
        .collect();
    let all = || lines.iter().flat_map(|(_, _, points)| points);
    let range = |value: fn(&(f64, f64)) -> f64| {
        let low = all().map(value).fold(f64::MAX, f64::min);
        let high = all().map(value).fold(f64::MIN_POSITIVE, f64::max);
        // Labels begin at a power of ten.
        10_f64.powf(low.log10().floor())..(high * 1.3)
    };
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            format!("Latency of a new connection to {}, p50", target.name()),
            ("sans-serif", 18),
        )
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(72)
        .build_cartesian_2d(
            range(|point| point.0).log_scale(),
            range(|point| point.1).log_scale(),
        )?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_desc("Services")
        .y_desc("connect()")
        .x_labels(LABELS)
        .y_labels(LABELS)
        .x_label_formatter(&|services| label(*services, ""))
        .y_label_formatter(&|value| label(*value, " µs"))
        .draw()?;
    for (subject, color, points) in lines {
        let style = color.stroke_width(2);
        // A dash that is longer than the plot is a line.
        let (dash, gap) = match subject.backend() {
            Backend::Nft => (SIZE.0, 0),
            Backend::Legacy => (6, 4),
        };
        let series = DashedLineSeries::new(points.clone(), dash, gap, style);
        chart
            .draw_series(series)?
            .label(subject.name())
            .legend(move |(x, y)| DashedPathElement::new([(x, y), (x + 16, y)], dash, gap, style));
        let circles = points
            .into_iter()
            .map(|point| Circle::new(point, 3, color.filled()));
        chart.draw_series(circles)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    root.present()?;
    Ok(())
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

fn points(report: &Report, target: Target, subject: Subject) -> Points {
    let runs = report.runs.iter().filter(|run| run.subject == subject);
    let points = runs.filter_map(|run| {
        let latency = run.latency.get(&target)?;
        Some((run.services as f64, latency.p50))
    });
    points.collect()
}
