//! The figures as Markdown: what each program needs, and how many times less than kube-proxy.

use std::fmt::Write;

use crate::figures::{Report, Run};
use crate::quantity::{QUANTITIES, Quantity};
use crate::shared::subject::Subject;

/// One table for each size and backend.
pub fn text(report: &Report) -> String {
    let mut text = format!("{}\n", report.machine);
    for runs in groups(&report.runs) {
        let Some(first) = runs.first() else { continue };
        let (services, endpoints) = (first.services, first.endpoints);
        let backend = first.backend.name();
        write!(
            text,
            "\n{services} Services x {endpoints} endpoints, {backend}\n\n|  |"
        )
        .unwrap();
        for run in runs {
            write!(text, " {} |", run.program.name()).unwrap();
        }
        writeln!(text, "\n|---|{}", "---:|".repeat(runs.len())).unwrap();
        for quantity in &QUANTITIES {
            writeln!(text, "{}", row(quantity, runs)).unwrap();
        }
    }
    text
}

/// Runs of one size and backend stand together.
fn groups(runs: &[Run]) -> impl Iterator<Item = &[Run]> {
    runs.chunk_by(|one, other| (one.services, one.backend) == (other.services, other.backend))
}

fn row(quantity: &Quantity, runs: &[Run]) -> String {
    let base = runs.iter().find(|run| run.program == Subject::KubeProxy);
    let base = base.and_then(quantity.of);
    let mut row = format!("| {} |", quantity.name);
    for run in runs {
        let cell = match ((quantity.of)(run), base) {
            (None, _) => "-".to_owned(),
            (Some(value), Some(base)) if run.program != Subject::KubeProxy && value > 0.0 => {
                format!("{} ({})", quantity.unit.write(value), ratio(base / value))
            }
            (Some(value), _) => quantity.unit.write(value),
        };
        write!(row, " {cell} |").unwrap();
    }
    row
}

fn ratio(times: f64) -> String {
    if times < 10.0 {
        format!("{times:.1} x")
    } else {
        format!("{times:.0} x")
    }
}
