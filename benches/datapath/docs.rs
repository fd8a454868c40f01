//! The figures in `deploy/docs`.

use std::fs;
use std::path::Path;

use crate::figures::Report;
use crate::plot;
use crate::shared::output;
use crate::table;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/docs");
/// The page has the figures behind this line, up to its end.
const HEADING: &str = "## Figures\n";

/// Writes the data, the plots, and the end of the page.
pub fn write(report: &Report) {
    let docs = Path::new(DOCS);
    let speed = docs.join("speed");
    output::write(report, &speed.join("datapath.json"));
    plot::write_all(report, &speed);
    let path = docs.join("datapath.md");
    let page = fs::read_to_string(&path).expect("read the page");
    let (before, _) = page.split_once(HEADING).expect("a heading of figures");
    let images =
        plot::PLOTS.map(|(name, target)| format!("![p50 to {}](speed/{name})\n\n", target.name()));
    let data = "The data is in [`speed/datapath.json`](speed/datapath.json).\n\n";
    let figures = [data, &images.concat(), &table::text(report)].concat();
    fs::write(path, format!("{before}{HEADING}\n{figures}")).expect("write the page");
}
