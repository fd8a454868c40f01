//! Restores of the search for Services that make restores fail, and retries of quarantined ones.
//!
//! A failure is returned to the caller, and no other restore follows it. The deadline is shorter
//! than usual, so that a restore that hangs does not take five minutes in each step.

use std::collections::BTreeSet;
use std::time::Duration;

use super::decide::FullReason;
use super::outcome::{Failure, Outcome, QuarantineRetry, SearchResult};
use super::quarantine::QuarantineCause;
use super::syncer::Syncer;
use crate::host::{Iptables, is_untouched};
use crate::model::{ServiceName, Services};
use crate::render::{Options, PartialRestore};
use crate::rules::Text;
use crate::tracker::OverrideClaims;

/// Minimum deadline of a restore of the search.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(30);

/// Deadline as a multiple of the duration of the last successful restore.
const DEADLINE_FACTOR: u32 = 10;

/// Error that ends a search or a retry: the node makes restores fail, not a Service.
pub(super) struct NodeFault;

impl<I: Iptables> Syncer<I> {
    /// Makes a full restore of all Services as rendered: in the state of their override, or in
    /// their state in the cluster. The inner result is that of the restore.
    pub(super) async fn full_restore(
        &mut self,
        options: &mut Options,
        search: &mut SearchResult,
    ) -> Result<Result<(), Failure>, NodeFault> {
        let before = self.history.full_took;
        self.deadline = (before > Duration::ZERO).then(|| deadline(before));
        let started = (self.clock)();
        let attempt = self.full(FullReason::Failed, options).await;
        let now = (self.clock)();
        let Err(failure) = attempt.result else {
            search.restores += 1;
            self.history.full_took = now.saturating_duration_since(started);
            self.restore_took = self.history.full_took;
            self.history.succeeded(now);
            self.tracker.mark_lost_frontends_applied();
            return Ok(Ok(()));
        };
        match &failure {
            Failure::Restore(error, _) if QuarantineCause::of(error).is_some() => {
                search.restores += 1;
                search.failed += 1;
                Ok(Err(failure))
            }
            _ => Err(NodeFault),
        }
    }

    /// Renders these Services as last applied during the search: without rules if none were
    /// applied, in which case they keep their claims to frontends.
    pub(super) fn hold_back(&mut self, names: &[ServiceName]) {
        let has_applied = self.history.has_applied();
        let claims = if has_applied {
            OverrideClaims::Rendered
        } else {
            OverrideClaims::Wanted
        };
        for name in names {
            let applied = self.tracker.applied_state(name);
            let state = applied.filter(|_| has_applied).unwrap_or_default();
            self.tracker.render_as(name, state, claims);
        }
    }

    /// Ends [`Syncer::hold_back`]: Services outside of quarantine are rendered in their state in
    /// the cluster again.
    pub(super) fn release_held_back(&mut self) {
        let overrides = self.tracker.overrides().keys();
        let held_back = overrides.filter(|name| !self.quarantine.has(name));
        for name in held_back.cloned().collect::<Vec<_>>() {
            self.tracker.remove_override(&name);
        }
    }

    /// Makes a partial restore of Services in their state in the cluster, without their overrides.
    /// If it fails, the overrides return.
    pub(super) async fn apply(
        &mut self,
        names: &[ServiceName],
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<Result<(), (QuarantineCause, Failure)>, NodeFault> {
        let held = names.iter().map(|name| self.tracker.remove_override(name));
        let held: Vec<_> = held.collect();
        let applied = self.apply_as_rendered(names, options, search).await;
        if !matches!(applied, Ok(Ok(()))) {
            for (name, state) in names.iter().zip(held) {
                if let Some(state) = state {
                    self.tracker.put_back(name, state);
                }
            }
        }
        applied
    }

    /// Makes a partial restore of Services as rendered, and of those that lose a frontend to them
    /// or gain one from them: no frontend may have the rules of two Services.
    pub(super) async fn apply_as_rendered(
        &mut self,
        names: &[ServiceName],
        options: &Options,
        search: &mut SearchResult,
    ) -> Result<Result<(), (QuarantineCause, Failure)>, NodeFault> {
        let names: BTreeSet<_> = names
            .iter()
            .chain(self.tracker.with_changed_losses())
            .collect();
        let names: Vec<_> = names.into_iter().cloned().collect();
        let saved = self.applied.save(&names);
        let partial = self.render_and_record(&names, PartialRestore::ChangedChains, options);
        if partial.text.is_empty() {
            self.tracker.mark_lost_frontends_applied();
            return Ok(Ok(()));
        }
        self.deadline = Some(deadline(self.restore_took));
        let started = (self.clock)();
        let restored = self.restore_payload(&mut Text::new(&partial.text)).await;
        let Err(error) = restored else {
            search.restores += 1;
            self.restore_took = (self.clock)().saturating_duration_since(started);
            self.tracker.mark_lost_frontends_applied();
            return Ok(Ok(()));
        };
        if is_untouched(&error, &mut Text::new(&partial.text)) {
            self.applied.put_back(saved);
        } else {
            self.forget_kernel();
        }
        let cause = QuarantineCause::of(&error).ok_or(NodeFault)?;
        search.restores += 1;
        search.failed += 1;
        let failure = Failure::of_restore(error, &mut Text::new(&partial.text));
        Ok(Err((cause, failure)))
    }

    /// Retries one Service in quarantine that is due, with a restore of its own. Each sync retries
    /// at most one, so that other changes are applied between two retries that hang.
    pub(super) async fn retry_quarantined(&mut self, outcome: &mut Outcome, options: &mut Options) {
        if self.quarantine.next_try().is_none() {
            return;
        }
        let tracker = &self.tracker;
        self.quarantine.note_changes(|name| tracker.get(name));
        let started = (self.clock)();
        let Some(name) = self.quarantine.due(started) else {
            return;
        };
        let tried = self.tracker.get(&name).cloned().unwrap_or_default();
        let names = [name.clone()];
        let mut search = SearchResult::default();
        let applied = self.apply(&names, options, &mut search).await;
        let is_kernel_unknown = self
            .ensure_kernel_known(options, &mut search)
            .await
            .is_err();
        if is_kernel_unknown {
            self.history.force_full(FullReason::Failed);
        }
        self.deadline = None;
        let now = (self.clock)();
        let took = now.saturating_duration_since(started);
        let result = match applied {
            Ok(Ok(())) => {
                let was_in = self.quarantine.remove(&name, now);
                // Other Services are dirty only if they lost a frontend to it or gained one.
                let quarantine = &self.quarantine;
                let applied = self
                    .tracker
                    .mark_applied_where(|name| !quarantine.has(name));
                outcome.applied.triggers.extend(applied.triggers);
                outcome.applied.before.extend(applied.before);
                Ok(was_in)
            }
            Ok(Err((_, failure))) => Err(Some(failure)),
            Err(NodeFault) => Err(None),
        };
        if result.is_err() {
            self.quarantine.failed(&name, tried, took, now);
        }
        (outcome.rules, outcome.totals) = (self.applied.rules(), self.applied.totals());
        outcome.retry = Some(QuarantineRetry {
            name,
            restores: search.restores,
            failed: search.failed,
            result,
            is_kernel_unknown,
        });
    }
}

/// Returns the deadline of a restore of the search; the usual deadline holds as well.
fn deadline(last_took: Duration) -> Duration {
    SHORTEST_DEADLINE.max(last_took.saturating_mul(DEADLINE_FACTOR))
}
