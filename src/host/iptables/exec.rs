//! The implementations of [`Iptables`] of the daemon: one runs the iptables binaries; the one of a
//! dry run prints payloads instead of restoring them, so that the daemon runs unchanged up to this
//! last step.

use std::cell::OnceCell;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::netlink::nfacct;
use super::super::netlink::nftables::has_nft_chain;
use super::super::sysctl::Changed;
use super::binaries::{Binaries, RESTORE_ARGS};
use super::interface::{
    ChangeDetection, CounterError, ForeignChange, Iptables, ListedChains, RestoreError, Restored,
    RunError,
};
use super::listing::{has_rule, list_chains, read_table};
use super::lock::UnsharedLock;
use super::nft_watch::{OwnRestore, OwnTransactions};
use super::outcome::restore_result;
use super::payload::{CopiedPayload, FailedPayloads, Sections, TruncatedText, tables};
use super::process::{Lock, Run};
use super::table_watch::TableWatch;
use crate::net::IpFamily;
use crate::rules::{Backend, COUNTER_TEST_CHAIN, Payload, Table, Text};

/// Options of runs of the binaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecOptions {
    /// Deadline of a restore (on legacy: of one table), and of the reading of a whole table; zero
    /// kills at once. Five minutes: a full restore of 50,000 Services takes about half of that on
    /// legacy, and a hanging one should not outlive the health timeout by much. Anything else has a
    /// deadline of one minute.
    ///
    /// Differs from upstream: there only the search for a single rule has a deadline, and any other
    /// program that hangs keeps its family from being synced until an operator kills it.
    pub restore_deadline: Duration,
}

impl Default for ExecOptions {
    fn default() -> Self {
        Self {
            restore_deadline: Duration::from_secs(300),
        }
    }
}

/// Runs the iptables binaries of one family.
#[derive(Debug, Clone)]
pub struct Exec {
    binaries: Binaries,
    options: ExecOptions,
    /// Result of the first conclusive try of a rule with a counter.
    nfacct_match: OnceCell<Result<(), Arc<RestoreError>>>,
    /// Detects changes by other programs; `None`: not watched.
    watch: Option<Rc<TableWatch>>,
    /// Writes payloads of failed restores to files; `None`: they are not kept.
    failed_payloads: Option<FailedPayloads>,
}

impl Exec {
    /// Runs these binaries, without watching tables and keeping failed payloads.
    pub const fn new(binaries: Binaries, options: ExecOptions) -> Self {
        Self {
            binaries,
            options,
            nfacct_match: OnceCell::new(),
            watch: None,
            failed_payloads: None,
        }
    }

    /// Writes the payloads of all later restores that fail to files.
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

    /// Returns the binaries that it runs.
    pub const fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Removes the test chain that remains if a process was killed while it tried a counter, and
    /// reports whether the chain existed.
    pub async fn remove_counter_test(&self) -> Result<Changed, RestoreError> {
        let (chain, mangle) = (COUNTER_TEST_CHAIN, Table::Mangle);
        let exists = match self.binaries.backend() {
            Backend::Nft => has_nft_chain(self.binaries.family, mangle.as_str(), chain),
            // After an error, the next start removes the chain.
            Backend::Legacy => matches!(
                list_chains(&self.binaries, mangle, &[chain]).await,
                Ok(ListedChains::Whole(_) | ListedChains::Truncated { .. })
            ),
        };
        if !exists {
            return Ok(Changed::No);
        }
        let payload = format!("*{mangle}\n:{chain} - [0:0]\n-X {chain}\nCOMMIT\n");
        self.restore(&mut Text::new(payload))
            .await
            .map(|_| Changed::Yes)
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
        let deadline = self.options.restore_deadline;
        self.restore_tables(&mut payload, deadline).await.map(drop)
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

    /// Runs the restore program once for each table.
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
                has_waited: restored
                    .as_ref()
                    .is_ok_and(|restored| !restored.lock_wait.is_zero()),
            };
            watch.after_restore(running, &ours);
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
        let Some(payloads) = &self.failed_payloads else {
            return self.restore_tables(payload, deadline).await;
        };
        let started = Instant::now();
        let mut text = TruncatedText::default();
        let mut copied = CopiedPayload::new(payload, |piece| text.push(piece));
        let restored = self.restore_tables(&mut copied, deadline).await;
        if let Err(failure) = &restored {
            let took = started.elapsed();
            payloads.write(self.binaries.family, &text, took, failure);
        }
        restored
    }

    async fn save(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        read_table(&self.binaries, self.options.restore_deadline, table, each).await
    }

    async fn list(&self, table: Table, chains: &[&str]) -> Result<ListedChains, RunError> {
        list_chains(&self.binaries, table, chains).await
    }

    async fn has(&self, table: Table, chain: &str, rule: &str) -> Result<bool, RunError> {
        has_rule(&self.binaries, table, chain, rule).await
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
    async fn restore(&self, payload: &mut dyn Payload) -> Result<Restored, RestoreError> {
        let mut text = format!("# {} restore\n", self.family).into_bytes();
        while payload.write_next(&mut text) {}
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(&text).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.stop.cancel(),
            Err(error) => {
                return Err(RestoreError::Failed {
                    status: 1,
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
