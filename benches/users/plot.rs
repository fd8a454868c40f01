//! Latencies as pictures: for each number of users, the programs side by side.
//!
//! Without the minimum, of which the programs' sums of latencies tell least.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use plotters::prelude::*;

use crate::figures::{Latency, Report, Run};
use crate::shared::plot::{self, Drawn, SIZE};
use crate::shared::subject::Subject;

/// Where the line of a program stands between two numbers of users.
const LINES: [(Subject, f64); 3] = [
    (Subject::KubeProxy, -0.2),
    (Subject::KubeProxyNftables, 0.0),
    (Subject::Deltaproxy, 0.2),
];

/// Writes `users-SERVICES.svg` for each number of Services that exist besides.
pub fn write_all(report: &Report, folder: &Path) {
    fs::create_dir_all(folder).expect("make the folder");
    let sizes: BTreeSet<usize> = report.runs.iter().map(|run| run.services).collect();
    for services in sizes {
        let of_size = |run: &&Run| run.services == services;
        let runs: Vec<&Run> = report.runs.iter().filter(of_size).collect();
        let path = folder.join(format!("users-{services}.svg"));
        draw(&path, services, &runs).expect("draw a plot");
    }
}

fn draw(path: &Path, services: usize, runs: &[&Run]) -> Drawn {
    let users: BTreeSet<usize> = runs.iter().map(|run| run.users).collect();
    let users: Vec<usize> = users.into_iter().collect();
    let caption = format!("From the request to the kernel, {services} Services besides");
    let ranges = (-0.5..users.len() as f64 - 0.5, 0.0..highest(runs) * 1.4);
    plot::draw(path, SIZE, caption, ranges, |chart| {
        chart
            .configure_mesh()
            .disable_x_mesh()
            .max_light_lines(1)
            .y_labels(6)
            .x_labels(2 * users.len() + 1)
            .x_desc("users: a bar from median to p99, a line to the maximum, a dot at the average")
            .y_desc("latency")
            .x_label_formatter(&|place| match users.get(place.round() as usize) {
                Some(number) if place.fract() == 0.0 => number.to_string(),
                _ => String::new(),
            })
            .y_label_formatter(&|seconds| format!("{:.0} ms", seconds * 1000.0))
            .draw()?;
        for (program, shift) in LINES {
            let color = program.color();
            let places = places(program, shift, &users, runs);
            if places.is_empty() {
                continue;
            }
            let line = |(place, from, to): (f64, f64, f64), width| {
                PathElement::new([(place, from), (place, to)], color.stroke_width(width))
            };
            chart
                .draw_series(places.iter().flat_map(|(place, latency)| {
                    [
                        line((*place, latency.p99, latency.maximum), 1),
                        line((*place, latency.median, latency.p99), 7),
                    ]
                }))?
                .label(program.name())
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 16, y)], color.stroke_width(7))
                });
            chart.draw_series(places.iter().map(|(place, latency)| {
                Circle::new((*place, latency.average), 5, color.filled())
            }))?;
        }
        plot::legend(chart)
    })
}

fn highest(runs: &[&Run]) -> f64 {
    let latencies = runs.iter().filter_map(|run| run.latency.as_ref());
    latencies.fold(f64::MIN_POSITIVE, |high, one| high.max(one.maximum))
}

/// Where the latencies of a program stand on the horizontal axis.
fn places<'a>(
    program: Subject,
    shift: f64,
    users: &[usize],
    runs: &[&'a Run],
) -> Vec<(f64, &'a Latency)> {
    let runs = runs.iter().filter(|run| run.program == program);
    runs.filter_map(|run| {
        let place = users.iter().position(|number| *number == run.users)?;
        Some((place as f64 + shift, run.latency.as_ref()?))
    })
    .collect()
}
