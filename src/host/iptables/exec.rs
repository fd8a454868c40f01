//! The implementations of [`Iptables`] of the daemon: one restores and reads with the iptables
//! binaries; the one of a dry run prints payloads instead of restoring them, so that the daemon
//! runs unchanged up to this last step.
//!
//! Each backend is read by the command that is cheapest for it, and each kind of failure has a
//! meaning of its own: a chain or rule is missing, a third-party rule cannot be printed, or nothing
//! is known.

use std::cell::OnceCell;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::netlink::nfacct;
use super::super::netlink::nftables::{has_nft_chain, has_nft_jump};
use super::binaries::{Binaries, QUERY_DEADLINE, RESTORE_ARGS, WAIT_ARGS, query, stdout_of};
use super::interface::{
    ChangeDetection, CounterError, ForeignChange, Iptables, ListedChains, RestoreError, Restored,
    RunError, named_line, restore_result,
};
use super::lock::UnsharedLock;
use super::nft_watch::{OwnRestore, OwnTransactions};
use super::payload::{CopiedPayload, FailedPayloads, Sections, TruncatedText, describe, tables};
use super::process::{Finished, Lock, ProgramExit, Run};
use super::table_watch::TableWatch;
use crate::net::IpFamily;
use crate::rules::{Backend, COUNTER_TEST_CHAIN, Payload, Rule, Table, Text};

/// Deadline of a restore (on legacy: of one table), and of the reading of a whole table. Five
/// minutes: a full restore of 50,000 Services takes about half of that on legacy, and a hanging one
/// should not outlive the health timeout by much. Anything else has a deadline of one minute.
///
/// Differs from upstream: there only the search for a single rule has a deadline, and any other
/// program that hangs keeps its family from being synced until an operator kills it.
const RESTORE_DEADLINE: Duration = Duration::from_secs(300);

/// Runs the iptables binaries of one family.
#[derive(Debug, Clone)]
pub struct Exec {
    binaries: Binaries,
    restore_deadline: Duration,
    /// Result of the first conclusive try of a rule with a counter.
    nfacct_match: OnceCell<Result<(), Arc<RestoreError>>>,
    /// Detects changes by other programs; `None`: not watched.
    watch: Option<Rc<TableWatch>>,
    /// Receives the payloads of failed restores; `None`: they are not kept.
    failed_payloads: Option<FailedPayloads>,
}

impl Exec {
    /// Runs these binaries, without watching tables and keeping failed payloads.
    pub const fn new(binaries: Binaries) -> Self {
        Self {
            binaries,
            restore_deadline: RESTORE_DEADLINE,
            nfacct_match: OnceCell::new(),
            watch: None,
            failed_payloads: None,
        }
    }

    /// Sets the deadline of restores and of reading whole tables; zero kills at once.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn with_restore_deadline(self, restore_deadline: Duration) -> Self {
        Self {
            restore_deadline,
            ..self
        }
    }

    /// Passes on the payloads of all later restores that fail.
    pub fn keep_failed_payloads(&mut self, payloads: FailedPayloads) {
        self.failed_payloads = Some(payloads);
    }

    /// Starts to watch for changes of the tables by other programs. Has to be called within a tokio
    /// runtime. `own` is the same for all families of a network namespace.
    ///
    /// # Errors
    ///
    /// The kernel denies it, usually because the capability `NET_ADMIN` is missing. Everything else
    /// works without it.
    pub fn watch_tables(&mut self, own: &Arc<OwnTransactions>) -> std::io::Result<()> {
        let watch = TableWatch::start(self.binaries.backend(), self.binaries.family, own)?;
        self.watch = Some(Rc::new(watch));
        Ok(())
    }

    /// Waits until there is evidence that programs change rules without the xtables lock that is
    /// watched, and returns it with the path of the lock. Never returns without a watched lock.
    pub(crate) async fn unshared_lock(&self) -> (&Path, UnsharedLock) {
        match &self.watch {
            Some(watch) => watch.unshared_lock().await,
            None => std::future::pending().await,
        }
    }

    pub const fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Checks that a rule can name a counter, by creating one in a chain without references, in the
    /// smallest of our tables. `--test` does not help: it accepts a match that the kernel does not
    /// support.
    async fn try_nfacct_match(&self, counter: &str) -> Result<(), RestoreError> {
        let chain = COUNTER_TEST_CHAIN;
        let mut payload = Text::new(format!(
            "*mangle\n:{chain} - [0:0]\n-A {chain} -m nfacct --nfacct-name {counter}\nCOMMIT\n\
             *mangle\n:{chain} - [0:0]\n-X {chain}\nCOMMIT\n"
        ));
        // Its failure is no failed payload for support.
        let deadline = self.restore_deadline;
        self.restore_tables(&mut payload, deadline).await.map(drop)
    }

    /// Lists chains of the nat table as [`list`](Iptables::list) does, each rule with `-c PACKETS
    /// BYTES`.
    pub(crate) async fn list_counters(&self, chains: &[&str]) -> Result<ListedChains, RunError> {
        self.list_with(Table::Nat, chains, " -v").await
    }

    async fn list_with(
        &self,
        table: Table,
        chains: &[&str],
        option: &str,
    ) -> Result<ListedChains, RunError> {
        let list = |chain: &&str| format!("-S {chain}{option}\n");
        let lines: Vec<String> = chains.iter().map(list).collect();
        let payload = format!("*{table}\n{}COMMIT\n", lines.concat());
        let run = Run {
            program: &self.binaries.restore,
            args: &RESTORE_ARGS,
            deadline: QUERY_DEADLINE,
            lock: Lock::Separate,
        };
        match run.feed_and_read(&mut Text::new(payload)).await {
            Ok(finished) if matches!(finished.exit, ProgramExit::Exited(1..)) => {
                failed_listing(&self.binaries, table, finished)
            }
            finished => stdout_of(run.program, finished).map(ListedChains::Whole),
        }
    }

    async fn restore_tables(
        &self,
        payload: &mut dyn Payload,
        deadline: Duration,
    ) -> Result<Restored, RestoreError> {
        match self.binaries.backend() {
            Backend::Nft => self.run_restore(payload, deadline).await,
            Backend::Legacy => self.restore_by_table(payload, deadline).await,
        }
    }

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
            let restored = restored.map_err(|error| error.preceded_by(tables, lines))?;
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
            program: &self.binaries.restore,
            args: &RESTORE_ARGS,
            deadline,
            lock: match self.binaries.backend() {
                Backend::Nft => Lock::Shared,
                Backend::Legacy => Lock::Measured,
            },
        };
        let mut written = Vec::new();
        let mut payload = CopiedPayload::new(payload, |piece| written.extend(tables(piece)));
        let watch = self.watch.as_ref();
        let running = watch.and_then(|watch| watch.before_restore());
        let finished = run.feed(&mut payload).await;
        let process = finished.as_ref().ok().and_then(|finished| finished.process);
        let restored = match finished {
            Ok(finished) => restore_result(finished),
            Err(cause) => Err(RestoreError::Spawn {
                program: self.binaries.restore.to_string_lossy().into_owned(),
                cause,
                committed: 0,
            }),
        };
        if let Some(watch) = watch {
            let ours = OwnRestore {
                process,
                tables: written,
                is_applied: restored.is_ok(),
            };
            watch.after_restore(running, &ours);
        }
        restored
    }
}

impl Iptables for Exec {
    async fn restore(
        &self,
        payload: &mut dyn Payload,
        deadline: Option<Duration>,
    ) -> Result<Restored, RestoreError> {
        let usual = self.restore_deadline;
        let deadline = deadline.map_or(usual, |deadline| deadline.min(usual));
        let Some(payloads) = &self.failed_payloads else {
            return self.restore_tables(payload, deadline).await;
        };
        let started = Instant::now();
        let mut text = TruncatedText::default();
        let mut copied = CopiedPayload::new(payload, |piece| text.push(piece));
        let restored = self.restore_tables(&mut copied, deadline).await;
        if let Err(failure) = &restored {
            let took = started.elapsed();
            payloads.0(describe(&text, took, failure));
        }
        restored
    }

    /// Passes on every line that `iptables-save -t TABLE` prints, except for comments and counters.
    ///
    /// The save program of nft reads all tables whichever is requested (1.8.9: 0.47 s of CPU for a
    /// dozen rules alongside 80,000 in another table); `-S` reads one (0.02 s), and is not slower
    /// for a large one. On legacy, `-S` would wait for the lock, which save does not take.
    async fn save(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        let binaries = &self.binaries;
        let (program, args): (_, &[&str]) = match binaries.backend() {
            Backend::Nft => (&binaries.iptables, &["-t", table.as_str(), "-S"]),
            Backend::Legacy => (&binaries.save, &["-t", table.as_str()]),
        };
        let run = Run {
            program,
            args,
            deadline: self.restore_deadline,
            lock: Lock::Separate,
        };
        let finished = match binaries.backend() {
            Backend::Nft => {
                let mut read = |line: &str| match save_header(line) {
                    Some(header) => each(&header),
                    None => each(line),
                };
                read(&format!("*{table}"));
                run.lines(&mut read).await
            }
            Backend::Legacy => run.lines(each).await,
        };
        stdout_of(program, finished).map_err(RunError::classified)?;
        if binaries.backend() == Backend::Nft {
            each("COMMIT");
        }
        Ok(())
    }

    /// Lists chains in one run of the restore program: `-S` changes nothing, and on legacy each run
    /// reads the whole table.
    async fn list(&self, table: Table, chains: &[&str]) -> Result<ListedChains, RunError> {
        self.list_with(table, chains, "").await
    }

    /// Reports whether a chain has a rule, by `iptables -C`. If that stops at a rule that it cannot
    /// parse, a jump is looked up in the kernel.
    async fn has(&self, table: Table, chain: &str, rule: &str) -> Result<bool, RunError> {
        let mut args = WAIT_ARGS.to_vec();
        args.extend(["-C", chain, "-t", table.as_str()]);
        args.extend(arguments(rule));
        match query(&self.binaries.iptables, &args).await {
            Ok(_) => Ok(true),
            Err(RunError::Failed {
                exit: ProgramExit::Exited(1),
                stderr,
                ..
            }) if is_missing_rule(&stderr) => Ok(false),
            Err(RunError::Failed {
                exit: ProgramExit::Exited(2),
                stderr,
                ..
            }) if is_missing_target(&stderr) => Ok(false),
            Err(error) => match error.classified() {
                unprintable @ RunError::Unprintable { .. } => {
                    has_jump(&self.binaries, table, chain, rule).ok_or(unprintable)
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

    fn synced(&self, entries: &[(Table, u64)]) {
        if let Some(watch) = &self.watch {
            watch.synced(entries);
        }
    }

    async fn lock_released(&self) -> std::time::Instant {
        match &self.watch {
            Some(watch) => watch.lock_released().await.into_std(),
            None => std::future::pending().await,
        }
    }

    fn generation(&self) -> Option<u32> {
        self.watch.as_ref()?.generation()
    }

    fn change_detection(&self) -> ChangeDetection {
        match self.watch.as_deref() {
            Some(TableWatch::Nft(_)) => ChangeDetection::ByEvents,
            Some(TableWatch::Legacy(_)) => ChangeDetection::BySize,
            None => ChangeDetection::Off,
        }
    }

    async fn make_counter(&self, name: &str) -> Result<(), CounterError> {
        nfacct::create(name).map_err(|reason| CounterError::Kernel {
            name: name.to_owned(),
            reason,
        })?;
        if let Some(known) = self.nfacct_match.get() {
            return known.clone().map_err(CounterError::Match);
        }
        let tried = self.try_nfacct_match(name).await.map_err(Arc::new);
        let is_transient = tried.as_ref().is_err_and(|error| !error.is_conclusive());
        if !is_transient {
            // Never set at this point: commands of one family do not overlap.
            let _ = self.nfacct_match.set(tried.clone());
        }
        tried.map_err(CounterError::Match)
    }
}

/// Converts the `-N CHAIN` or `-P CHAIN POLICY` of `-S` to a declaration of the save program.
fn save_header(line: &str) -> Option<String> {
    if let Some(chain) = line.strip_prefix("-N ") {
        return Some(format!(":{chain} - [0:0]"));
    }
    let built_in = line.strip_prefix("-P ")?;
    Some(format!(":{built_in} [0:0]"))
}

fn failed_listing(
    binaries: &Binaries,
    table: Table,
    finished: Finished,
) -> Result<ListedChains, RunError> {
    if is_missing_chain(&finished.stderr) {
        return Ok(ListedChains::Missing);
    }
    let cause = RunError::Failed {
        program: binaries.restore.to_string_lossy().into_owned(),
        exit: finished.exit,
        stderr: finished.stderr,
    };
    let cause = cause.classified();
    let RunError::Unprintable { reason, .. } = &cause else {
        return Err(cause);
    };
    let printed = whole_lines(&finished.stdout);
    let incompatible = incompatible_chain(reason);
    // Versions 1.8.7 to 1.8.9 call a chain that does not exist incompatible.
    if let Some(chain) = incompatible
        && !table.built_in_chains().contains(&chain)
        && !has_nft_chain(binaries.family, table.as_str(), chain)
    {
        return Ok(ListedChains::Missing);
    }
    let chain = incompatible.or_else(|| last_chain(&printed));
    Ok(ListedChains::Truncated {
        chain: chain.unwrap_or_default().to_owned(),
        printed,
        cause,
    })
}

/// Reports whether a listing failed because a chain does not exist. Legacy prints `line 2 failed`
/// without a reason, but this is the only reason for which `-S` fails so.
fn is_missing_chain(stderr: &str) -> bool {
    const MISSING: &str = "No chain/target/match by that name.";
    stderr.lines().any(|line| {
        line.contains(MISSING) || named_line(line).is_some_and(|(_, reason)| reason.is_empty())
    })
}

/// Returns the chain in ``chain `X' in table `nat' is incompatible``.
fn incompatible_chain(message: &str) -> Option<&str> {
    message.split_once("chain `")?.1.split('\'').next()
}

/// Returns stdout without an incomplete last line: legacy exits in the middle of the line of a rule
/// that it cannot print.
fn whole_lines(stdout: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(stdout).into_owned();
    text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    text
}

fn last_chain(printed: &str) -> Option<&str> {
    let is_header = |line: &'_ str| line.starts_with("-N ") || line.starts_with("-P ");
    let last = printed.lines().rfind(|line| is_header(line))?;
    last.split(' ').nth(1)
}

/// Queries the kernel for the jump of a rule; `None` if the rule has no jump, or the query fails.
fn has_jump(binaries: &Binaries, table: Table, chain: &str, rule: &str) -> Option<bool> {
    let rule = rule.parse::<Rule>().ok()?;
    has_nft_jump(binaries.family, table.as_str(), chain, rule.target_chain()?).ok()
}

/// Reports whether `-C` failed because the rule, or its chain, does not exist. Status 1 alone may
/// be another error of the kernel.
fn is_missing_rule(stderr: &str) -> bool {
    stderr.contains("does a matching rule exist") || stderr.contains("No chain/target/match")
}

/// Reports whether `-C` failed because the target chain does not exist; the messages are those of
/// nft and legacy.
fn is_missing_target(stderr: &str) -> bool {
    stderr.contains("does not exist") || stderr.contains("Couldn't load target")
}

/// Splits a rule of ours into arguments. Only whole words are quoted, and none has escapes.
fn arguments(rule: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (index, part) in rule.split('"').enumerate() {
        if index % 2 == 1 {
            words.push(part);
        } else {
            words.extend(part.split_whitespace());
        }
    }
    words
}

/// Reads the kernel through `I`, if it may, and prints payloads on stdout.
#[derive(Debug, Clone)]
pub(crate) struct DryRun<I> {
    family: IpFamily,
    kernel: I,
    stop: CancellationToken,
}

impl<I> DryRun<I> {
    /// Prints the payloads of `family`; cancels `stop` when the reader of stdout exits.
    pub(crate) const fn new(family: IpFamily, kernel: I, stop: CancellationToken) -> Self {
        Self {
            family,
            kernel,
            stop,
        }
    }
}

impl<I: Iptables> Iptables for DryRun<I> {
    /// # Errors
    ///
    /// [`RestoreError::Failed`] if stdout cannot be written. A closed pipe is not an error: it ends
    /// the dry run.
    async fn restore(
        &self,
        payload: &mut dyn Payload,
        _: Option<Duration>,
    ) -> Result<Restored, RestoreError> {
        let mut text = format!("# {} restore\n", self.family).into_bytes();
        while payload.write_next(&mut text) {}
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(&text).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.stop.cancel(),
            Err(error) => {
                return Err(RestoreError::Failed {
                    exit: ProgramExit::Exited(1),
                    stderr: error.to_string(),
                });
            }
            Ok(()) => {}
        }
        Ok(Restored {
            payload_bytes: text.len() as u64,
            ..Restored::default()
        })
    }

    /// Treats a kernel that may not be read as empty: a dry run does not need root.
    async fn save(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        match self.kernel.save(table, each).await {
            Err(error @ RunError::Unprintable { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    async fn list(&self, table: Table, chains: &[&str]) -> Result<ListedChains, RunError> {
        self.kernel.list(table, chains).await
    }

    async fn has(&self, table: Table, chain: &str, rule: &str) -> Result<bool, RunError> {
        self.kernel.has(table, chain, rule).await
    }

    /// Checks that the kernel supports counters, and creates none. Support of the match in rules is
    /// assumed: a check takes a restore.
    async fn make_counter(&self, name: &str) -> Result<(), CounterError> {
        let exists = nfacct::exists(name);
        exists.map(drop).map_err(|reason| CounterError::Kernel {
            name: name.to_owned(),
            reason,
        })
    }
}
