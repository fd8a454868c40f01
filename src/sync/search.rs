//! Searches for the Services that make restores fail, so that all others are applied.
//!
//! A search follows a sync whose last restore failed, unless the xtables lock was busy. The cause
//! is either some Services or the node, for example a missing kernel module or too little memory.
//! The search finds out by trial restores, and puts the Services at fault into
//! [quarantine](super::quarantine). If the node can restore no rules of any Service, it ends with a
//! [`NodeFault`]: no Service is quarantined, and the sync is retried.
//!
//! 1. The suspects are the dirty Services, and before the first restore or adoption that succeeded
//!    those that differ from the rules in the kernel, which are read then. Their changes are held
//!    back.
//! 2. What is left to write is written. While that fails, the Service of the rejected line is
//!    quarantined, or those in quarantine get their next fallback, or the others that had to be
//!    written are suspects, without rules meanwhile.
//! 3. Partial restores of groups of suspects follow, as a [`Bisection`] decides.
//! 4. A Service that is found is rendered as last applied, or without endpoints, so that clients
//!    get a reject. It stays in quarantine only if a restore of other rules succeeded, which proves
//!    that the node is able to restore some: otherwise the search is undone.
//!
//! Other changes wait while trials run, so a search begins none after [`LONGEST_SEARCH`]. The
//! suspects that are left stay held back, and each later sync continues the search with some more
//! trials, after it has applied all other changes.
//!
//! A trial writes the changes of some Services, and all that is damaged besides. Services that are
//! not in it have the rules that they had, or none, so that it shows whether these can be written.
//! Its deadline is mostly shorter than the usual one, so that a restore that hangs does not take
//! five minutes in each step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::kernel::KernelState;
use super::outcome::{Attempt, Failure, NodeFault, Quarantined, SearchResult, TrialFailure};
use super::quarantine::{Bisection, Fallback, Quarantine, QuarantineCause};
use super::schedule::FullReason;
use super::syncer::Syncer;
use crate::host::Iptables;
use crate::model::{ServiceName, ServiceState, Services};
use crate::render::{self, AppliedService, AppliedState, LiveRules, Options, PartialRestore};
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

/// Minimum deadline of a trial restore.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(30);

/// Deadline of a trial restore as a multiple of the duration of the last successful restore.
const DEADLINE_FACTOR: u32 = 10;

/// Speed of a restore on a busy node, for the deadline of a trial that writes much after one that
/// wrote little. On an idle one, restores of all rules take 0.5 to 1.5 seconds per megabyte.
const SLOWEST_BYTES_PER_SECOND: u64 = 100_000;

/// Number of the first trials without the suspects after which a rejected line puts only its
/// Service into quarantine, or on to its next fallback.
const MOST_NAMED_LINES: usize = 4;

/// Maximum number of trials without the suspects. After each that failed, some more Services are
/// written in another form or not at all.
const MOST_TRIALS_WITHOUT_SUSPECTS: usize = MOST_NAMED_LINES + 4;

/// Maximum number of Services whose chains are rewritten to prove that the node can restore rules.
const MOST_PROOFS: usize = 2;

impl<I: Iptables> Syncer<I> {
    /// Searches after the failed attempts of a sync; `None` if the last one failed in a way that no
    /// Service can cause, such as a failed reading, if there are no Services, or if a recent search
    /// ended with a [`NodeFault`] before anything was applied.
    pub(super) async fn search(
        &mut self,
        attempts: &[Attempt],
        options: &Options,
    ) -> Option<SearchResult> {
        let failure = attempts.last()?.result.as_ref().err()?;
        failure.quarantine_cause()?;
        if (self.is_node_suspected() && !self.history.has_applied())
            || self.tracker.rendered().all().next().is_none()
        {
            return None;
        }
        let mut search = SearchResult::default();
        let quarantine = self.quarantine_snapshot();
        let failures = attempts.iter().rev();
        let mut failures = failures.filter_map(|attempt| attempt.result.as_ref().err());
        let named =
            failures.find_map(|failure| Some((failure.named()?.clone(), failure.on_one_line())));
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

    /// Marks all dirty Services as applied after a search, except those that it left in quarantine
    /// or as suspects, unless it found a fault of the node.
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
            self.observe_or_adopt(options).await?;
            return Ok(dirty.into_iter().collect());
        }
        let differing = self.observe_or_adopt(options).await?;
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
        suspects.retain(|name| !self.quarantine.has(name));
        suspects.add(without_rules.into_iter().collect());
        let took = now.saturating_duration_since(started);
        self.quarantine.keep_suspects(suspects, took, now);
        search.held_back = self.quarantine.suspects().cloned().collect();
        search.held_back.sort_unstable();
        Ok(())
    }

    /// Restores groups of suspects until none is left, or until the first restore that ends after
    /// `ends`; without rules of Services in the kernel, until one has succeeded.
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
                Err(TrialFailure::Rules { cause, failure }) => {
                    last_failure = NodeFault::because_of(&failure);
                    if let Some(failing) = suspects.failed(group, failure.named()) {
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

    /// Reads the kernel, and compares it with the record. Without one, and before the first restore
    /// or adoption that succeeded, adopts what was read, and returns the Services that differ.
    pub(super) async fn observe_or_adopt(
        &mut self,
        options: &Options,
    ) -> Result<BTreeSet<ServiceName>, NodeFault> {
        let has_changed = self.history.rerender_reason(options).is_some();
        if self.history.has_applied() && !has_changed && self.kernel.record().is_some() {
            // Another program may have changed rules, so that restores of any Service fail.
            self.observe_tables(LiveRules::of_chains()).await;
            return Ok(BTreeSet::new());
        }
        let read = self.read_rules(Some(LiveRules::of_tables())).await;
        let rules = read.map_err(|error| NodeFault::because_of(&Failure::Read(error)))?;
        // Rules that cannot be read count as missing.
        let found = rules.found.unwrap_or_else(LiveRules::of_tables);
        let applied = render::adopt(&found, &rules.live, &self.tracker.rendered(), options);
        let differing = applied.due().cloned().collect();
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
        let deadline = Some(deadline(self.restore_took, partial.text.len() as u64));
        let started = (self.clock)();
        let restored = self.restore_changes(&mut partial, options, deadline).await;
        let Err(failure) = restored else {
            // Without a restore, lost frontends are marked at the end: a fault of the node undoes
            // the search.
            if !is_empty {
                search.restores += 1;
                self.restore_took = (self.clock)().saturating_duration_since(started);
                self.tracker.mark_lost_frontends_applied();
            }
            return Ok(());
        };
        if !failure.is_untouched() {
            // Otherwise rules would be written that the kernel has, and may reject now. If the
            // tables cannot be read, they are.
            self.observe_tables(LiveRules::of_chains()).await;
        }
        let Some(cause) = failure.quarantine_cause() else {
            return Err(TrialFailure::Node(NodeFault::because_of(&failure)));
        };
        search.restores += 1;
        search.failed += 1;
        Err(TrialFailure::Rules { cause, failure })
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
            let failure = match self.try_as_rendered(&[], options, search).await {
                Ok(()) => return Ok(()),
                Err(TrialFailure::Rules { failure, .. }) => failure,
                Err(TrialFailure::Node(fault)) => return Err(fault),
            };
            last_failure = NodeFault::because_of(&failure);
            if let Some(name) = failure.named()
                && trial < MOST_NAMED_LINES
            {
                let error = failure.on_one_line();
                self.put_in_quarantine(name, QuarantineCause::Rejected, error, search);
                self.add_due(name);
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

    pub(super) fn has_service_rules(&self) -> bool {
        let applied = self.kernel.record();
        applied.is_some_and(AppliedState::has_service_rules)
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
            let is_untouched = match &failure {
                TrialFailure::Rules { failure, .. } => failure.is_untouched(),
                TrialFailure::Node(_) => true,
            };
            if is_untouched {
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

/// Returns the approximate number of rules of a Service.
fn weight(state: &ServiceState) -> usize {
    let ports = state
        .service
        .as_ref()
        .map_or(0, |service| service.ports.len());
    let endpoints = state.slices.iter().map(|(_, slice)| slice.endpoints.len());
    ports * (1 + endpoints.sum::<usize>())
}

/// Returns the deadline of a trial restore of this many bytes. If the usual deadline is shorter,
/// that applies.
pub(super) fn deadline(last_took: Duration, bytes: u64) -> Duration {
    let by_size = Duration::from_secs(bytes / SLOWEST_BYTES_PER_SECOND);
    let by_last = last_took.saturating_mul(DEADLINE_FACTOR);
    SHORTEST_DEADLINE.max(by_last).max(by_size)
}
