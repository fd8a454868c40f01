//! The real iptables: builds command lines and reads outcomes.
//!
//! Apart from [`process`](super::process), which knows programs but not iptables.

use std::time::Duration;

use crate::rules::{Backend, Payload, Table, Text};

use super::process::Run;
use super::programs::{QUERY_DEADLINE, printed, query};
use super::restore_error::outcome;
use super::{Ending, Iptables, Programs, RestoreError, Restored, RunError};

/// How the programs are run. Any value is legal; a zero deadline kills at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// After this long a restore is killed. Five minutes: a full restore of 50,000 services takes
    /// about half of that on legacy, and a stuck one should not outlive the health timeout by much.
    pub restore_deadline: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            restore_deadline: Duration::from_secs(300),
        }
    }
}

/// The iptables programs of one family.
#[derive(Debug, Clone)]
pub struct Exec {
    programs: Programs,
    options: Options,
}

impl Exec {
    /// Runs these programs.
    pub const fn new(programs: Programs, options: Options) -> Self {
        Self { programs, options }
    }

    /// The programs it runs.
    pub const fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Without the wait, a version that knows it fails at once on a held lock. Five seconds are
    /// upstream's.
    fn restore_args(&self) -> &'static [&'static str] {
        if self.programs.version.features().restore_wait_seconds {
            &["-w", "5", "--noflush", "--counters"]
        } else {
            &["--noflush", "--counters"]
        }
    }
}

impl Iptables for Exec {
    async fn restore(&self, payload: &mut dyn Payload) -> Result<Restored, RestoreError> {
        let run = Run {
            program: &self.programs.restore,
            args: self.restore_args(),
            deadline: self.options.restore_deadline,
            watch_lock: self.programs.backend() == Backend::Legacy,
        };
        match run.feed(payload).await {
            Ok(finished) => outcome(finished),
            Err(source) => Err(RestoreError::Spawn {
                program: self.programs.restore.to_string_lossy().into_owned(),
                source,
            }),
        }
    }

    async fn save(&self, table: Table) -> Result<String, RunError> {
        query(&self.programs.save, &["-t", table.as_str()]).await
    }

    /// One run of the restore program for all chains: `-S` changes nothing, and on legacy each run
    /// reads the whole table.
    async fn list(&self, table: Table, chains: &[&str]) -> Result<Option<String>, RunError> {
        let lines: Vec<String> = chains.iter().map(|chain| format!("-S {chain}\n")).collect();
        let payload = format!("*{table}\n{}COMMIT\n", lines.concat());
        let run = Run {
            program: &self.programs.restore,
            args: self.restore_args(),
            deadline: QUERY_DEADLINE,
            watch_lock: false,
        };
        let finished = run.ask(&mut Text::new(payload)).await;
        match printed(run.program, finished) {
            Ok(text) => Ok(Some(text)),
            Err(RunError::Failed {
                ending: Ending::Exited(1),
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
