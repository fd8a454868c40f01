//! Searches for the Services that make restores fail, so that all others are applied.
//!
//! A search follows a sync whose last restore failed, unless the xtables lock was busy. The cause
//! is either some Services or the node, for example a missing kernel module or too little memory.
//! The search finds out by [trial restores](super::trial_restore), and puts the Services at fault
//! into [quarantine](super::quarantine). If the node can restore no rules of any Service, it ends
//! with a [`NodeFault`]: no Service is quarantined, and the sync is retried.
//!
//! 1. The suspects are the dirty Services, and before the first restore or adoption that succeeded
//!    those that differ from the rules in the kernel, which are read then. Their changes are held
//!    back.
//! 2. What is left to write is written. While that fails, the Service of the rejected line is
//!    quarantined, or those in quarantine get their next fallback, or the others that had to be
//!    written are suspects, without rules meanwhile.
//! 3. Partial restores of groups of suspects follow, as [`bisect`](super::bisect) decides.
//! 4. A Service that is found is rendered as last applied, or without endpoints, so that clients
//!    get a reject. It stays in quarantine only if a restore of other rules succeeded, which proves
//!    that the node is able to restore some: otherwise the search is undone.
//!
//! Other changes wait while trials run, so a search begins none after [`LONGEST_SEARCH`]. The
//! suspects that are left stay held back, and each later sync continues the search with some more
//! trials, after it has applied all other changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::bisect::Bisection;
use super::decide::FullReason;
use super::outcome::{Attempt, Failure, NodeFault, Quarantined, SearchResult, TrialFailure};
use super::quarantine::{Fallback, Quarantine, QuarantineCause};
use super::syncer::Syncer;
use super::trial_restore::named_service;
use crate::host::Iptables;
use crate::model::{ServiceName, ServiceState, Services};
use crate::render::Options;
use crate::tracker::{AppliedChanges, Override, OverrideClaims};

/// Time from the first trial of a group after which no further one begins; at least one is made.
/// Other changes wait meanwhile.
const LONGEST_SEARCH: Duration = Duration::from_millis(500);

/// [`LONGEST_SEARCH`] before the first full restore or adoption that succeeded: suspects that are
/// left have no rules until the search continues, so it should rather end.
const LONGEST_FIRST_SEARCH: Duration = Duration::from_secs(10);

/// [`LONGEST_SEARCH`] of the part of a search that a later sync makes.
const LONGEST_PART: Duration = Duration::from_millis(100);

/// Time after a search that ended with a [`NodeFault`] that is not transient, in which the next one
/// has to prove first that the node can restore rules. Before the first full restore or adoption
/// that succeeded, no search begins in it.
const AFTER_NODE_FAULT: Duration = Duration::from_secs(60);

impl<I: Iptables> Syncer<I> {
    /// Searches after the failed attempts of a sync; `None` if the last one failed in a way that no
    /// Service can cause, such as a failed reading, or if a recent search ended with a
    /// [`NodeFault`] before anything was applied.
    pub(super) async fn search(
        &mut self,
        attempts: &[Attempt],
        options: &Options,
    ) -> Option<SearchResult> {
        let failure = attempts.last()?.result.as_ref().err()?;
        let Failure::Restore(error, _) = failure else {
            return None;
        };
        QuarantineCause::of(error)?;
        if (self.is_node_suspected() && !self.history.has_applied())
            || self.tracker.rendered().all().next().is_none()
        {
            return None;
        }
        let mut search = SearchResult::default();
        let quarantine = self.quarantine_snapshot();
        let failures = attempts.iter().rev();
        let mut failures = failures.filter_map(|attempt| attempt.result.as_ref().err());
        let services = self.tracker.rendered();
        let named = failures.find_map(|failure| {
            Some((
                named_service(failure, || services.all(), options)?,
                failure.on_one_line(),
            ))
        });
        match self.run_search(named, options, &mut search).await {
            Ok(()) => self.node_suspected_until = None,
            Err(fault) => {
                if !fault.is_transient {
                    self.node_suspected_until = Some((self.clock)() + AFTER_NODE_FAULT);
                }
                self.end_with_node_fault(fault, quarantine, &mut search);
            }
        }
        self.release_held_back();
        self.set_fallbacks(&mut search);
        Some(search)
    }

    /// Continues an earlier search with its next trials; `None` if none is due.
    pub(super) async fn continue_search(&mut self, options: &Options) -> Option<SearchResult> {
        let due = self.quarantine.next_part()?;
        let started = (self.clock)();
        if started < due {
            return None;
        }
        let quarantine = self.quarantine_snapshot();
        let suspects = self.quarantine.take_suspects();
        let mut search = SearchResult::default();
        // The node may have changed since the last part.
        let mut result = self.prove_node(&suspects, options, &mut search).await;
        if result.is_ok() {
            let ends = started + LONGEST_PART;
            result = self.run_trials(suspects, ends, options, &mut search).await;
        }
        if let Err(fault) = result {
            self.end_with_node_fault(fault, quarantine, &mut search);
        }
        self.release_held_back();
        self.set_fallbacks(&mut search);
        Some(search)
    }

    /// Undoes what a search or a part of it changed in the quarantine.
    fn end_with_node_fault(
        &mut self,
        fault: NodeFault,
        before: (Quarantine, BTreeMap<ServiceName, Override>),
        search: &mut SearchResult,
    ) {
        search.node_fault = Some(fault);
        self.undo_quarantine(before, search);
        if !self.history.has_applied() {
            self.force_full(FullReason::Failed);
        }
    }

    /// Marks the Services that a search has applied, and returns its changes.
    pub(super) fn mark_resolved_applied(
        &mut self,
        search: &SearchResult,
        options: &Options,
    ) -> AppliedChanges {
        match search.node_fault {
            None => self.mark_applied(options),
            Some(_) => AppliedChanges::default(),
        }
    }

    /// Runs the steps of a search; `named` is the Service of the line that was rejected last, with
    /// the error message that names the line.
    async fn run_search(
        &mut self,
        named: Option<(ServiceName, String)>,
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        let has_applied = self.history.has_applied();
        let longest = if has_applied {
            LONGEST_SEARCH
        } else {
            LONGEST_FIRST_SEARCH
        };
        let mut suspects = self.hold_back_suspects(options).await?;
        self.write_without_suspects(&mut suspects, options, search)
            .await?;
        // Their last applied rules fail as well.
        suspects.retain(|name| !self.quarantine.has(name));
        let started = (self.clock)();
        let suspects = self.by_weight(suspects.into_iter().collect());
        let mut suspects = Bisection::new(suspects);
        if self.is_node_suspected() && self.has_service_rules() {
            self.prove_node(&suspects, options, search).await?;
            suspects.succeeded();
        }
        if let Some((name, error)) = named
            && suspects.unresolved().any(|suspect| *suspect == name)
            && let Some(all) = suspects.next()
            && let Some(failing) = suspects.failed(all, Some(&name))
        {
            self.put_in_quarantine(&failing, QuarantineCause::Rejected, error, search);
        }
        let mut earlier = self.quarantine.take_suspects();
        let known: BTreeSet<ServiceName> = suspects.unresolved().cloned().collect();
        earlier.retain(|name| !known.contains(name) && !self.quarantine.has(name));
        suspects.append(earlier);
        self.run_trials(suspects, started + longest, options, search)
            .await?;
        if !has_applied {
            self.history.succeeded((self.clock)());
        }
        Ok(())
    }

    /// Returns the suspects. Their changes are held back: those that are dirty are rendered as last
    /// applied. Before a restore or an adoption succeeded, the rules that they have in the kernel
    /// stay as they are, until a payload renders them.
    async fn hold_back_suspects(
        &mut self,
        options: &Options,
    ) -> Result<BTreeSet<ServiceName>, NodeFault> {
        if self.history.has_applied() {
            let dirty: Vec<_> = self.tracker.dirty_without_override().cloned().collect();
            self.hold_back(&dirty);
            self.ensure_known(options).await?;
            return Ok(dirty.into_iter().collect());
        }
        let differing = self.ensure_known(options).await?;
        let overrides = self.tracker.overrides();
        let is_suspect =
            |name: &ServiceName| self.tracker.get(name).is_some() && !overrides.contains_key(name);
        let suspects: BTreeSet<_> = differing.into_iter().filter(is_suspect).collect();
        if let Some(applied) = self.kernel.record_mut() {
            for name in &suspects {
                applied.remove_due(name);
            }
        }
        Ok(suspects)
    }

    /// Reports whether a recent search ended with a [`NodeFault`].
    pub(super) fn is_node_suspected(&self) -> bool {
        let now = (self.clock)();
        self.node_suspected_until.is_some_and(|until| now < until)
    }

    /// Makes trials until `ends`, and holds back the suspects that are left.
    async fn run_trials(
        &mut self,
        mut suspects: Bisection,
        ends: Instant,
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        let started = (self.clock)();
        self.trials(&mut suspects, ends, options, search).await?;
        let now = (self.clock)();
        let overrides = self.tracker.overrides();
        let unresolved = suspects.unresolved();
        // They may have rules of an earlier process.
        let not_held_back: Vec<_> = unresolved
            .filter(|name| !overrides.contains_key(*name))
            .cloned()
            .collect();
        self.hold_back_without_rules(not_held_back.iter());
        let without_rules = self.finish(options, search).await?;
        suspects.add(without_rules.into_iter().collect());
        let took = now.saturating_duration_since(started);
        self.quarantine.keep_suspects(suspects, took, now);
        search.held_back = self.quarantine.suspects().cloned().collect();
        search.held_back.sort_unstable();
        Ok(())
    }

    /// Restores groups of suspects until none is left, or until the first restore that ends after
    /// `ends`.
    async fn trials(
        &mut self,
        suspects: &mut Bisection,
        ends: Instant,
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        loop {
            let last_failure = self
                .trials_of_groups(suspects, ends, options, search)
                .await?;
            if !suspects.needs_proof() {
                return Ok(());
            }
            let has_rules = self.has_service_rules();
            if !has_rules && suspects.is_node_fault() {
                return Err(last_failure);
            }
            // Without rules of Services in the kernel, any restore of this search that succeeded
            // proves as much.
            if has_rules || search.restores == search.failed {
                self.prove_node(suspects, options, search).await?;
            }
            suspects.succeeded();
            if (self.clock)() > ends {
                return Ok(());
            }
        }
    }

    /// Restores groups of suspects; returns the last failure. See [`Self::trials`].
    async fn trials_of_groups(
        &mut self,
        suspects: &mut Bisection,
        ends: Instant,
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<NodeFault, NodeFault> {
        let mut last_failure = NodeFault::default();
        while let Some(group) = suspects.next() {
            let before = search.restores;
            match self.try_changes(&group, options, search).await {
                // No restore was needed: this shows nothing about the node.
                Ok(()) if search.restores == before => {}
                Ok(()) => suspects.succeeded(),
                Err(TrialFailure::Node(fault)) => {
                    suspects.add(group);
                    return Err(fault);
                }
                Err(TrialFailure::Rules {
                    cause,
                    failure,
                    named,
                    ..
                }) => {
                    last_failure = NodeFault::because_of(&failure);
                    if let Some(failing) = suspects.failed(group, named.as_ref()) {
                        self.put_in_quarantine(&failing, cause, failure.on_one_line(), search);
                    }
                }
            }
            // On a kernel without rules of Services, only a trial that succeeds shows that the node
            // can restore some.
            let can_end = suspects.has_succeeded() || self.has_service_rules();
            if can_end && (self.clock)() > ends {
                break;
            }
        }
        Ok(last_failure)
    }

    /// Notes the final forms of the Services that a search found.
    fn set_fallbacks(&self, search: &mut SearchResult) {
        for quarantined in &mut search.quarantined {
            let fallback = self.quarantine.fallback(&quarantined.name);
            quarantined.fallback = fallback.unwrap_or(quarantined.fallback);
        }
    }

    /// Writes reject rules for newly quarantined Services without a last applied state to fall back
    /// to, and all that is damaged. Returns further suspects, which have no rules now.
    async fn finish(
        &mut self,
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<BTreeSet<ServiceName>, NodeFault> {
        for one in &search.quarantined {
            self.add_due(&one.name);
        }
        let mut suspects = BTreeSet::new();
        self.write_without_suspects(&mut suspects, options, search)
            .await?;
        self.tracker.mark_lost_frontends_applied();
        Ok(suspects)
    }

    /// Puts a Service into quarantine; one that already is there gets its next fallback form.
    pub(super) fn put_in_quarantine(
        &mut self,
        name: &ServiceName,
        cause: QuarantineCause,
        error: String,
        search: &mut SearchResult,
    ) {
        if self.quarantine.has(name) {
            return self.lower_fallback(name);
        }
        let wanted = self.tracker.get(name).cloned().unwrap_or_default();
        // The tracker records the last applied state of dirty Services only. A suspect is not dirty
        // anymore if, for example, it was dirty only because it lost a frontend, and a trial wrote
        // that: then its override is its last applied state. A Service with neither of the two was
        // not dirty: the state that has just failed is the last applied one, and no fallback.
        let of_override = || Some(self.tracker.overrides().get(name)?.state.clone());
        let applied = self.tracker.last_applied(name).or_else(of_override);
        let applied = applied.filter(|state| state.service.is_some() && self.history.has_applied());
        let now = (self.clock)();
        let state = self.quarantine.add(name, applied, wanted, now);
        // Claims the frontends of this state; other Services may get the rest.
        self.tracker
            .render_as(name, state, OverrideClaims::Rendered);
        // The rest of the search may lower the fallback; `search` sets the final one.
        search.quarantined.push(Quarantined {
            name: name.clone(),
            cause,
            error,
            fallback: Fallback::LastApplied,
        });
    }

    /// Sorts Services by their approximate number of rules, those with the most at the end.
    pub(super) fn by_weight(&self, mut names: Vec<ServiceName>) -> Vec<ServiceName> {
        names.sort_by_cached_key(|name| (self.tracker.get(name).map_or(0, weight), name.clone()));
        names
    }
}

/// Returns the approximate number of rules of a Service.
fn weight(state: &ServiceState) -> usize {
    let ports = state
        .service
        .as_ref()
        .map_or(0, |service| service.ports.len());
    let endpoints = state.slices.iter().map(|(_, slice)| slice.endpoints.len());
    ports * (1 + endpoints.sum::<usize>())
}
