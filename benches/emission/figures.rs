//! What was measured: many costs of one thing, and their median.

use std::time::{Duration, Instant};

use deltaproxy::testing::rules::Backend;
use serde::Serialize;

use crate::args::{Args, Topic};
use crate::floor::Floor;
use crate::kernel::Cost;
use crate::machine::Machine;

/// All of one call.
#[derive(Debug, Serialize)]
pub struct Report {
    pub machine: Machine,
    pub figures: Vec<Figure>,
    pub floors: Vec<Floor>,
}

/// The medians of one way to do one thing, in seconds.
#[derive(Debug, Serialize)]
pub struct Figure {
    pub topic: Topic,
    pub services: usize,
    pub backend: &'static str,
    /// What was to be done.
    pub task: String,
    /// How.
    pub way: String,
    pub bytes: usize,
    pub cpu: f64,
    pub wall: f64,
    pub samples: usize,
}

impl Report {
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            figures: Vec::new(),
            floors: Vec::new(),
        }
    }

    pub fn add(&mut self, notes: Notes) {
        let Notes {
            topic,
            services,
            backend,
            ..
        } = notes;
        self.figures.extend(notes.entries.into_iter().map(|entry| {
            let of = |part: fn(&Cost) -> f64| median(entry.costs.iter().map(part));
            Figure {
                topic,
                services,
                backend: backend.as_str(),
                bytes: entry.bytes,
                cpu: of(|cost| cost.cpu),
                wall: of(|cost| cost.wall),
                samples: entry.costs.len(),
                task: entry.task,
                way: entry.way,
            }
        }));
    }
}

/// The costs of one topic at one size, in the order in which they first came.
pub struct Notes {
    pub topic: Topic,
    pub services: usize,
    pub backend: Backend,
    rounds: usize,
    patience: Duration,
    entries: Vec<Entry>,
}

struct Entry {
    task: String,
    way: String,
    bytes: usize,
    costs: Vec<Cost>,
}

impl Notes {
    pub fn new(topic: Topic, services: usize, backend: Backend, args: &Args) -> Self {
        Self {
            topic,
            services,
            backend,
            rounds: args.rounds,
            patience: args.patience,
            entries: Vec::new(),
        }
    }

    /// Runs rounds: one in any case, and no more than there is patience for.
    pub fn rounds(&mut self, mut round: impl FnMut(&mut Self)) {
        let began = Instant::now();
        for done in 1..=u32::try_from(self.rounds.max(1)).unwrap() {
            round(self);
            if began.elapsed() / done * (done + 1) > self.patience {
                return;
            }
        }
    }

    /// Notes one cost of doing `task` in this way.
    pub fn add(&mut self, task: &str, way: &str, cost: Cost) {
        let known = |entry: &&mut Entry| (&*entry.task, &*entry.way) == (task, way);
        if let Some(entry) = self.entries.iter_mut().find(known) {
            entry.costs.push(cost);
        } else {
            self.entries.push(Entry {
                task: task.to_owned(),
                way: way.to_owned(),
                bytes: cost.bytes,
                costs: vec![cost],
            });
        }
    }
}

/// The middle one; of an even number, the upper of the two.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
