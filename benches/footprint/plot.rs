//! Memory over time as a picture.

use std::fs;
use std::path::Path;

use plotters::prelude::*;

use crate::figures::Report;
use crate::figures::Steady;
use crate::shared::plot::{self, Drawn, SIZE};

/// deltaproxy's in the plots of the comparison, too.
const COLOR: RGBColor = RGBColor(0x00, 0x72, 0xb2);

/// Writes `memory-PROGRAM-SERVICES.svg` for each churn.
pub fn write_all(report: &Report, folder: &Path) {
    fs::create_dir_all(folder).expect("make the folder");
    for steady in &report.steady {
        let of = &steady.of;
        let name = format!("memory-{}-{}.svg", of.program.name(), of.services);
        draw(&folder.join(name), steady).expect("draw a plot");
    }
}

fn draw(path: &Path, steady: &Steady) -> Drawn {
    let (of, samples) = (&steady.of, &steady.samples);
    let points = samples
        .iter()
        .map(|sample| (sample.seconds / 60.0, sample.rss));
    let points: Vec<(f64, f64)> = points.collect();
    let (end, top) = points
        .iter()
        .fold((0.0_f64, 0.0_f64), |(end, top), &(time, rss)| {
            (end.max(time), top.max(rss))
        });
    let caption = format!(
        "{}, {} Services x {} endpoints, {} changes/s",
        of.program.name(),
        of.services,
        of.endpoints,
        steady.rate
    );
    // From nought: a plot that starts below the first value makes any noise look like growth.
    let ranges = (0.0..end, 0.0..top * 1.25);
    plot::draw(path, SIZE, caption, ranges, |chart| {
        chart
            .configure_mesh()
            .max_light_lines(1)
            .x_desc("minutes")
            .y_desc("RSS")
            .x_label_formatter(&|minutes| format!("{minutes:.0}"))
            .y_label_formatter(&|rss| format!("{rss:.0} MiB"))
            .draw()?;
        chart.draw_series(LineSeries::new(points, COLOR.stroke_width(2)))?;
        Ok(())
    })
}
