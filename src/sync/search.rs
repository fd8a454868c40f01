//! Searches for the Services that make restores fail, so that all others are applied.
//!
//! A partial restore that fails is followed by a full one. If that fails as well, the cause is
//! either some Services or the node, for example a missing kernel module or too little memory. The
//! search finds out by [trial restores](super::trial_restore), and puts the Services at fault into
//! [quarantine](super::quarantine). If the node can restore no rules of any Service, it ends with a
//! [`NodeFault`]: no Service is quarantined, and the sync is retried.
//!
//! 1. The changes of the suspects are held back, and the kernel is brought into a
//!    [known state](super::trial_restore) without them.
//! 2. Partial restores of groups of suspects follow, as [`bisect`](super::bisect) decides.
//! 3. A Service counts as the cause only if a restore of other rules succeeded, which proves that
//!    the node is able to restore some.
//!
//! Other changes wait while trials run, so a search begins none after [`LONGEST_SEARCH`]. The
//! suspects that are left stay held back, and each later sync continues the search with some more
//! trials, after it has applied all other changes.

use std::time::{Duration, Instant};

use super::bisect::Bisection;
use super::decide::FullReason;
use super::outcome::{Attempt, Baseline, Failure, NodeFault, Quarantined, SearchResult};
use super::quarantine::{Fallback, QuarantineCause};
use super::syncer::Syncer;
use super::trial_restore::{FailedTrial, NamedService, QuarantineSnapshot, TrialResult};
use crate::host::Iptables;
use crate::model::{ServiceName, ServiceState, Services};
use crate::render::Options;
use crate::tracker::{AppliedChanges, OverrideClaims};

/// Time from the first trial of a group after which no further one begins; at least one is made.
/// Other changes wait meanwhile.
const LONGEST_SEARCH: Duration = Duration::from_millis(500);

/// [`LONGEST_SEARCH`] before the first full restore or adoption that succeeded: suspects that are
/// left have no rules until the search continues, so it should rather end.
const LONGEST_FIRST_SEARCH: Duration = Duration::from_secs(10);

/// [`LONGEST_SEARCH`] of the part of a search that a later sync makes.
const LONGEST_PART: Duration = Duration::from_millis(100);

/// Time after a search that ended with a [`NodeFault`] in which the next one has to prove first
/// that the node can restore rules. Before the first full restore or adoption that succeeded, no
/// search begins in it.
const AFTER_NODE_FAULT: Duration = Duration::from_secs(60);

impl<I: Iptables> Syncer<I> {
    /// Searches after the failed attempts of a sync; `None` if no Service can be the cause, or if a
    /// recent search ended with a [`NodeFault`] before anything was applied.
    pub(super) async fn search(
        &mut self,
        attempts: &[Attempt],
        options: &mut Options,
    ) -> Option<SearchResult> {
        let failure = attempts.last()?.result.as_ref().err()?;
        let Failure::Restore(error, _) = failure else {
            return None;
        };
        QuarantineCause::of(error)?;
        if (self.is_node_suspected() && !self.history.has_applied())
            || self.rendered_services().all().next().is_none()
        {
            return None;
        }
        let mut search = SearchResult::default();
        let quarantine = self.quarantine_snapshot();
        let failures = attempts.iter().rev();
        let mut failures = failures.filter_map(|attempt| attempt.result.as_ref().err());
        let services = self.rendered_services();
        let named = failures.find_map(|failure| NamedService::of(failure, &services, options));
        match self.run_search(named, options, &mut search).await {
            Ok(()) => self.node_suspected_until = None,
            Err(fault) => {
                self.node_suspected_until = Some((self.clock)() + AFTER_NODE_FAULT);
                self.end_with_node_fault(fault, quarantine, &mut search);
            }
        }
        self.release_held_back();
        self.set_fallbacks(&mut search);
        Some(search)
    }

    /// Continues an earlier search with its next trials; `None` if none is due.
    pub(super) async fn continue_search(&mut self, options: &mut Options) -> Option<SearchResult> {
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
        self.set_fallbacks(&mut search);
        Some(search)
    }

    /// Undoes what a search or a part of it changed in the quarantine.
    fn end_with_node_fault(
        &mut self,
        fault: NodeFault,
        before: QuarantineSnapshot,
        search: &mut SearchResult,
    ) {
        search.node_fault = Some(fault);
        self.restore_quarantine(before, search);
        if self.applied_options.is_none() {
            // A trial that succeeded earlier has withdrawn the request for a full sync.
            self.force_full(FullReason::Failed);
        }
    }

    /// Marks the Services that a search has applied, and returns all of its changes.
    pub(super) fn mark_resolved_applied(
        &mut self,
        search: &mut SearchResult,
        options: &Options,
    ) -> AppliedChanges {
        let mut applied = std::mem::take(&mut search.applied);
        if search.node_fault.is_none() {
            applied.append(self.mark_applied(options));
        }
        applied
    }

    /// Runs the steps of a search; `named` is the Service of the line that was rejected last.
    async fn run_search(
        &mut self,
        named: Option<NamedService>,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        let is_node_suspected = self.is_node_suspected();
        let longest = if self.history.has_applied() {
            LONGEST_SEARCH
        } else {
            LONGEST_FIRST_SEARCH
        };
        let (mut suspects, named) = self.hold_back_suspects(named, options, search).await?;
        // Their last applied rules fail as well.
        suspects.retain(|name| !self.quarantine.has(name));
        let started = (self.clock)();
        let mut suspects = Bisection::new(self.by_weight(suspects));
        if is_node_suspected && self.has_service_rules() {
            self.prove_node(&suspects, options, search).await?;
            suspects.succeeded();
        }
        if let Some(NamedService { name, error }) = named
            && suspects.unresolved().any(|suspect| *suspect == name)
            && let Some(all) = suspects.next()
            && let Some(failing) = suspects.failed(all, Some(&name))
        {
            self.put_in_quarantine(&failing, QuarantineCause::Rejected, error, search);
        }
        suspects.append(self.quarantine.take_suspects());
        self.run_trials(suspects, started + longest, options, search)
            .await
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
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        let started = (self.clock)();
        self.trials(&mut suspects, ends, options, search).await?;
        let now = (self.clock)();
        // `finish` deletes their rules of an earlier process.
        self.hold_back_after_adoption(&suspects, search);
        let took = now.saturating_duration_since(started);
        self.quarantine.hold_back(suspects, took, now);
        search.held_back = self.quarantine.suspects().cloned().collect();
        search.held_back.sort_unstable();
        self.finish(options, search).await
    }

    /// Restores groups of suspects until none is left, or until the first restore that ends after
    /// `ends`.
    async fn trials(
        &mut self,
        suspects: &mut Bisection,
        ends: Instant,
        options: &mut Options,
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
            // Without rules of Services, the restore before the trials proves as much.
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
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<NodeFault, NodeFault> {
        let mut last_failure = NodeFault::default();
        while let Some(group) = suspects.next() {
            let before = search.restores;
            let trial = match self.try_changes(&group, options, search).await {
                Ok(trial) => trial,
                Err(fault) => {
                    suspects.add(group);
                    return Err(fault);
                }
            };
            match trial {
                // No restore was needed: this shows nothing about the node.
                TrialResult::Applied if search.restores == before => {}
                TrialResult::Applied => suspects.succeeded(),
                TrialResult::Failed(FailedTrial {
                    cause,
                    failure,
                    named,
                }) => {
                    last_failure = NodeFault::because_of(&failure);
                    let named = named.map(|named| named.name);
                    if let Some(failing) = suspects.failed(group, named.as_ref()) {
                        self.put_in_quarantine(&failing, cause, failure.on_one_line(), search);
                    }
                    self.ensure_kernel_known(options, search).await?;
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

    /// Takes the reject rules from newly quarantined Services; reports whether any had some.
    pub(super) fn lower_fallbacks(&mut self, search: &SearchResult) -> bool {
        let names = self.quarantined_without_endpoints(search);
        for name in &names {
            self.lower_fallback(name);
        }
        !names.is_empty()
    }

    /// Returns the newly quarantined Services that are rendered without endpoints.
    fn quarantined_without_endpoints(&self, search: &SearchResult) -> Vec<ServiceName> {
        let is_without_endpoints =
            |name: &ServiceName| self.quarantine.fallback(name) == Some(Fallback::NoEndpoints);
        let names = search.quarantined.iter().map(|one| &one.name);
        let names = names.filter(|name| is_without_endpoints(name));
        names.cloned().collect()
    }

    /// Writes reject rules for newly quarantined Services without a last applied state to fall back
    /// to. After an adoption, writes all that differs, which removes stale chains as well.
    async fn finish(
        &mut self,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        if search.baseline == Baseline::Adopted {
            if !self.write_rendered_differences(options, search).await {
                self.restore_all(options, search).await?;
            }
            self.tracker.mark_lost_frontends_applied();
            return Ok(());
        }
        let without_endpoints = self.quarantined_without_endpoints(search);
        let trial = self
            .try_as_rendered(&without_endpoints, options, search)
            .await?;
        if trial.is_applied() {
            self.tracker.mark_lost_frontends_applied();
        } else {
            self.lower_fallbacks(search);
        }
        self.ensure_kernel_known(options, search).await
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
