//! The figures as pictures: each quantity against the number of Services.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use plotters::prelude::*;

use crate::figures::{Report, Run};
use crate::quantity::{QUANTITIES, Quantity, Unit};
use crate::shared::subject::Subject;
use crate::support::daemon::Backend;

const SIZE: (u32, u32) = (640, 400);
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

/// A program, and `(Services, value)` from left to right.
type Line = (Subject, Vec<(f64, f64)>);

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

fn draw(
    path: &Path,
    quantity: &Quantity,
    backend: Backend,
    runs: &[&Run],
) -> Result<(), Box<dyn Error>> {
    let lines: Vec<Line> = LINES
        .into_iter()
        .map(|subject| (subject, points(quantity, subject, runs)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let all = || lines.iter().flat_map(|(_, points)| points);
    let range = |value: fn(&(f64, f64)) -> f64| {
        let (low, high) = all()
            .map(value)
            .fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        (low / 1.5)..(high * 1.5)
    };
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            format!("{}, iptables-{}", quantity.name, backend.name()),
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
        .x_desc("Services x 5 endpoints")
        .y_desc(match quantity.unit {
            Unit::Seconds => "time",
            Unit::Mebibytes => "memory",
        })
        .x_label_formatter(&|services| format!("{services:.0}"))
        .y_label_formatter(&|value| quantity.unit.write(*value))
        .draw()?;
    for (subject, points) in lines {
        let (red, green, blue) = subject.color();
        let color = RGBColor(red, green, blue);
        let line = LineSeries::new(points.clone(), color.stroke_width(2));
        chart
            .draw_series(line)?
            .label(subject.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
        chart.draw_series(
            points
                .into_iter()
                .map(|point| Circle::new(point, 3, color.filled())),
        )?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    root.present()?;
    Ok(())
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
