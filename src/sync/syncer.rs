//! One sync of one family: decide, render, restore, remember.
//!
//! Apart from the [`task`](super::task) that runs it because this is the specification of a sync,
//! and that is only about when.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::decide::{FullReason, History, Scope};
use super::inspect::{Unread, inspect};
use super::outcome::{Attempt, Failure, Outcome};
use super::surroundings::Surroundings;
use crate::host::{Iptables, NoCounter, RestoreError, Restored, excerpt};
use crate::render::{
    self, Counter, Counters, Full, Ledger, Options, Partial, PartialRestore, Setting,
};
use crate::rules::{Payload, Table, Text};
use crate::tracker::Tracker;

/// What a syncer is told once.
#[derive(Debug, Clone)]
pub struct SyncerOptions {
    /// What rules depend on.
    pub surroundings: Surroundings,
    /// What partial restores name.
    pub shape: PartialRestore,
    /// How often a sync is full even if nothing calls for it.
    pub full_every: Duration,
}

/// The clock, given so that tests have their own.
pub type Clock = fn() -> Instant;

/// Everything one family needs to keep the kernel up to date.
pub struct Syncer<I> {
    /// What the cluster wants.
    pub tracker: Tracker,
    iptables: I,
    options: SyncerOptions,
    clock: Clock,
    /// What the kernel has.
    ledger: Ledger,
    history: History,
    /// What the last full restore was written with, if the kernel took it.
    written: Option<Options>,
    /// The tables that could not be read by the last full sync.
    unread: BTreeSet<Table>,
}

impl<I: Iptables> Syncer<I> {
    /// Knows nothing of the kernel yet: the first sync is full.
    pub fn new(iptables: I, tracker: Tracker, options: SyncerOptions, clock: Clock) -> Self {
        let (ledger, history) = (Ledger::default(), History::default());
        Self {
            tracker,
            iptables,
            options,
            clock,
            ledger,
            history,
            written: None,
            unread: BTreeSet::new(),
        }
    }

    /// The programs it uses.
    pub const fn iptables(&self) -> &I {
        &self.iptables
    }

    /// The next sync has to be full.
    pub fn force_full(&mut self, reason: FullReason) {
        self.history.force_full(reason);
    }

    /// What the rules in the kernel that are the same for all Services were written with; `None`
    /// while nobody knows what is there. Partial restores do not touch them.
    pub const fn written(&self) -> Option<&Options> {
        self.written.as_ref()
    }

    /// Whether it needs the machine's addresses for [`Syncer::once`].
    pub fn needs_machine_addresses(&self) -> bool {
        self.options.surroundings.needs_machine_addresses()
    }

    /// One sync. A partial restore that fails becomes a full one at once. Only what the kernel has
    /// taken is settled, so a failed sync loses nothing.
    pub async fn once(&mut self, machine: &[IpAddr]) -> Outcome {
        let mut options = self
            .options
            .surroundings
            .options(self.tracker.node(), machine);
        options.counters = self.history.counters().unwrap_or_default();
        let dirty = self.tracker.pending();
        let mut attempts = vec![self.attempt(self.scope(&options), &mut options).await];
        if let [
            Attempt {
                scope: Scope::Partial,
                result: Err(_),
                ..
            },
        ] = attempts[..]
        {
            attempts.push(
                self.attempt(Scope::Full(FullReason::Failed), &mut options)
                    .await,
            );
        }
        let is_applied = attempts
            .last()
            .is_some_and(|attempt| attempt.result.is_ok());
        let triggers = if is_applied {
            self.tracker.settle().triggers
        } else {
            Vec::new()
        };
        self.history.options = Some(options);
        self.history.zone = self.tracker.node().and_then(|node| node.zone.clone());
        Outcome {
            attempts,
            triggers,
            dirty,
            rules: self.ledger.rules(),
        }
    }

    fn scope(&self, options: &Options) -> Scope {
        let zone = self.tracker.node().and_then(|node| node.zone.as_deref());
        let setting = Setting { options, zone };
        let every = self.options.full_every;
        self.history.scope(setting, every, (self.clock)())
    }

    async fn attempt(&mut self, scope: Scope, options: &mut Options) -> Attempt {
        let started = (self.clock)();
        let (mut no_counter, mut unread) = (None, Vec::new());
        let (partial, restored) = match scope {
            Scope::Full(_) => {
                (options.counters, no_counter) = self.make_counters().await;
                self.full(options, &mut unread).await
            }
            Scope::Partial => self.partial(options).await,
        };
        let ended = (self.clock)();
        if restored.is_err() {
            self.history.force_full(FullReason::Failed);
        } else if let Scope::Full(_) = scope {
            self.history.last_full = Some(ended);
            self.history.must_be_full = None;
        }
        Attempt {
            scope,
            took: ended.saturating_duration_since(started),
            stats: partial.stats,
            payload: partial.text,
            no_counter,
            unread,
            lock_wait: restored
                .as_ref()
                .map_or(Duration::ZERO, |done| done.lock_wait),
            result: restored.map(|_| ()),
        }
    }

    /// Counters are looked after with all else in the kernel: somebody may have deleted one that no
    /// rule named. A rule does without the one that cannot be made.
    ///
    /// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "ensure the nfacct counters"
    /// (v1.36)
    async fn make_counters(&self) -> (Counters, Option<NoCounter>) {
        let (mut counters, mut why_not) = (Counters::NONE, None);
        for counter in Counter::ALL {
            match self.iptables.make_counter(counter.name()).await {
                Ok(()) => counters.add(counter),
                Err(cause) => drop(why_not.get_or_insert(cause)),
            }
        }
        let is_new = self.history.counters() != Some(counters);
        (counters, why_not.filter(|_| is_new))
    }

    async fn full(
        &mut self,
        options: &Options,
        unread: &mut Vec<Unread>,
    ) -> (Partial, Result<Restored, Failure>) {
        // Until the restore has succeeded nobody knows what the kernel holds; and two ledgers of a
        // large cluster need not be in memory at once.
        self.ledger = Ledger::default();
        self.written = None;
        let live = match inspect(&self.iptables).await {
            Ok((live, found)) => {
                *unread = self.news(found);
                live
            }
            Err(error) => return (Partial::default(), Err(Failure::Save(error))),
        };
        let zone = self.tracker.node().and_then(|node| node.zone.as_deref());
        let payload = || Full::new(&self.tracker, Setting { options, zone }, &live);
        let mut full = payload();
        let restored = self.iptables.restore(&mut full).await;
        let (ledger, stats) = full.finish();
        let result = match restored {
            Ok(restored) => {
                self.ledger = ledger;
                self.written = Some(options.clone());
                Ok(restored)
            }
            Err(error) => Err(Failure::refused(error, &mut payload())),
        };
        (
            Partial {
                stats,
                ..Partial::default()
            },
            result,
        )
    }

    /// What was not known before about tables that cannot be read.
    fn news(&mut self, mut unread: Vec<Unread>) -> Vec<Unread> {
        let now = unread.iter().map(|(table, _)| *table).collect();
        let before = std::mem::replace(&mut self.unread, now);
        unread.retain(|(table, _)| !before.contains(table));
        unread
    }

    async fn partial(&mut self, options: &Options) -> (Partial, Result<Restored, Failure>) {
        let zone = self.tracker.node().and_then(|node| node.zone.as_deref());
        let setting = Setting { options, zone };
        let (tracker, shape) = (&self.tracker, self.options.shape);
        let names: Vec<_> = tracker.dirty().collect();
        let names = names.into_iter();
        let partial = render::partial(&mut self.ledger, tracker, names, setting, shape);
        if partial.text.is_empty() {
            return (partial, Ok(Restored::default()));
        }
        let restored = self.iptables.restore(&mut Text::new(&partial.text)).await;
        let result =
            restored.map_err(|error| Failure::refused(error, &mut Text::new(&partial.text)));
        (partial, result)
    }
}

impl Failure {
    /// Adds the refused line with its neighbors; `again` is the same payload from its beginning.
    fn refused(error: RestoreError, again: &mut dyn Payload) -> Self {
        let shown = match &error {
            RestoreError::Refused { line, .. } => Some(excerpt(again, *line)),
            _ => None,
        };
        Self::Restore(error, shown)
    }
}
