//! What the plots look like.

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, Ranged};
use plotters::element::DashedPathElement;
use plotters::prelude::*;

pub const SIZE: (u32, u32) = (640, 400);

/// Whether it was drawn.
pub type Drawn = Result<(), Box<dyn Error>>;

type Chart<'p, X, Y> = ChartContext<'p, SVGBackend<'p>, Cartesian2d<X, Y>>;

/// Draws the frame of a plot; `content` draws the rest.
pub fn draw<'p, X: AsRangedCoord, Y: AsRangedCoord>(
    path: &'p Path,
    size: (u32, u32),
    caption: String,
    (x, y): (X, Y),
    content: impl FnOnce(&mut Chart<'p, X::CoordDescType, Y::CoordDescType>) -> Drawn,
) -> Drawn {
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(caption, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(72)
        .build_cartesian_2d(x, y)?;
    content(&mut chart)?;
    root.present()?;
    Ok(())
}

/// Draws what the colors mean.
pub fn legend<X: Ranged, Y: Ranged>(chart: &mut Chart<'_, X, Y>) -> Drawn {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

/// Something that is measured at several sizes.
pub struct Line {
    pub name: &'static str,
    pub color: RGBColor,
    pub dash: Option<(u32, u32)>,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// Lines in a plot with logarithmic scales. Of two, the first is of the horizontal axis.
pub struct Plot<'a> {
    pub size: (u32, u32),
    pub caption: String,
    pub axes: [&'a str; 2],
    pub labels: [&'a dyn Fn(&f64) -> String; 2],
    pub most_labels: usize,
    /// The part of an axis that is shown, by the lowest value and the highest.
    pub range: fn(f64, f64) -> Range<f64>,
    pub lines: Vec<Line>,
}

impl Plot<'_> {
    pub fn draw(self, path: &Path) -> Drawn {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let range = |value: fn(&(f64, f64)) -> f64| {
            let low = all().map(value).fold(f64::MAX, f64::min);
            let high = all().map(value).fold(f64::MIN_POSITIVE, f64::max);
            (self.range)(low, high).log_scale()
        };
        let ranges = (range(|point| point.0), range(|point| point.1));
        draw(path, self.size, self.caption, ranges, |chart| {
            chart
                .configure_mesh()
                .max_light_lines(1)
                .x_desc(self.axes[0])
                .y_desc(self.axes[1])
                .x_labels(self.most_labels)
                .y_labels(self.most_labels)
                .x_label_formatter(&self.labels[0])
                .y_label_formatter(&self.labels[1])
                .draw()?;
            for line in self.lines {
                let (color, style) = (line.color, line.color.stroke_width(2));
                // A dash that is longer than the plot is a line.
                let (dash, gap) = line.dash.unwrap_or((self.size.0, 0));
                let series = DashedLineSeries::new(line.points.clone(), dash, gap, style);
                let series = chart.draw_series(series)?.label(line.name);
                series.legend(move |(x, y)| {
                    DashedPathElement::new([(x, y), (x + 16, y)], dash, gap, style)
                });
                let points = line.points.into_iter();
                chart.draw_series(points.map(|point| Circle::new(point, 3, color.filled())))?;
            }
            legend(chart)
        })
    }
}
