//! Restores of the [search](super::search) for Services that make restores fail, and retries of
//! quarantined Services.
//!
//! The caller decides what follows a trial that failed. The deadline of a trial is mostly shorter
//! than the usual one, so that a restore that hangs does not take five minutes in each step. A full
//! trial before the first applied full restore has the usual deadline.
//!
//! # Known state
//!
//! A search first brings the kernel into a known state without the changes of the suspects. If a
//! restore or an adoption succeeded before (`SyncHistory::has_applied`), these are the dirty
//! Services, rendered as last applied. What differs from the rules in the kernel is written; a full
//! restore follows only if these cannot be read or compared: it may be what failed, for example for
//! lack of memory. A Service that did not change is quarantined if that restore names a line of it.
//! If the restore still fails, Services in quarantine lose their endpoints.
//!
//! If that does not help, or no Service has a last applied state:
//!
//! 1. While the failure names a line of a Service, this Service is quarantined, and the full
//!    restore is tried again.
//! 2. Then the rules in the kernel are adopted. The suspects are the Services that differ from
//!    them.
//! 3. If these rules cannot be adopted, the suspects are the Services with the most rules. A full
//!    restore leaves out their rules. If that fails, the suspects are the Services that have no
//!    chain in the kernel, and then both. If that fails as well, the search ends with a fault of
//!    the node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::bisect::Bisection;
use super::decide::FullReason;
use super::kernel_state::ReadScope;
use super::outcome::{
    Baseline, Failure, NodeFault, Outcome, QuarantineRetry, RetryResult, SearchResult,
};
use super::quarantine::{Fallback, Quarantine, QuarantineCause};
use super::syncer::{RenderedServices, Syncer};
use crate::host::{Iptables, is_untouched};
use crate::model::{ServiceName, ServiceState, Services};
use crate::render::{self, DeclineReason, Options, PartialRestore, service_of_line};
use crate::rules::Text;
use crate::tracker::{Override, OverrideClaims};

/// Minimum deadline of a trial restore.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(30);

/// Deadline of a trial restore as a multiple of the duration of the last successful restore.
const DEADLINE_FACTOR: u32 = 10;

/// Maximum number of Services that are quarantined because a full restore rejected one of their
/// lines; another such restore follows each.
const MOST_NAMED_LINES: usize = 4;

/// Number of Services with the most rules that are suspects if the rules in the kernel cannot be
/// adopted: a Service whose rules take too long or too much memory is among them.
const HEAVIEST: usize = 16;

/// Maximum number of Services whose chains are rewritten to prove that the node can restore rules.
const MOST_PROOFS: usize = 2;

/// Result of a trial restore.
pub(super) enum TrialResult {
    /// The rules were applied, or nothing had to be written.
    Applied,
    /// The restore failed in a way that a Service can cause.
    Failed(FailedTrial),
}

/// Failure of a trial restore.
pub(super) struct FailedTrial {
    pub(super) cause: QuarantineCause,
    pub(super) failure: Failure,
    /// Service of the rejected line, by the rules that the trial has rendered.
    pub(super) named: Option<NamedService>,
}

impl TrialResult {
    /// Reports whether the rules were applied.
    pub(super) const fn is_applied(&self) -> bool {
        matches!(self, Self::Applied)
    }

    /// For a trial that left out all Services that may be the cause: its failure is a fault of the
    /// node.
    pub(super) fn or_node_fault(self) -> Result<(), NodeFault> {
        match self {
            Self::Applied => Ok(()),
            Self::Failed(failed) => Err(NodeFault::because_of(&failed.failure)),
        }
    }
}

/// Service of a rejected line.
pub(super) struct NamedService {
    pub(super) name: ServiceName,
    /// Error message that names the line, on one line.
    pub(super) error: String,
}

impl NamedService {
    /// Returns the one of these Services that the rejected line belongs to, if the failure names a
    /// line.
    pub(super) fn of(
        failure: &Failure,
        services: &dyn Services,
        options: &Options,
    ) -> Option<Self> {
        let Failure::Restore(_, Some(excerpt)) = failure else {
            return None;
        };
        let mut lines = excerpt.lines.iter();
        let (_, line) = lines.find(|(number, _)| *number == excerpt.line)?;
        let name = service_of_line(line, services, options)?;
        let error = failure.on_one_line();
        Some(Self { name, error })
    }
}

/// Services in quarantine at the start of a search, with the states they are rendered in.
pub(super) struct QuarantineSnapshot {
    quarantine: Quarantine,
    overrides: BTreeMap<ServiceName, Override>,
}

/// Result of an adoption of the rules in the kernel by a search.
enum AdoptionResult {
    /// The rules were adopted; these Services differ from them.
    Adopted(Vec<ServiceName>),
    /// The rules cannot be adopted.
    Declined {
        reason: DeclineReason,
        /// Services that have no chain in the kernel.
        without_chains: Vec<ServiceName>,
    },
}

impl<I: Iptables> Syncer<I> {
    /// Makes a full restore of all Services as rendered: in the state of their override, or in
    /// their state in the cluster.
    pub(super) async fn try_all(
        &mut self,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<TrialResult, NodeFault> {
        let before = self.history.full_took;
        let deadline = (before > Duration::ZERO).then(|| deadline(before));
        let started = (self.clock)();
        let attempt = self.full(FullReason::Failed, options, deadline).await;
        let now = (self.clock)();
        let Err(failure) = attempt.result else {
            search.restores += 1;
            self.history.full_took = now.saturating_duration_since(started);
            self.restore_took = self.history.full_took;
            self.history.succeeded(now);
            self.tracker.mark_lost_frontends_applied();
            return Ok(TrialResult::Applied);
        };
        let cause = match &failure {
            Failure::Restore(error, _) => QuarantineCause::of(error),
            Failure::Read(_) => None,
        };
        let cause = cause.ok_or_else(|| NodeFault::because_of(&failure))?;
        search.restores += 1;
        search.failed += 1;
        Ok(TrialResult::Failed(FailedTrial {
            cause,
            named: NamedService::of(&failure, &self.rendered_services(), options),
            failure,
        }))
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

    /// Holds back suspects that were not held back so far, because the rules in the kernel were
    /// adopted.
    pub(super) fn hold_back_after_adoption(&mut self, suspects: &Bisection, search: &SearchResult) {
        if search.baseline == Baseline::Adopted {
            self.hold_back(&suspects.unresolved().cloned().collect::<Vec<_>>());
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
        }
    }

    /// Returns the Services in quarantine and the suspects as they are now. Between searches, no
    /// others have overrides.
    pub(super) fn quarantine_snapshot(&self) -> QuarantineSnapshot {
        QuarantineSnapshot {
            quarantine: self.quarantine.clone(),
            overrides: self.tracker.overrides().clone(),
        }
    }

    /// Undoes what a search changed in the quarantine, because it found no Service at fault. The
    /// kernel may have their rules in the forms of the search, so the next sync renders them.
    pub(super) fn restore_quarantine(
        &mut self,
        before: QuarantineSnapshot,
        search: &mut SearchResult,
    ) {
        let added = search.quarantined.drain(..).map(|one| one.name);
        self.services_to_repair.extend(added);
        // Trials may have applied their changes, which may be taken back before the next sync.
        self.services_to_repair
            .extend(self.tracker.dirty().cloned());
        self.services_to_repair
            .extend(before.quarantine.names().cloned());
        self.quarantine = before.quarantine;
        for (name, known) in before.overrides {
            if self.tracker.overrides().get(&name) != Some(&known) {
                self.services_to_repair.insert(name.clone());
                self.tracker.put_back(&name, known);
            }
        }
    }

    /// Renders a Service in quarantine in its next fallback form.
    pub(super) fn lower_fallback(&mut self, name: &ServiceName) {
        let rendered = self
            .rendered_services()
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
    }

    /// Makes a partial restore of Services in their state in the cluster, without their overrides.
    /// If it fails, the overrides return.
    pub(super) async fn try_changes(
        &mut self,
        names: &[ServiceName],
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<TrialResult, NodeFault> {
        let overrides = names.iter().map(|name| self.tracker.remove_override(name));
        let overrides: Vec<_> = overrides.collect();
        let trial = self.try_as_rendered(names, options, search).await;
        if !trial.as_ref().is_ok_and(TrialResult::is_applied) {
            for (name, state) in names.iter().zip(overrides) {
                if let Some(state) = state {
                    self.tracker.put_back(name, state);
                }
            }
        }
        trial
    }

    /// Makes a partial restore of Services as rendered, and of those that lose a frontend to them
    /// or gain one from them: no frontend may have the rules of two Services.
    pub(super) async fn try_as_rendered(
        &mut self,
        names: &[ServiceName],
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<TrialResult, NodeFault> {
        let names: BTreeSet<_> = names
            .iter()
            .chain(self.tracker.with_changed_losses())
            .collect();
        let names: Vec<_> = names.into_iter().cloned().collect();
        let saved = self.applied.snapshot(&names);
        // Tree chains are written whole: if another program emptied one during the search, an
        // insertion into it would fail, and its Service would seem to be at fault.
        let partial = self.render_and_record(&names, PartialRestore::WholeTreeChains, options);
        if partial.text.is_empty() {
            // Lost frontends are marked at the end: a fault of the node undoes the search.
            return Ok(TrialResult::Applied);
        }
        let payload = || Text::new(&partial.text);
        let deadline = Some(deadline(self.restore_took));
        let started = (self.clock)();
        let restored = self.restore_payload(&mut payload(), deadline).await;
        let Err(error) = restored else {
            search.restores += 1;
            self.restore_took = (self.clock)().saturating_duration_since(started);
            self.tracker.mark_lost_frontends_applied();
            return Ok(TrialResult::Applied);
        };
        if is_untouched(&error, &mut payload()) {
            self.applied.revert_to(saved);
        } else {
            self.forget_kernel();
        }
        let cause = QuarantineCause::of(&error);
        let failure = Failure::of_restore(error, &mut payload());
        let cause = cause.ok_or_else(|| NodeFault::because_of(&failure))?;
        search.restores += 1;
        search.failed += 1;
        // Looked up now: the caller may put overrides back.
        let restored = SomeServices(self.rendered_services(), &names);
        Ok(TrialResult::Failed(FailedTrial {
            cause,
            named: NamedService::of(&failure, &restored, options),
            failure,
        }))
    }

    /// Retries one Service in quarantine that is due, with a restore of its own. Each sync retries
    /// at most one, so that other changes are applied between two retries that hang.
    pub(super) async fn retry_quarantined(&mut self, outcome: &mut Outcome, options: &mut Options) {
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
        let known = self.ensure_kernel_known(options, &mut counted).await;
        let kernel_unknown = known.err();
        if kernel_unknown.is_some() {
            self.history.force_full(FullReason::Failed);
        }
        let now = (self.clock)();
        let result = match trial {
            Ok(TrialResult::Applied) => RetryResult::Released(self.release(&name, outcome, now)),
            Ok(TrialResult::Failed(failed)) => RetryResult::Failed(failed.failure),
            Err(fault) => RetryResult::NodeFault(fault),
        };
        let took = now.saturating_duration_since(started);
        match result {
            RetryResult::Released(_) => {}
            RetryResult::Failed(_) => self.quarantine.failed(&name, retried, took, now),
            RetryResult::NodeFault(_) => self.quarantine.postpone(&name, took, now),
        }
        (outcome.rules, outcome.totals) = (self.applied.rule_counts(), self.applied.totals());
        outcome.tree_chains = self.applied.tree_chain_count();
        outcome.quarantine_retry = Some(QuarantineRetry {
            name,
            restores: counted.restores,
            failed: counted.failed,
            result,
            kernel_unknown,
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

    /// Brings the kernel into a known state without the changes of the suspects; returns these, and
    /// the one of them that the last failure names. `named` is the Service of the line that was
    /// rejected last.
    pub(super) async fn hold_back_suspects(
        &mut self,
        mut named: Option<NamedService>,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<(Vec<ServiceName>, Option<NamedService>), NodeFault> {
        let dirty = if self.history.has_applied() {
            self.dirty().cloned().collect()
        } else {
            Vec::new()
        };
        self.hold_back(&dirty);
        let has_applied = self.history.has_applied();
        // With last applied states, the change of the named Service is held back, and the caller
        // judges it.
        let mut other = named.take_if(|_| !has_applied);
        let mut last_failure = NodeFault::default();
        for _ in 0..=MOST_NAMED_LINES {
            if let Some(NamedService { name, error }) = other.take() {
                self.put_in_quarantine(&name, QuarantineCause::Rejected, error, search);
            } else if last_failure.cause.is_some() || !has_applied {
                break;
            }
            match self.restore_rendered(options, search).await? {
                TrialResult::Applied => return Ok((dirty, named)),
                TrialResult::Failed(failed) => {
                    last_failure = NodeFault::because_of(&failed.failure);
                    other = failed.named;
                }
            }
        }
        if has_applied && self.is_node_suspected() {
            return Err(last_failure);
        }
        if has_applied && self.lower_last_applied() {
            let trial = self.restore_rendered(options, search).await?;
            if trial.is_applied() {
                return Ok((dirty, None));
            }
        }
        // Their reject rules may fail as well, and each of these restores contains them.
        let is_tried = !self.lower_fallbacks(search);
        let tried = is_tried.then_some(last_failure);
        let mut suspects = self
            .hold_back_without_history(tried, options, search)
            .await?;
        suspects.extend(dirty);
        Ok((suspects, None))
    }

    /// Takes the endpoints from Services in quarantine that are rendered as last applied: after a
    /// flush, for example, these rules have to be written again, and may be what fails. Reports
    /// whether there were any.
    fn lower_last_applied(&mut self) -> bool {
        let is_last_applied =
            |name: &&ServiceName| self.quarantine.fallback(name) == Some(Fallback::LastApplied);
        let names: Vec<_> = self
            .quarantine
            .names()
            .filter(is_last_applied)
            .cloned()
            .collect();
        for name in &names {
            self.lower_fallback(name);
        }
        !names.is_empty()
    }

    /// Returns the suspects before the first restore or adoption that succeeded. `tried` is the
    /// failure of a full restore of all Services as rendered, if there was one.
    async fn hold_back_without_history(
        &mut self,
        tried: Option<NodeFault>,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<Vec<ServiceName>, NodeFault> {
        let without_chains = match self.adopt_kernel_rules(options).await? {
            AdoptionResult::Adopted(differing) => {
                search.baseline = Baseline::Adopted;
                return Ok(differing);
            }
            AdoptionResult::Declined { without_chains, .. } => without_chains,
        };
        let is_overridden = |name: &ServiceName| self.tracker.overrides().contains_key(name);
        let all = self.tracker.all().map(|(name, _)| name);
        let all = all.filter(|name| !is_overridden(name)).cloned();
        let mut heaviest = self.by_weight(all.collect());
        let heaviest = heaviest.split_off(heaviest.len().saturating_sub(HEAVIEST));
        let heaviest: BTreeSet<ServiceName> = heaviest.into_iter().collect();
        // A restore without them deletes no rules of an earlier process.
        let without_chains = without_chains.into_iter();
        let without_chains = without_chains.filter(|name| !is_overridden(name)).collect();
        let both = &heaviest | &without_chains;
        let mut sets: Vec<BTreeSet<ServiceName>> = Vec::new();
        if tried.is_some() {
            sets.push(BTreeSet::new());
        }
        let mut last_failure = tried.unwrap_or_default();
        for suspects in [BTreeSet::new(), heaviest, without_chains, both] {
            if sets.contains(&suspects) {
                continue;
            }
            for name in sets.last().into_iter().flatten() {
                self.tracker.remove_override(name);
            }
            let names: Vec<_> = suspects.iter().cloned().collect();
            self.hold_back(&names);
            match self.try_all(options, search).await?.or_node_fault() {
                Ok(()) => {
                    // If the others stayed dirty, a later search would render them as last applied:
                    // without rules, although the kernel has some.
                    search.applied = self.mark_applied(options);
                    return Ok(names);
                }
                Err(failure) => last_failure = failure,
            }
            sets.push(suspects);
        }
        Err(last_failure)
    }

    /// Reads the rules in the kernel, and adopts them as the applied state.
    async fn adopt_kernel_rules(&mut self, options: &Options) -> Result<AdoptionResult, NodeFault> {
        let read = self.read_rules(ReadScope::Adoption(options)).await;
        let read = read.map_err(|error| NodeFault::because_of(&Failure::Read(error)));
        let mut rules = read?;
        let (applied, differing) = match self.try_adopt(&mut rules, options) {
            Ok(adopted) => adopted,
            Err(reason) => {
                let services = self.rendered_services();
                let without_chains =
                    render::services_without_chains(&rules.live, &services, options);
                return Ok(AdoptionResult::Declined {
                    reason,
                    without_chains,
                });
            }
        };
        self.applied = applied;
        self.applied_options = Some(options.clone());
        let is_suspect = |name: &ServiceName| {
            self.tracker.get(name).is_some() && !self.tracker.overrides().contains_key(name)
        };
        let differing = differing.into_iter();
        Ok(AdoptionResult::Adopted(
            differing.filter(is_suspect).collect(),
        ))
    }

    /// Writes what differs between the rules in the kernel and the rendered ones; makes a full
    /// restore if these cannot be compared or that fails.
    async fn restore_rendered(
        &mut self,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<TrialResult, NodeFault> {
        // Without chains of Services, a full restore is cheap, and shows that the others can be
        // written.
        let is_written = self.history.has_applied()
            && self.write_rendered_differences(options, search).await
            && self.has_service_rules();
        if is_written {
            return Ok(TrialResult::Applied);
        }
        self.try_all(options, search).await
    }

    /// Reads the rules in the kernel and writes what differs from the rendered ones, as the first
    /// sync of a process does. Returns whether the kernel has the rendered rules.
    pub(super) async fn write_rendered_differences(
        &mut self,
        options: &Options,
        search: &mut SearchResult,
    ) -> bool {
        let Ok(mut rules) = self.read_rules(ReadScope::Adoption(options)).await else {
            return false;
        };
        let Ok(adopted) = self.try_adopt(&mut rules, options) else {
            return false;
        };
        let (payload, written) = self.write_differences(adopted, options).await;
        search.restores += usize::from(payload.stats.bytes > 0);
        if written.is_err() {
            search.failed += 1;
            return false;
        }
        if payload.stats.bytes > 0 {
            self.tracker.mark_lost_frontends_applied();
        }
        self.history.succeeded((self.clock)());
        true
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
        if self.history.has_applied() && self.write_rendered_differences(options, search).await {
            return Ok(());
        }
        self.restore_all(options, search).await
    }

    /// Makes a full restore, and a second one without the reject rules of newly quarantined
    /// Services if the first one fails: these may be the cause.
    pub(super) async fn restore_all(
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

    /// Reports whether the kernel has rules of Services.
    pub(super) fn has_service_rules(&self) -> bool {
        self.applied.chains().next().is_some()
    }

    /// Proves that the node can restore rules of Services: rewrites the chains of one that is
    /// neither a suspect nor in quarantine, and if that fails of another one: the node may reject
    /// the rules of the first one now. Without any such Service, makes a full restore.
    pub(super) async fn prove_node(
        &mut self,
        suspects: &Bisection,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<(), NodeFault> {
        let mut excluded: BTreeSet<ServiceName> = suspects.unresolved().cloned().collect();
        let mut last_failure = None;
        for _ in 0..MOST_PROOFS {
            let other = self.applied.first_with_chains(|name| {
                self.tracker.get(name).is_some()
                    && !excluded.contains(name)
                    && !self.quarantine.has(name)
                    && !self.services_to_repair.contains(name)
            });
            let Some(name) = other.cloned() else {
                break;
            };
            self.applied.set_damaged(&name, true);
            let one = std::slice::from_ref(&name);
            let proof = self.try_as_rendered(one, options, search).await;
            self.applied.set_damaged(&name, false);
            let Err(failure) = proof?.or_node_fault() else {
                return Ok(());
            };
            self.ensure_kernel_known(options, search).await?;
            last_failure = Some(failure);
            excluded.insert(name);
        }
        if let Some(failure) = last_failure {
            return Err(failure);
        }
        self.hold_back_after_adoption(suspects, search);
        self.restore_all(options, search).await
    }
}

/// Those of the rendered Services that have these names, which are sorted.
struct SomeServices<'a>(RenderedServices<'a>, &'a [ServiceName]);

impl Services for SomeServices<'_> {
    fn all(&self) -> Box<dyn Iterator<Item = (&ServiceName, &ServiceState)> + '_> {
        let Self(all, names) = self;
        let states = names.iter().filter_map(|name| Some((name, all.get(name)?)));
        Box::new(states)
    }

    fn get(&self, name: &ServiceName) -> Option<&ServiceState> {
        let Self(all, names) = self;
        names.binary_search(name).ok().and_then(|_| all.get(name))
    }
}

/// Returns the deadline of a trial restore. If the usual deadline is shorter, that applies.
fn deadline(last_took: Duration) -> Duration {
    SHORTEST_DEADLINE.max(last_took.saturating_mul(DEADLINE_FACTOR))
}
