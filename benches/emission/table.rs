//! The figures as Markdown: CPU of the program, and the time on the clock in parentheses.

use std::fmt::Write;

use crate::figures::{Figure, Report};
use crate::floor::Floor;

/// One table for each topic, size and backend, and one for the floors.
pub fn text(report: &Report) -> String {
    let mut text = format!("{}\n", report.machine);
    let is_same = |one: &Figure, other: &Figure| {
        (one.topic, one.services, one.backend) == (other.topic, other.services, other.backend)
    };
    for figures in report.figures.chunk_by(is_same) {
        text.push_str(&one_table(figures));
    }
    if !report.floors.is_empty() {
        text.push_str(&floors(&report.floors));
    }
    text
}

fn one_table(figures: &[Figure]) -> String {
    let first = &figures[0];
    let tasks = distinct(figures.iter().map(|figure| &*figure.task));
    let mut text = format!(
        "\n{:?}: {} Services, {}; median of {}, ms of CPU (ms on the clock)\n\n|  |",
        first.topic, first.services, first.backend, first.samples
    );
    for task in &tasks {
        write!(text, " {task} |").unwrap();
    }
    writeln!(text, "\n|---|{}", "---:|".repeat(tasks.len())).unwrap();
    for way in distinct(figures.iter().map(|figure| &*figure.way)) {
        write!(text, "| {way} |").unwrap();
        for task in &tasks {
            let found = figures
                .iter()
                .find(|figure| figure.way == way && figure.task == *task);
            match found {
                Some(Figure { cpu, wall, .. }) => {
                    write!(text, " {:.0} ({:.0}) |", cpu * 1e3, wall * 1e3).unwrap();
                }
                None => text.push_str(" - |"),
            }
        }
        text.push('\n');
    }
    text
}

fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// A row of the floors.
type Value = fn(&Floor) -> f64;

fn floors(floors: &[Floor]) -> String {
    let mut text = String::from("\nFloor: one endpoint changes; medians in ms\n\n|  |");
    for floor in floors {
        let Floor {
            services, backend, ..
        } = floor;
        write!(text, " {services} Services, {backend} |").unwrap();
    }
    writeln!(text, "\n|---|{}", "---:|".repeat(floors.len())).unwrap();
    let rows: [(&str, Value); 7] = [
        ("change to payload", |floor| floor.handed_over),
        ("all of our work", |floor| floor.work),
        ("CPU of our thread, spawn included", |floor| floor.own_cpu),
        ("sync", |floor| floor.sync),
        ("bare program", |floor| floor.bare),
        ("CPU of the program in the sync", |floor| floor.program_cpu),
        ("CPU of the bare program", |floor| floor.bare_cpu),
    ];
    for (name, value) in rows {
        write!(text, "| {name} |").unwrap();
        for floor in floors {
            write!(text, " {:.2} |", value(floor) * 1e3).unwrap();
        }
        text.push('\n');
    }
    text.push_str("| the sync's rest over the bare program |");
    for floor in floors {
        write!(text, " {:.3} |", floor.ratio).unwrap();
    }
    text.push_str("\n| resident set, MiB |");
    for floor in floors {
        write!(text, " {:.0} |", floor.rss).unwrap();
    }
    text.push('\n');
    text
}
