//! Reading a table whole.
//!
//! Apart from the other commands because the two backends are best asked in different words, and
//! because this is the one answer that is read while it is printed.

use super::RunError;
use super::exec::Exec;
use super::process::{Lock, Run};
use super::programs::printed;
use crate::rules::{Backend, Table};

impl Exec {
    /// Gives every line of what `iptables-save -t TABLE` prints, comments and counters aside.
    ///
    /// The save program of nft reads all tables whichever is wanted (1.8.9: 0.47 s of CPU for a
    /// dozen rules beside 80,000 in another table); `-S` reads one (0.02 s), and is not slower for
    /// a large one. On legacy it would wait for the lock, and save does not need it.
    pub(super) async fn read_table(
        &self,
        table: Table,
        each: &mut dyn FnMut(&str),
    ) -> Result<(), RunError> {
        match self.programs.backend() {
            Backend::Nft => self.list_table(table, each).await,
            Backend::Legacy => self.save_table(table, each).await,
        }
    }

    async fn list_table(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        let program = &self.programs.iptables;
        let run = Run {
            program,
            args: &["-t", table.as_str(), "-S"],
            deadline: self.options.restore_deadline,
            lock: Lock::Separate,
        };
        let mut read = |line: &str| match header(line) {
            Some(header) => each(&header),
            None => each(line),
        };
        read(&format!("*{table}"));
        match printed(program, run.lines(&mut read).await) {
            Ok(_) => {
                each("COMMIT");
                Ok(())
            }
            Err(error) => Err(error.explained()),
        }
    }

    async fn save_table(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        let program = &self.programs.save;
        let run = Run {
            program,
            args: &["-t", table.as_str()],
            deadline: self.options.restore_deadline,
            lock: Lock::Separate,
        };
        let printed = printed(program, run.lines(each).await);
        printed.map(drop).map_err(RunError::explained)
    }
}

/// What a line of `-S` says of a chain, in the words of save: `-N CHAIN` or `-P CHAIN POLICY`.
fn header(line: &str) -> Option<String> {
    if let Some(chain) = line.strip_prefix("-N ") {
        return Some(format!(":{chain} - [0:0]"));
    }
    let built_in = line.strip_prefix("-P ")?;
    Some(format!(":{built_in} [0:0]"))
}
