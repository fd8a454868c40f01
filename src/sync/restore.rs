//! The three kinds of a sync: adopt the rules in the kernel, write everything, write what changed.
//!
//! The [`syncer`](super::syncer) decides between them. Each ends with an applied state of the
//! rules in the kernel.

use std::collections::BTreeSet;

use super::committed::{behind, is_untouched};
use super::decide::{FullReason, Scope};
use super::inspect::{Inspection, Interest, NoAnswer, Unread, inspect};
use super::outcome::Failure;
use super::syncer::Syncer;
use super::view::View;
use crate::host::{
    CounterError, Iptables, ListedChains, RestoreError, Restored, RunError, excerpt,
};
use crate::model::{ServiceName, Services};
use crate::render::{
    self, Adopted, AppliedState, Counter, Counters, DeclineReason, Full, LiveChains, LiveRules,
    Options, Partial, PartialRestore, RenderContext, guarded_chains, matches_except_kubelet_rules,
};
use crate::rules::{Payload, Table, Text};

/// Result of one attempt.
pub(super) struct Done {
    pub(super) scope: Scope,
    pub(super) partial: Partial,
    pub(super) restored: Result<Restored, Failure>,
    pub(super) no_counter: Option<CounterError>,
    pub(super) unread: Vec<Unread>,
    pub(super) declined: Option<DeclineReason>,
}

impl Done {
    fn new(scope: Scope, (partial, restored): (Partial, Result<Restored, Failure>)) -> Self {
        Self {
            scope,
            partial,
            restored,
            no_counter: None,
            unread: Vec::new(),
            declined: None,
        }
    }
}

/// Reason why rules in the kernel are not adopted.
pub(super) enum Declined {
    /// They have to be written anew.
    Reason(DeclineReason),
    /// A program gave no answer; the next sync asks again.
    NoAnswer(RunError),
}

impl<I: Iptables> Syncer<I> {
    /// Reads all rules of ours and writes what differs; everything, if there is any doubt.
    pub(super) async fn adopt(&mut self, options: &mut Options) -> Done {
        let no_counter = self.make_counters(options).await;
        let (scope, unread, declined, written) = match self.inspect(Interest::AllOfOurs).await {
            Err(error) => (Scope::Adoption, Vec::new(), None, unwritten(error)),
            Ok(Inspection {
                live,
                found,
                unread,
            }) => match self.compare(found, &live, options).await {
                Ok(adopted) => {
                    let written = self.write_rest(adopted, options).await;
                    (Scope::Adoption, unread, None, written)
                }
                Err(Declined::NoAnswer(error)) => (Scope::Adoption, unread, None, unwritten(error)),
                Err(Declined::Reason(reason)) => {
                    let written = self.write_all(&live, options).await;
                    let scope = Scope::Full(FullReason::First);
                    (scope, unread, Some(reason), written)
                }
            },
        };
        Done {
            no_counter,
            unread,
            declined,
            ..Done::new(scope, written)
        }
    }

    /// Reads what has to be known of the kernel and writes everything.
    pub(super) async fn full(&mut self, reason: FullReason, options: &mut Options) -> Done {
        let no_counter = self.make_counters(options).await;
        let known = self.live.take().map(|live| Inspection {
            live,
            ..Inspection::default()
        });
        let inspected = match known {
            Some(known) => Ok(known),
            None => self.inspect(Interest::Outlines).await,
        };
        let (unread, written) = match inspected {
            Err(error) => (Vec::new(), unwritten(error)),
            Ok(Inspection { live, unread, .. }) => (unread, self.write_all(&live, options).await),
        };
        Done {
            no_counter,
            unread,
            ..Done::new(Scope::Full(reason), written)
        }
    }

    /// Writes what differs from the applied state: of the Services that changed, or of all if
    /// something that all depend on did.
    pub(super) async fn partial(&mut self, options: &Options) -> Done {
        let mut names: BTreeSet<ServiceName> = self.tracker.dirty().cloned().collect();
        if self.history.rewrite(self.setting(options)).is_some() {
            names.extend(self.tracker.all().map(|(name, _)| name.clone()));
        }
        names.retain(|name| !self.quarantine.has(name));
        // A Service in quarantine is rendered as it was applied last.
        names.extend(std::mem::take(&mut self.drifted));
        // Services in quarantine are among these: what they lost to another one, they lose at once.
        names.extend(self.tracker.shifted().cloned());
        let names: Vec<_> = names.into_iter().collect();
        let written = self.write(&names, self.options.shape, options).await;
        Done::new(Scope::Partial, written)
    }

    /// Creates the counters: another program may have deleted one that no rule named. Rules do not
    /// name a counter that cannot be created.
    ///
    /// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "ensure the nfacct counters"
    /// (v1.36)
    async fn make_counters(&mut self, options: &mut Options) -> Option<CounterError> {
        let (mut counters, mut why_not) = (Counters::NONE, None);
        for counter in Counter::ALL {
            match self.iptables.make_counter(counter.name()).await {
                Ok(()) => counters.add(counter),
                Err(cause) => drop(why_not.get_or_insert(cause)),
            }
        }
        options.counters = counters;
        let before = self.counters.replace(counters);
        why_not.filter(|_| before != Some(counters))
    }

    /// Reads the kernel's rules. What is known of them from before stays known if that fails.
    pub(super) async fn inspect(&mut self, interest: Interest) -> Result<Inspection, RunError> {
        let no_answer = NoAnswer::after(self.unanswered);
        let inspected = inspect(&self.iptables, interest, no_answer).await;
        let mut inspection = inspected.inspect_err(|_| self.unanswered += 1)?;
        if !inspection
            .unread
            .iter()
            .any(|(_, error)| error.is_transient())
        {
            self.unanswered = 0;
        }
        // What was not known before about tables that cannot be read.
        let now = inspection.unread.iter().map(|(table, _)| *table).collect();
        let before = std::mem::replace(&mut self.unread, now);
        inspection
            .unread
            .retain(|(table, _)| !before.contains(table));
        Ok(inspection)
    }

    /// Rules in the kernel that can stay.
    pub(super) async fn compare(
        &mut self,
        found: Option<LiveRules>,
        live: &LiveChains,
        options: &Options,
    ) -> Result<Adopted, Declined> {
        let found = found.ok_or(Declined::Reason(DeclineReason::Unreadable))?;
        let adopted = render::adopt(found, live, &self.view(), self.setting(options));
        let adopted = adopted.map_err(Declined::Reason)?;
        let guarded = guarded_chains(Table::Mangle, options);
        match self.iptables.list(Table::Mangle, &guarded).await {
            Ok(ListedChains::Whole(listing))
                if matches_except_kubelet_rules(Table::Mangle, &listing, options) =>
            {
                Ok(adopted)
            }
            Err(error)
                if error.is_transient() && NoAnswer::after(self.unanswered) == NoAnswer::Fail =>
            {
                self.unanswered += 1;
                Err(Declined::NoAnswer(error))
            }
            _ => Err(Declined::Reason(DeclineReason::SharedChains(Table::Mangle))),
        }
    }

    async fn write_rest(
        &mut self,
        adopted: Adopted,
        options: &Options,
    ) -> (Partial, Result<Restored, Failure>) {
        self.applied = adopted.applied;
        self.unwritten.clear();
        // The other shape would write what is there already.
        let shape = PartialRestore::ChangedChains;
        self.write(&adopted.differing, shape, options).await
    }

    async fn write_all(
        &mut self,
        live: &LiveChains,
        options: &Options,
    ) -> (Partial, Result<Restored, Failure>) {
        if !self.knows_kernel() {
            // Two applied states of a large cluster need not be in memory at once.
            self.forget_kernel();
        }
        let view = self.view();
        let payload = || Full::new(&view, self.setting(options), live);
        let mut full = payload();
        let restored = self.give(&mut full).await;
        let is_untouched = restored
            .as_ref()
            .is_err_and(|error| is_untouched(error, &mut payload()));
        let restored = restored.map_err(|error| Failure::refused(error, &mut payload()));
        let (applied, stats) = full.finish();
        if !is_untouched {
            self.forget_kernel();
        }
        if restored.is_ok() {
            self.applied = applied;
            self.written = Some(options.clone());
            self.repairs.clear();
            self.lost_jumps.clear();
            self.drifted.clear();
        }
        let partial = Partial {
            stats,
            ..Partial::default()
        };
        (partial, restored)
    }

    /// Writes what could not be written before, the fixed chains that are to be repaired, and what
    /// Services need. Without anything to write, no process is started.
    async fn write(
        &mut self,
        names: &[ServiceName],
        shape: PartialRestore,
        options: &Options,
    ) -> (Partial, Result<Restored, Failure>) {
        let mut partial = self.render(names, shape, options);
        let mut text = std::mem::take(&mut self.unwritten);
        let (chains, jumps) = (&self.repairs, &self.lost_jumps);
        text.extend(render::repair(chains, jumps, options));
        self.repairs.clear();
        self.lost_jumps.clear();
        partial.stats.bytes += text.len() as u64;
        partial.text.splice(..0, text);
        let restored = if partial.text.is_empty() {
            Ok(Restored::default())
        } else {
            self.give(&mut Text::new(&partial.text)).await
        };
        match &restored {
            Ok(_) => self.written = Some(options.clone()),
            Err(error) => match error.committed_if_retriable() {
                Some(tables) if partial.text.len() <= MOST_UNWRITTEN => {
                    self.unwritten = behind(&partial.text, tables).to_vec();
                }
                _ => self.forget_kernel(),
            },
        }
        let restored =
            restored.map_err(|error| Failure::refused(error, &mut Text::new(&partial.text)));
        (partial, restored)
    }

    /// Renders what some Services lack, and takes it for written.
    pub(super) fn render(
        &mut self,
        names: &[ServiceName],
        shape: PartialRestore,
        options: &Options,
    ) -> Partial {
        let zone = self.tracker.node().and_then(|node| node.zone.as_deref());
        let setting = RenderContext { options, zone };
        let view = View(&self.tracker);
        render::partial(&mut self.applied, &view, names.iter(), setting, shape)
    }

    /// Restores within the deadline of the moment.
    pub(super) async fn give(&self, payload: &mut dyn Payload) -> Result<Restored, RestoreError> {
        match self.deadline {
            Some(deadline) => self.iptables.restore_within(payload, deadline).await,
            None => self.iptables.restore(payload).await,
        }
    }

    /// The Services as they are rendered.
    pub(super) const fn view(&self) -> View<'_> {
        View(&self.tracker)
    }

    /// From here on it is not known what the kernel holds.
    pub(super) fn forget_kernel(&mut self) {
        self.applied = AppliedState::default();
        self.written = None;
        self.unwritten.clear();
        self.repairs.clear();
        self.lost_jumps.clear();
        self.drifted.clear();
    }

    /// Returns the inputs that all Services of one payload share.
    pub(super) fn setting<'a>(&'a self, options: &'a Options) -> RenderContext<'a> {
        let zone = self.tracker.node().and_then(|node| node.zone.as_deref());
        RenderContext { options, zone }
    }
}

/// Text that waits for the lock, in bytes. Beyond that a full restore is the better one.
const MOST_UNWRITTEN: usize = 4 << 20;

fn unwritten(error: RunError) -> (Partial, Result<Restored, Failure>) {
    (Partial::default(), Err(Failure::Save(error)))
}

impl Failure {
    /// Adds the rejected line with its neighbors; `again` is the same payload from its beginning.
    pub(super) fn refused(error: RestoreError, again: &mut dyn Payload) -> Self {
        let shown = match &error {
            RestoreError::Rejected { line, .. } => Some(excerpt(again, *line)),
            _ => None,
        };
        Self::Restore(error, shown)
    }
}
