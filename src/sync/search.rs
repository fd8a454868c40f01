//! Searches for the Services that make restores fail, so that all others are applied.
//!
//! A partial restore that fails is followed by a full one. If that fails as well, the cause is
//! either some Services or the node, for example a missing kernel module or too little memory. The
//! search finds out by [trial restores](super::trial_restore), and puts the Services at fault into
//! [quarantine](super::quarantine). If it cannot find out, for example because no trial was
//! possible or those of all groups failed, it ends with a [`NodeFault`]: no Service is quarantined,
//! and the sync is retried.
//!
//! 1. While the failure names a line of a Service, this Service is quarantined, and the full
//!    restore is tried again.
//! 2. Otherwise the kernel is brought into a known state without the changes of the suspects. If
//!    that fails, the search ends. There are three cases:
//!    - If a restore or an adoption succeeded before (`SyncHistory::has_applied`), the suspects are
//!      the dirty Services. A full restore renders them as last applied.
//!    - If none did, the rules in the kernel are adopted. The suspects are the Services that differ
//!      from them.
//!    - If these rules cannot be adopted, the suspects are the Services with the most rules. A full
//!      restore leaves out their rules. If that fails and the kernel has no chain of a Service, all
//!      Services are suspects.
//! 3. Partial restores of groups of suspects follow, halved as [`bisect`](super::bisect) decides.

use std::time::Duration;

use super::bisect::{Bisection, NodeEvidence};
use super::decide::FullReason;
use super::kernel_state::ReadScope;
use super::outcome::{Attempt, Baseline, Failure, NodeFault, Quarantined, SearchResult};
use super::quarantine::{Fallback, QuarantineCause};
use super::syncer::Syncer;
use super::trial_restore::TrialResult;
use crate::host::Iptables;
use crate::model::{ServiceName, ServiceState, Services};
use crate::render::{DeclineReason, Options, service_of_line};
use crate::tracker::{AppliedChanges, OverrideClaims};

/// Maximum number of full restores in step 1. Further Services whose lines are named are left to
/// the bisection, whose restores are smaller.
const MOST_NAMED_LINES: usize = 4;

/// Number of Services with the most rules that are suspects if the rules in the kernel cannot be
/// adopted: a Service whose rules take too long or too much memory is among them.
const HEAVIEST: usize = 16;

/// Time after which a search restores no further group: the changes applied by then are marked as
/// applied, and the next sync continues the search.
const LONGEST_SEARCH: Duration = Duration::from_secs(300);

/// Minimum time from a search that ended with a [`NodeFault`] to the next one: syncs that fail
/// meanwhile are only retried.
const AFTER_NODE_FAULT: Duration = Duration::from_secs(60);

/// Service of a rejected line.
struct NamedService {
    name: ServiceName,
    /// Error message that names the line, on one line.
    error: String,
}

/// Result of an adoption of the rules in the kernel by a search.
enum AdoptionResult {
    /// The rules were adopted; these Services differ from them.
    Adopted(Vec<ServiceName>),
    /// The rules cannot be adopted.
    Declined {
        reason: DeclineReason,
        /// The kernel has no chain of a Service.
        is_bare: bool,
    },
}

impl<I: Iptables> Syncer<I> {
    /// Searches after the failed attempts of a sync; `None` if no Service can be the cause, or if a
    /// recent search ended with a [`NodeFault`].
    pub(super) async fn search(
        &mut self,
        attempts: &[Attempt],
        options: &mut Options,
    ) -> Option<SearchResult> {
        let now = (self.clock)();
        let failure = attempts.last()?.result.as_ref().err()?;
        let Failure::Restore(error, _) = failure else {
            return None;
        };
        QuarantineCause::of(error)?;
        if self.search_after.is_some_and(|after| now < after)
            || self.rendered_services().all().next().is_none()
        {
            return None;
        }
        let mut search = SearchResult::default();
        let quarantine = self.quarantine_snapshot();
        let failures = attempts.iter().rev();
        let mut failures = failures.filter_map(|attempt| attempt.result.as_ref().err());
        let named = failures.find_map(|failure| self.named_service(failure, options));
        if let Err(fault) = self.run_search(named, options, &mut search).await {
            search.node_fault = Some(fault);
            self.search_after = Some((self.clock)() + AFTER_NODE_FAULT);
            self.restore_quarantine(quarantine, &mut search);
            if self.applied_options.is_none() {
                // A trial that succeeded earlier has withdrawn the request for a full sync.
                self.force_full(FullReason::Failed);
            }
        }
        self.release_held_back();
        for quarantined in &mut search.quarantined {
            let fallback = self.quarantine.fallback(&quarantined.name);
            quarantined.fallback = fallback.unwrap_or(quarantined.fallback);
        }
        Some(search)
    }

    /// Marks the Services that a search has applied, and returns all of its changes.
    pub(super) fn mark_resolved_applied(
        &mut self,
        search: &mut SearchResult,
        options: &Options,
    ) -> AppliedChanges {
        let mut applied = std::mem::take(&mut search.applied);
        if search.node_fault.is_none() {
            applied.append(self.mark_applied(options, &search.unresolved));
        }
        applied
    }

    /// Runs the steps of a search; `named` is the Service of the line that was rejected last.
    async fn run_search(
        &mut self,
        mut named: Option<NamedService>,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        let started = (self.clock)();
        for _ in 0..MOST_NAMED_LINES {
            let Some(NamedService { name, error }) = named.take() else {
                break;
            };
            self.put_in_quarantine(&name, QuarantineCause::Rejected, error, search);
            match self.try_all(options, search).await? {
                TrialResult::Applied => return Ok(()),
                TrialResult::Failed(_, failure) => named = self.named_service(&failure, options),
            }
        }
        let suspects = self.hold_back_suspects(options, search).await?;
        let evidence = if self.applied.chains().next().is_some() {
            NodeEvidence::HasServiceRules
        } else {
            NodeEvidence::HasNone
        };
        let mut bisection = Bisection::new(self.by_weight(suspects), evidence);
        let mut last_failure = NodeFault::default();
        while let Some(group) = bisection.next() {
            if (self.clock)().saturating_duration_since(started) > LONGEST_SEARCH {
                bisection.put_back(group);
                break;
            }
            let before = search.restores;
            match self.try_changes(&group, options, search).await? {
                // No restore was needed: this shows nothing about the node.
                TrialResult::Applied if search.restores == before => {}
                TrialResult::Applied => bisection.succeeded(),
                TrialResult::Failed(cause, failure) => {
                    last_failure = NodeFault::because_of(&failure);
                    let named = self.named_service(&failure, options);
                    let named = named.map(|named| named.name);
                    if let Some(failing) = bisection.failed(group, named) {
                        self.put_in_quarantine(&failing, cause, failure.on_one_line(), search);
                    }
                    self.ensure_kernel_known(options, search).await?;
                }
            }
        }
        if bisection.is_node_fault() {
            return Err(last_failure);
        }
        search.unresolved = bisection.unresolved();
        self.finish(options, search).await
    }

    /// Brings the kernel into a known state without the changes of the suspects (step 2); returns
    /// the suspects.
    async fn hold_back_suspects(
        &mut self,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<Vec<ServiceName>, NodeFault> {
        if self.history.has_applied() {
            let dirty = self.tracker.dirty();
            let dirty: Vec<_> = dirty
                .filter(|name| !self.quarantine.has(name))
                .cloned()
                .collect();
            // No Service outside of quarantine changed, so none can be the cause.
            if dirty.is_empty() {
                return Err(NodeFault::default());
            }
            self.hold_back(&dirty);
            self.try_all(options, search).await?.or_node_fault()?;
            return Ok(dirty);
        }
        let is_bare = match self.adopt_kernel_rules(options).await? {
            AdoptionResult::Adopted(differing) => {
                search.baseline = Baseline::Adopted;
                return Ok(differing);
            }
            AdoptionResult::Declined { is_bare, .. } => is_bare,
        };
        let all: Vec<_> = self
            .tracker
            .all()
            .map(|(name, _)| name.clone())
            .filter(|name| !self.quarantine.has(name))
            .collect();
        let mut heaviest = self.by_weight(all.clone());
        let heaviest = heaviest.split_off(heaviest.len().saturating_sub(HEAVIEST));
        // A restore without any Service would delete the rules of an earlier process, if there are
        // any.
        let can_hold_back_all = is_bare && heaviest.len() < all.len();
        let mut last_failure = NodeFault::default();
        for suspects in [Some(heaviest), can_hold_back_all.then_some(all)]
            .into_iter()
            .flatten()
        {
            self.hold_back(&suspects);
            match self.try_all(options, search).await?.or_node_fault() {
                Ok(()) => {
                    // If the others stayed dirty, a later search would render them as last applied:
                    // without rules, although the kernel has some.
                    search.applied = self.mark_applied(options, &suspects);
                    return Ok(suspects);
                }
                Err(failure) => last_failure = failure,
            }
        }
        Err(last_failure)
    }

    /// Reads the rules in the kernel, and adopts them as the applied state.
    async fn adopt_kernel_rules(&mut self, options: &Options) -> Result<AdoptionResult, NodeFault> {
        let read = self.read_rules(ReadScope::Adoption(options)).await;
        let read = read.map_err(|error| NodeFault::because_of(&Failure::Read(error)));
        let mut rules = read?;
        let adopted = match self.try_adopt(&mut rules, options) {
            Ok(adopted) => adopted,
            Err(reason) => {
                let is_bare = rules.live.has_no_service_chain();
                return Ok(AdoptionResult::Declined { reason, is_bare });
            }
        };
        self.applied = adopted.applied;
        self.applied_options = Some(options.clone());
        let is_suspect =
            |name: &ServiceName| self.tracker.get(name).is_some() && !self.quarantine.has(name);
        let differing = adopted.differing.into_iter();
        Ok(AdoptionResult::Adopted(
            differing.filter(is_suspect).collect(),
        ))
    }

    /// Makes sure that the applied state describes the kernel after a trial. If a failed one was
    /// applied in part, adopts or restores all rules.
    pub(super) async fn ensure_kernel_known(
        &mut self,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        if self.applied_options.is_some() {
            return Ok(());
        }
        if search.baseline == Baseline::Adopted {
            return match self.adopt_kernel_rules(options).await? {
                AdoptionResult::Adopted(_) => Ok(()),
                AdoptionResult::Declined { reason, .. } => Err(NodeFault {
                    cause: Some(format!(
                        "rules in the kernel cannot be adopted again: {}",
                        reason.as_str()
                    )),
                }),
            };
        }
        self.restore_all(options, search).await
    }

    /// Makes a full restore, and a second one without the reject rules of newly quarantined
    /// Services if the first one fails: these may be the cause.
    async fn restore_all(
        &mut self,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        let trial = self.try_all(options, search).await?;
        if trial.is_applied() || !self.lower_fallbacks(search) {
            return trial.or_node_fault();
        }
        self.try_all(options, search).await?.or_node_fault()
    }

    /// Takes the reject rules from newly quarantined Services; reports whether any had some.
    fn lower_fallbacks(&mut self, search: &SearchResult) -> bool {
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
    /// to. After an adoption, a full restore does that and removes stale chains.
    async fn finish(
        &mut self,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        if search.baseline == Baseline::Adopted {
            // An unfinished search leaves stale chains to the next full restore.
            if !search.unresolved.is_empty() {
                return Ok(());
            }
            return self.restore_all(options, search).await;
        }
        let without_endpoints = self.quarantined_without_endpoints(search);
        let trial = self
            .try_as_rendered(&without_endpoints, options, search)
            .await?;
        if !trial.is_applied() {
            self.lower_fallbacks(search);
        }
        self.ensure_kernel_known(options, search).await
    }

    /// Puts a Service into quarantine; one that already is there gets its next fallback form.
    fn put_in_quarantine(
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

    /// Returns the Service that the rejected line belongs to, if the failure names a line.
    fn named_service(&self, failure: &Failure, options: &Options) -> Option<NamedService> {
        let Failure::Restore(_, Some(excerpt)) = failure else {
            return None;
        };
        let mut lines = excerpt.lines.iter();
        let (_, line) = lines.find(|(number, _)| *number == excerpt.line)?;
        let name = service_of_line(line, &self.rendered_services(), options)?;
        let error = failure.on_one_line();
        Some(NamedService { name, error })
    }

    /// Sorts Services by their approximate number of rules, those with the most at the end.
    fn by_weight(&self, mut names: Vec<ServiceName>) -> Vec<ServiceName> {
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
