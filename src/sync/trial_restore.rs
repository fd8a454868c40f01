//! Restores of the [search](super::search) for Services that make restores fail, and retries of
//! quarantined Services.
//!
//! The caller decides what follows a trial that failed. The deadline of a trial is mostly shorter
//! than the usual one, so that a restore that hangs does not take five minutes in each step.
//!
//! A trial writes the changes of some Services, and all that is damaged besides. Services that are
//! not in it have the rules that they had, or none, so that it shows whether these can be written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::bisect::Bisection;
use super::decide::FullReason;
use super::kernel::KernelState;
use super::outcome::{Failure, NodeFault, Outcome, QuarantineRetry, SearchResult, TrialFailure};
use super::quarantine::{Fallback, Quarantine, QuarantineCause};
use super::syncer::Syncer;
use crate::host::{Iptables, is_untouched};
use crate::model::{ServiceName, ServiceState, Services};
use crate::render::{
    self, AppliedService, AppliedState, LiveRules, Options, PartialRestore, service_of_line,
};
use crate::rules::Text;
use crate::tracker::{Override, OverrideClaims};

/// Minimum deadline of a trial restore.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(30);

/// Deadline of a trial restore as a multiple of the duration of the last successful restore.
const DEADLINE_FACTOR: u32 = 10;

/// Number of the first trials without the suspects after which a rejected line puts only its
/// Service into quarantine, or on to its next fallback.
const MOST_NAMED_LINES: usize = 4;

/// Maximum number of trials without the suspects. After each that failed, some more Services are
/// written in another form or not at all.
const MOST_TRIALS_WITHOUT_SUSPECTS: usize = MOST_NAMED_LINES + 4;

/// Maximum number of Services whose chains are rewritten to prove that the node can restore rules.
const MOST_PROOFS: usize = 2;

/// Returns the one of these Services that the rejected line belongs to, if the failure names a
/// line.
pub(super) fn named_service<'s, I: Iterator<Item = (&'s ServiceName, &'s ServiceState)>>(
    failure: &Failure,
    services: impl Fn() -> I,
    options: &Options,
) -> Option<ServiceName> {
    let Failure::Restore(_, Some(excerpt)) = failure else {
        return None;
    };
    let mut lines = excerpt.lines.iter();
    let (_, line) = lines.find(|(number, _)| *number == excerpt.line)?;
    service_of_line(line, services, options)
}

impl<I: Iptables> Syncer<I> {
    /// Reads the kernel for a search, and compares it with the record. Without one, and before the
    /// first restore or adoption that succeeded, makes a record, and returns the Services that
    /// differ from the kernel.
    pub(super) async fn ensure_known(
        &mut self,
        options: &Options,
    ) -> Result<BTreeSet<ServiceName>, NodeFault> {
        let has_changed = self.history.rerender_reason(options).is_some();
        if self.history.has_applied() && !has_changed && self.kernel.record().is_some() {
            // Another program may have changed rules, so that restores of any Service fail.
            self.observe_tables(LiveRules::default()).await;
            return Ok(BTreeSet::new());
        }
        let read = self.read_rules(Some(LiveRules::of_tables())).await;
        let rules = read.map_err(|error| NodeFault::because_of(&Failure::Read(error)))?;
        // Rules that cannot be read count as missing.
        let found = rules.found.unwrap_or_else(LiveRules::of_tables);
        let services = self.tracker.rendered();
        let mut applied = render::adopt(&found, &rules.live, &services, options);
        let differing = applied.due().cloned().collect();
        render::note_guarded_damage(&mut applied, &found, &rules.live, options);
        self.kernel = KernelState::Known(applied.into(), options.clone());
        Ok(differing)
    }

    /// Renders these Services in their last applied state until a trial of their changes succeeds
    /// or puts them into quarantine. Those without such a state have no rules, but keep their
    /// claims to frontends: no other Service gets these meanwhile.
    pub(super) fn hold_back(&mut self, names: &[ServiceName]) {
        let has_applied = self.history.has_applied();
        // All of them first: a Service that is dirty because it has a frontend back loses it again
        // when the one that had it is held back, and then it is not dirty.
        let applied: Vec<_> = names
            .iter()
            .map(|name| self.tracker.last_applied(name).filter(|_| has_applied))
            .collect();
        for (name, applied) in names.iter().zip(applied) {
            let (state, claims) = match applied {
                Some(applied) => (applied, OverrideClaims::Rendered),
                None => (ServiceState::default(), OverrideClaims::Wanted),
            };
            self.tracker.render_as(name, state, claims);
        }
    }

    /// Renders these Services without rules. They keep their claims to frontends.
    pub(super) fn hold_back_without_rules<'n>(
        &mut self,
        names: impl Iterator<Item = &'n ServiceName>,
    ) {
        for name in names {
            let state = ServiceState::default();
            self.tracker.render_as(name, state, OverrideClaims::Wanted);
            self.add_due(name);
        }
    }

    /// Makes the next payload render a Service.
    pub(super) fn add_due(&mut self, name: &ServiceName) {
        if let Some(applied) = self.kernel.record_mut() {
            applied.add_due(name);
        }
    }

    /// Ends [`Syncer::hold_back`]: Services that are neither in quarantine nor suspects of an
    /// unfinished search are rendered in their state in the cluster again.
    pub(super) fn release_held_back(&mut self) {
        let overrides = self.tracker.overrides().keys();
        let suspects: BTreeSet<&ServiceName> = self.quarantine.suspects().collect();
        let is_kept = |name: &ServiceName| self.quarantine.has(name) || suspects.contains(name);
        let released = overrides.filter(|name| !is_kept(name));
        for name in released.cloned().collect::<Vec<_>>() {
            self.tracker.remove_override(&name);
            self.add_due(&name);
        }
    }

    /// Returns the Services in quarantine and the suspects as they are now. Between searches, no
    /// others have overrides.
    pub(super) fn quarantine_snapshot(&self) -> (Quarantine, BTreeMap<ServiceName, Override>) {
        (self.quarantine.clone(), self.tracker.overrides().clone())
    }

    /// Undoes what a search changed in the quarantine, because it found no Service at fault. The
    /// kernel may have their rules in the forms of the search, so the next sync renders them.
    pub(super) fn undo_quarantine(
        &mut self,
        (quarantine, overrides): (Quarantine, BTreeMap<ServiceName, Override>),
        search: &mut SearchResult,
    ) {
        let added = search.quarantined.drain(..).map(|one| one.name);
        let mut due: BTreeSet<ServiceName> = added.collect();
        // Trials may have applied their changes, which may be taken back before the next sync.
        due.extend(self.tracker.dirty().cloned());
        due.extend(quarantine.names().cloned());
        self.quarantine = quarantine;
        for (name, known) in overrides {
            if self.tracker.overrides().get(&name) != Some(&known) {
                self.tracker.put_back(&name, known);
                due.insert(name);
            }
        }
        for name in &due {
            self.add_due(name);
        }
    }

    /// Renders a Service in quarantine in its next fallback form.
    pub(super) fn lower_fallback(&mut self, name: &ServiceName) {
        let rendered = self
            .tracker
            .rendered()
            .get(name)
            .cloned()
            .unwrap_or_default();
        let state = self.quarantine.lower(name, &rendered);
        let claims = match self.quarantine.fallback(name) {
            // A Service without rules keeps its frontends, so that no other Service gets them.
            Some(Fallback::NoRules) => OverrideClaims::Wanted,
            _ => OverrideClaims::Rendered,
        };
        self.tracker.render_as(name, state, claims);
        self.add_due(name);
    }

    /// Makes a partial restore of Services in their state in the cluster, without their overrides.
    /// If it fails, the overrides return.
    pub(super) async fn try_changes(
        &mut self,
        names: &[ServiceName],
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<(), TrialFailure> {
        let overrides = names.iter().map(|name| self.tracker.remove_override(name));
        let overrides: Vec<_> = overrides.collect();
        let before = self.recorded(names);
        let trial = self.try_as_rendered(names, options, search).await;
        if trial.is_err() {
            for (name, state) in names.iter().zip(overrides) {
                if let Some(state) = state {
                    self.tracker.put_back(name, state);
                }
            }
            self.undo_trial(names, &before);
        }
        trial
    }

    /// Returns the recorded rules of Services.
    fn recorded(&self, names: &[ServiceName]) -> Vec<AppliedService> {
        let Some(applied) = self.kernel.record() else {
            return Vec::new();
        };
        let services = names.iter().map(|name| applied.service(name).cloned());
        services.map(Option::unwrap_or_default).collect()
    }

    /// Takes back what a failed trial changed in the record. Services of which the kernel may have
    /// a part of the changes are written with the next payload: in the form of their override, or
    /// without rules.
    fn undo_trial(&mut self, names: &[ServiceName], before: &[AppliedService]) {
        let after = self.recorded(names);
        let mut touched = Vec::new();
        for (name, (before, after)) in names.iter().zip(before.iter().zip(&after)) {
            let is_held_back = self.tracker.overrides().contains_key(name);
            if after.chains == before.chains && !(is_held_back && after.is_damaged()) {
                if let Some(applied) = self.kernel.record_mut() {
                    applied.undo_dispatch(name, before);
                }
            } else if !is_held_back {
                touched.push(name);
            }
        }
        self.hold_back_without_rules(touched.into_iter());
    }

    /// Makes a partial restore of Services as rendered, of all that is due, and of those that lose
    /// a frontend to them or gain one from them: no frontend may have the rules of two Services.
    pub(super) async fn try_as_rendered(
        &mut self,
        names: &[ServiceName],
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<(), TrialFailure> {
        if self.kernel.record().is_none() {
            return Err(TrialFailure::Node(NodeFault {
                cause: Some("the rules in the kernel are unknown".to_owned()),
                is_transient: false,
            }));
        }
        let losses = self.tracker.with_changed_losses();
        let wanted: Vec<_> = names.iter().chain(losses).cloned().collect();
        // Tree chains are written whole: if another program emptied one during the search, an
        // insertion into it would fail, and its Service would seem to be at fault.
        let mut partial = self.render_changes(&wanted, PartialRestore::WholeTreeChains, options);
        let is_empty = partial.text.is_empty();
        let rendered = partial.rendered.services.iter();
        let rendered: Vec<_> = rendered.map(|(name, _)| name.clone()).collect();
        let deadline = Some(deadline(self.restore_took));
        let started = (self.clock)();
        let restored = self.restore_changes(&mut partial, options, deadline).await;
        let Err(error) = restored else {
            // Without a restore, lost frontends are marked at the end: a fault of the node undoes
            // the search.
            if !is_empty {
                search.restores += 1;
                self.restore_took = (self.clock)().saturating_duration_since(started);
                self.tracker.mark_lost_frontends_applied();
            }
            return Ok(());
        };
        let is_untouched = is_untouched(&error, &mut Text::new(&partial.text));
        if !is_untouched {
            // Otherwise rules would be written that the kernel has, and may reject now. If the
            // tables cannot be read, they are.
            self.observe_tables(LiveRules::default()).await;
        }
        let cause = QuarantineCause::of(&error);
        let failure = Failure::of_restore(error, &mut Text::new(&partial.text));
        let Some(cause) = cause else {
            return Err(TrialFailure::Node(NodeFault::because_of(&failure)));
        };
        search.restores += 1;
        search.failed += 1;
        // Looked up now: the caller may put overrides back. Only among those of the payload: to
        // render all Services would take longer than the trial.
        let services = self.tracker.rendered();
        let of_payload = || {
            let states = rendered.iter();
            states.filter_map(|name| Some((name, services.get(name)?)))
        };
        Err(TrialFailure::Rules {
            cause,
            named: named_service(&failure, of_payload, options),
            failure,
            is_untouched,
        })
    }

    /// Retries one Service in quarantine that is due, with a restore of its own. Each sync retries
    /// at most one, so that other changes are applied between two retries that hang.
    pub(super) async fn retry_quarantined(&mut self, outcome: &mut Outcome, options: &Options) {
        if self.quarantine.next_retry().is_none() {
            return;
        }
        let tracker = &self.tracker;
        self.quarantine.note_changes(|name| tracker.get(name));
        let started = (self.clock)();
        let Some(name) = self.quarantine.due(started) else {
            return;
        };
        let retried = self.tracker.get(&name).cloned().unwrap_or_default();
        // Only counts restores: a retry puts no Service into quarantine.
        let mut counted = SearchResult::default();
        let names = [name.clone()];
        let trial = self.try_changes(&names, options, &mut counted).await;
        // Writes what is due: a failed retry may have been applied in part.
        let repaired = self.try_as_rendered(&[], options, &mut counted).await;
        let left_damaged = repaired.err().map(TrialFailure::into_node_fault);
        if left_damaged.is_some() {
            self.force_full(FullReason::Failed);
        }
        let now = (self.clock)();
        let result = trial.map(|()| self.release(&name, outcome, now));
        let took = now.saturating_duration_since(started);
        match result {
            Ok(_) => {}
            Err(TrialFailure::Rules { .. }) => self.quarantine.failed(&name, retried, took, now),
            Err(TrialFailure::Node(_)) => self.quarantine.postpone(&name, took, now),
        }
        outcome.quarantine_retry = Some(QuarantineRetry {
            name,
            restores: counted.restores,
            failed: counted.failed,
            result,
            left_damaged,
        });
    }

    /// Releases a Service from quarantine after its rules were applied; returns the time that it
    /// spent there.
    fn release(&mut self, name: &ServiceName, outcome: &mut Outcome, now: Instant) -> Duration {
        let spent = self.quarantine.remove(name, now);
        // Also marks Services that lost a frontend to it, or gained one.
        self.tracker.mark_lost_frontends_applied();
        outcome.applied.append(self.tracker.mark_rendered_applied());
        spent
    }

    /// Writes all that is damaged, and what the other Services need, without the suspects. While
    /// that fails, the Service of the rejected line is quarantined, or Services in quarantine that
    /// had to be written go on to their next fallback, or at last the others that had to be written
    /// become suspects without rules.
    pub(super) async fn write_without_suspects(
        &mut self,
        suspects: &mut BTreeSet<ServiceName>,
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        let mut last_failure = NodeFault::default();
        for trial in 0..MOST_TRIALS_WITHOUT_SUSPECTS {
            let due = self.with_rules_due(suspects);
            let (failure, named) = match self.try_as_rendered(&[], options, search).await {
                Ok(()) => return Ok(()),
                Err(TrialFailure::Rules { failure, named, .. }) => (failure, named),
                Err(TrialFailure::Node(fault)) => return Err(fault),
            };
            last_failure = NodeFault::because_of(&failure);
            if let Some(name) = named
                && trial < MOST_NAMED_LINES
            {
                let error = failure.on_one_line();
                self.put_in_quarantine(&name, QuarantineCause::Rejected, error, search);
                self.add_due(&name);
                continue;
            }
            if self.is_node_suspected() {
                break;
            }
            let is_quarantined = |name: &ServiceName| self.quarantine.has(name);
            let (quarantined, others): (Vec<_>, Vec<_>) = due.into_iter().partition(is_quarantined);
            if !quarantined.is_empty() {
                for name in &quarantined {
                    self.lower_fallback(name);
                }
            } else if others.is_empty() {
                break;
            } else {
                self.hold_back_without_rules(others.iter());
                suspects.extend(others);
            }
        }
        Err(last_failure)
    }

    /// Returns the Services that the next payload renders, and that have rules. The rules of
    /// suspects are in it only if they are damaged.
    fn with_rules_due(&self, suspects: &BTreeSet<ServiceName>) -> Vec<ServiceName> {
        let services = self.tracker.rendered();
        let applied = self.kernel.record();
        let is_damaged = |name: &ServiceName| {
            let service = applied.and_then(|applied| applied.service(name));
            service.is_some_and(AppliedService::is_damaged)
        };
        let has_rules = |name: &&ServiceName| {
            let state = services.get(name);
            let is_left_out = suspects.contains(*name) && !is_damaged(name);
            state.is_some_and(|state| state.service.is_some()) && !is_left_out
        };
        let due = self.kernel.record().into_iter().flat_map(AppliedState::due);
        due.filter(has_rules).cloned().collect()
    }

    /// Reports whether the kernel has rules of Services.
    pub(super) fn has_service_rules(&self) -> bool {
        let applied = self.kernel.record();
        applied.is_some_and(|applied| applied.chains().next().is_some())
    }

    /// Proves that the node can restore rules of Services: rewrites the chains of one that is
    /// neither a suspect nor in quarantine, and if that fails of another one: the node may reject
    /// the rules of the first one now. Without any such Service, rewrites the fixed chains.
    pub(super) async fn prove_node(
        &mut self,
        suspects: &Bisection,
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        let mut excluded: BTreeSet<ServiceName> = suspects.unresolved().cloned().collect();
        let mut last_failure = None;
        for _ in 0..MOST_PROOFS {
            let Some(applied) = self.kernel.record() else {
                break;
            };
            let due: BTreeSet<&ServiceName> = applied.due().collect();
            let other = applied.first_with_chains(|name| {
                self.tracker.get(name).is_some()
                    && !excluded.contains(name)
                    && !self.quarantine.has(name)
                    && !due.contains(name)
            });
            let Some(name) = other.cloned() else {
                break;
            };
            self.set_damaged(&name, true);
            let one = std::slice::from_ref(&name);
            let Err(failure) = self.try_as_rendered(one, options, search).await else {
                return Ok(());
            };
            // If the kernel may have a part of it, its tables were compared.
            if !matches!(
                failure,
                TrialFailure::Rules {
                    is_untouched: false,
                    ..
                }
            ) {
                self.set_damaged(&name, false);
                if let Some(applied) = self.kernel.record_mut() {
                    applied.remove_due(&name);
                }
            }
            match failure {
                TrialFailure::Rules { failure, .. } => {
                    last_failure = Some(NodeFault::because_of(&failure));
                }
                TrialFailure::Node(fault) => return Err(fault),
            }
            excluded.insert(name);
        }
        if let Some(failure) = last_failure {
            return Err(failure);
        }
        self.prove_node_by_fixed_chains(options, search).await
    }

    async fn prove_node_by_fixed_chains(
        &mut self,
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        let mut added = render::all_fixed_chains(options);
        if let Some(applied) = self.kernel.record_mut() {
            added.retain(|chain| applied.add_due_fixed_chain(*chain));
        }
        let proof = self.try_as_rendered(&[], options, search).await;
        // The same rules were written again, or nothing.
        if let Some(applied) = self.kernel.record_mut() {
            for chain in added {
                applied.remove_due_fixed_chain(chain);
            }
        }
        proof.map_err(TrialFailure::into_node_fault)
    }

    /// Marks all chains of a Service as damaged, or takes the marks back.
    fn set_damaged(&mut self, name: &ServiceName, is_damaged: bool) {
        if let Some(applied) = self.kernel.record_mut() {
            applied.set_damaged(name, is_damaged);
        }
    }
}

/// Returns the deadline of a trial restore. If the usual deadline is shorter, that applies.
fn deadline(last_took: Duration) -> Duration {
    SHORTEST_DEADLINE.max(last_took.saturating_mul(DEADLINE_FACTOR))
}
