//! Writes figures to a file, and reads those of earlier runs for tables and plots.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::machine::{Machine, describe};

/// Flags that name the files of figures.
#[derive(Debug, Args)]
pub struct Output {
    /// Writes the figures to this file, next to those that it has of the same commit
    #[arg(long)]
    json: Option<PathBuf>,
    /// Reads figures of an earlier run instead of measuring
    #[arg(long)]
    report: Option<PathBuf>,
    /// Flag that cargo passes to every benchmark; ignored
    #[arg(long, hide = true)]
    bench: bool,
}

/// Figures of one program under one load.
pub trait Measured: Serialize + DeserializeOwned {
    type Key: Ord;

    /// Returns what distinguishes this run from the others of a file.
    fn key(&self) -> Self::Key;
}

/// All runs of one file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report<R> {
    pub machine: Machine,
    pub runs: Vec<R>,
}

impl Output {
    /// The report of the earlier run that was asked for, or of the runs that `measure` adds to
    /// those that the file has of the same machine and commit.
    pub fn report<R: Measured>(&self, measure: impl FnOnce(&mut Report<R>)) -> Report<R> {
        if let Some(report) = self.earlier() {
            return report;
        }
        let mut report = Report {
            machine: describe(),
            runs: Vec::new(),
        };
        if let Some(path) = self.json.as_ref().filter(|path| path.exists()) {
            let known: Report<R> = read(path);
            let file = path.display();
            assert_eq!(known.machine, report.machine, "{file} has other figures");
            report = known;
        }
        measure(&mut report);
        report
    }

    /// Adds a run, in order and in place of an earlier one of the same. Writes the file now, and
    /// not when all is done: that may take hours.
    pub fn add<R: Measured>(&self, report: &mut Report<R>, run: R) {
        report.runs.retain(|other| other.key() != run.key());
        report.runs.push(run);
        report.runs.sort_by_key(Measured::key);
        self.write(report);
    }

    /// The figures of the earlier run that was asked for.
    pub fn earlier<T: DeserializeOwned>(&self) -> Option<T> {
        self.report.as_deref().map(read)
    }

    /// Writes figures, if they are to be kept.
    pub fn write<T: Serialize>(&self, figures: &T) {
        if let Some(path) = &self.json {
            write(figures, path);
        }
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = fs::read_to_string(path).expect("read the figures");
    serde_json::from_str(&text).expect("figures of this bench")
}

/// Writes figures over what is there.
pub fn write<T: Serialize>(figures: &T, path: &Path) {
    let text = serde_json::to_string_pretty(figures).unwrap();
    fs::write(path, text + "\n").expect("write the figures");
}
