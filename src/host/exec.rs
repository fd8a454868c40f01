//! The real iptables: builds command lines and reads outcomes.
//!
//! Apart from [`process`](super::process), which knows programs but not iptables.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use crate::rules::{Backend, COUNTER_TEST_CHAIN, Payload, Rule, Table, Text};

use super::nft_jumps::has_nft_jump;
use super::nft_tables::has_nft_chain;
use super::nft_watch::OwnRestore;
use super::payload_log::{Copied, PayloadLog};
use super::process::{Lock, Run};
use super::programs::query;
use super::restore_error::outcome;
use super::sections::Sections;
use super::table_watch::TableWatch;
use super::{
    Changed, Ending, ForeignChange, Iptables, ListedChains, NoCounter, Programs, RestoreError,
    Restored, RunError, Watched, nfacct,
};

/// How the programs are run. Any value is legal; a zero deadline kills at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// After this long a restore (on legacy: of one table), or the reading of a whole table, is
    /// killed. Five minutes: a full restore of 50,000 services takes about half of that on legacy,
    /// and a stuck one should not outlive the health timeout by much. All else is killed after a
    /// minute.
    ///
    /// Differs from upstream: there only the search for a single rule has an end, and any other
    /// program that hangs keeps its family from being synced until somebody kills it.
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
    pub(super) programs: Programs,
    pub(super) options: Options,
    /// Whether rules can name counters, once that is known.
    nfacct_match: OnceCell<Result<(), Rc<RestoreError>>>,
    /// Whether other programs change the tables; `None`: not watched.
    watch: Option<Rc<TableWatch>>,
    /// The last payloads; `None`: not kept.
    payloads: Option<PayloadLog>,
}

impl Exec {
    /// Runs these programs.
    pub const fn new(programs: Programs, options: Options) -> Self {
        Self {
            programs,
            options,
            nfacct_match: OnceCell::new(),
            watch: None,
            payloads: None,
        }
    }

    /// Keeps the last payloads here from now on.
    pub fn log_payloads(&mut self, log: PayloadLog) {
        self.payloads = Some(log);
    }

    /// Begins to watch for changes of the tables by other programs. Has to be called within a
    /// runtime.
    ///
    /// # Errors
    ///
    /// The kernel refuses, mostly for want of the capability `NET_ADMIN`. Everything else works
    /// without it.
    pub fn watch_tables(&mut self) -> std::io::Result<()> {
        let watch = TableWatch::start(self.programs.backend(), self.programs.family)?;
        self.watch = Some(Rc::new(watch));
        Ok(())
    }

    /// The programs it runs.
    pub const fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Without the wait, a version that knows it fails at once on a held lock. Five seconds are
    /// upstream's.
    pub(super) fn restore_args(&self) -> &'static [&'static str] {
        if self.programs.version.features().restore_wait_seconds {
            &["-w", "5", "--noflush", "--counters"]
        } else {
            &["--noflush", "--counters"]
        }
    }

    /// Asks the kernel for the jump that a rule is; `None` for another rule, or without an answer.
    fn has_jump(&self, table: Table, chain: &str, rule: &str) -> Option<bool> {
        let rule = rule.parse::<Rule>().ok()?;
        let family = self.programs.family;
        has_nft_jump(family, table.as_str(), chain, rule.target_chain()?).ok()
    }

    /// Removes the chain that is left if a process was killed while it tried out a counter; returns
    /// whether there was one.
    pub async fn remove_counter_test(&self) -> Result<Changed, RestoreError> {
        let (chain, mangle) = (COUNTER_TEST_CHAIN, Table::Mangle);
        let is_there = match self.programs.backend() {
            Backend::Nft => has_nft_chain(self.programs.family, mangle.as_str(), chain),
            // Without an answer, the next start removes it.
            Backend::Legacy => matches!(
                self.list_chains(mangle, &[chain]).await,
                Ok(ListedChains::Whole(_) | ListedChains::Cut { .. })
            ),
        };
        if !is_there {
            return Ok(Changed::No);
        }
        let payload = format!("*{mangle}\n:{chain} - [0:0]\n-X {chain}\nCOMMIT\n");
        self.restore(&mut Text::new(payload))
            .await
            .map(|_| Changed::Yes)
    }

    /// Finds out whether a rule can name counters, by making one in a chain that nothing leads to,
    /// in the table that is the smallest of ours. `--test` would not do: it says yes to a match
    /// that the kernel does not know.
    async fn try_nfacct_match(&self, counter: &str) -> Result<(), RestoreError> {
        let chain = COUNTER_TEST_CHAIN;
        let mut payload = Text::new(format!(
            "*mangle\n:{chain} - [0:0]\n-A {chain} -m nfacct --nfacct-name {counter}\nCOMMIT\n\
             *mangle\n:{chain} - [0:0]\n-X {chain}\nCOMMIT\n"
        ));
        self.restore(&mut payload).await.map(drop)
    }
}

impl Exec {
    async fn restore_tables(
        &self,
        payload: &mut dyn Payload,
        deadline: Duration,
    ) -> Result<Restored, RestoreError> {
        match self.programs.backend() {
            Backend::Nft => self.run_restore(payload, deadline).await,
            Backend::Legacy => self.restore_by_table(payload, deadline).await,
        }
    }

    /// Runs the program once for each table.
    async fn restore_by_table(
        &self,
        payload: &mut dyn Payload,
        deadline: Duration,
    ) -> Result<Restored, RestoreError> {
        let mut sections = Sections::new(payload);
        let mut all = Restored::default();
        let (mut tables, mut lines) = (0, 0);
        while let Some(mut section) = sections.next_section() {
            let restored = self.run_restore(&mut section, deadline).await;
            let restored = restored.map_err(|error| error.behind(tables, lines))?;
            all.payload_bytes += restored.payload_bytes;
            all.lock_wait += restored.lock_wait;
            all.stderr += &restored.stderr;
            tables += 1;
            lines = sections.lines();
        }
        Ok(all)
    }

    async fn run_restore(
        &self,
        payload: &mut dyn Payload,
        deadline: Duration,
    ) -> Result<Restored, RestoreError> {
        let run = Run {
            program: &self.programs.restore,
            args: self.restore_args(),
            deadline,
            lock: match self.programs.backend() {
                Backend::Nft => Lock::Shared,
                Backend::Legacy => Lock::Measured,
            },
        };
        let mut payload = NoteTables::new(payload);
        if let Some(watch) = &self.watch {
            watch.before_restore();
        }
        let finished = run.feed(&mut payload).await;
        let process = finished.as_ref().ok().and_then(|finished| finished.process);
        let restored = match finished {
            Ok(finished) => outcome(finished),
            Err(source) => Err(RestoreError::Spawn {
                program: self.programs.restore.to_string_lossy().into_owned(),
                source,
                committed: 0,
            }),
        };
        if let Some(watch) = &self.watch {
            watch.after_restore(&OwnRestore {
                process,
                tables: payload.tables,
                is_applied: restored.is_ok(),
                has_waited: restored
                    .as_ref()
                    .is_ok_and(|restored| !restored.lock_wait.is_zero()),
            });
        }
        restored
    }
}

impl Iptables for Exec {
    async fn restore(&self, payload: &mut dyn Payload) -> Result<Restored, RestoreError> {
        self.restore_within(payload, self.options.restore_deadline)
            .await
    }

    async fn restore_within(
        &self,
        payload: &mut dyn Payload,
        deadline: Duration,
    ) -> Result<Restored, RestoreError> {
        let deadline = deadline.min(self.options.restore_deadline);
        let Some(log) = &self.payloads else {
            return self.restore_tables(payload, deadline).await;
        };
        let started = Instant::now();
        let mut copied = Copied::new(payload);
        let restored = self.restore_tables(&mut copied, deadline).await;
        let failure = restored.as_ref().err();
        log.record(
            self.programs.family,
            &copied.text,
            started.elapsed(),
            failure,
        );
        restored
    }

    async fn save(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        self.read_table(table, each).await
    }

    async fn list(&self, table: Table, chains: &[&str]) -> Result<ListedChains, RunError> {
        self.list_chains(table, chains).await
    }

    async fn has(&self, table: Table, chain: &str, rule: &str) -> Result<bool, RunError> {
        let mut args = vec!["-C", chain, "-t", table.as_str()];
        if self.programs.version.features().wait_seconds {
            args.splice(0..0, ["-w", "5"]);
        }
        args.extend(words(rule));
        match query(&self.programs.iptables, &args).await {
            Ok(_) => Ok(true),
            Err(RunError::Failed {
                ending: Ending::Exited(1),
                stderr,
                ..
            }) if lacks_rule(&stderr) => Ok(false),
            Err(RunError::Failed {
                ending: Ending::Exited(2),
                stderr,
                ..
            }) if lacks_target(&stderr) => Ok(false),
            Err(error) => match error.explained() {
                unprintable @ RunError::Unprintable { .. } => {
                    self.has_jump(table, chain, rule).ok_or(unprintable)
                }
                other => Err(other),
            },
        }
    }

    async fn changed(&self) -> ForeignChange {
        match &self.watch {
            Some(watch) => watch.changed().await,
            None => std::future::pending().await,
        }
    }

    fn generation(&self) -> Option<u32> {
        self.watch.as_ref()?.generation()
    }

    fn watched(&self) -> Watched {
        match self.watch.as_deref() {
            Some(TableWatch::Nft(_)) => Watched::ByEvents,
            Some(TableWatch::Legacy(_)) => Watched::BySize,
            None => Watched::No,
        }
    }

    async fn make_counter(&self, name: &str) -> Result<(), NoCounter> {
        nfacct::make(name).map_err(|reason| NoCounter::Kernel {
            name: name.to_owned(),
            reason,
        })?;
        if let Some(known) = self.nfacct_match.get() {
            return known.clone().map_err(NoCounter::Match);
        }
        let tried = self.try_nfacct_match(name).await.map_err(Rc::new);
        if is_verdict(&tried) {
            // Nobody else can have set it: commands of one family never overlap.
            let _ = self.nfacct_match.set(tried.clone());
        }
        tried.map_err(NoCounter::Match)
    }
}

/// A payload whose tables are noted on the way to the program.
struct NoteTables<'a> {
    payload: &'a mut dyn Payload,
    tables: Vec<Table>,
}

impl<'a> NoteTables<'a> {
    fn new(payload: &'a mut dyn Payload) -> Self {
        Self {
            payload,
            tables: Vec::new(),
        }
    }
}

impl Payload for NoteTables<'_> {
    fn write_next(&mut self, buf: &mut Vec<u8>) -> bool {
        let start = buf.len();
        let is_more = self.payload.write_next(buf);
        let written = buf.get(start..).unwrap_or_default();
        // Pieces are whole lines.
        let lines = written.split(|byte| *byte == b'\n');
        let names = lines.filter_map(|line| line.strip_prefix(b"*"));
        let tables = names.filter_map(|name| Table::from_name(str::from_utf8(name).ok()?));
        self.tables.extend(tables);
        is_more
    }
}

/// Whether the program says that the rule, or its chain, does not exist. Status 1 alone may mean
/// other errors of the kernel.
fn lacks_rule(stderr: &str) -> bool {
    stderr.contains("does a matching rule exist") || stderr.contains("No chain/target/match")
}

/// Whether the rule cannot be there because the chain that it leads to is not; nft, then legacy.
fn lacks_target(stderr: &str) -> bool {
    stderr.contains("does not exist") || stderr.contains("Couldn't load target")
}

/// A rule of ours as arguments. Only whole words are in quotes, and none is escaped.
fn words(rule: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (place, part) in rule.split('"').enumerate() {
        if place % 2 == 1 {
            words.push(part);
        } else {
            words.extend(part.split_whitespace());
        }
    }
    words
}

/// Whether the outcome tells something of the kernel and the programs, and not of the moment.
fn is_verdict(tried: &Result<(), Rc<RestoreError>>) -> bool {
    match tried.as_ref().map_err(Rc::as_ref) {
        Ok(()) | Err(RestoreError::Refused { .. } | RestoreError::Failed { .. }) => true,
        Err(
            RestoreError::Locked { .. }
            | RestoreError::TimedOut { .. }
            | RestoreError::Killed { .. }
            | RestoreError::Spawn { .. },
        ) => false,
    }
}
