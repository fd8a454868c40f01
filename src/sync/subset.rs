//! Restores of some Services, without the fallback to a full restore.
//!
//! The search for Services that make restores fail consists of these, and so do their retries. The
//! deadline is shorter than usual, so that a restore that hangs does not cost five minutes for each
//! step.

use std::collections::BTreeSet;
use std::time::Duration;

use super::committed::is_untouched;
use super::decide::FullReason;
use super::isolation::{Isolation, Retry};
use super::outcome::{Failure, Outcome};
use super::quarantine::Cause;
use super::syncer::Syncer;
use crate::host::Iptables;
use crate::model::{ServiceName, Services};
use crate::render::{Options, PartialRestore};
use crate::rules::Text;

/// Shortest deadline of a restore of the search.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(30);

/// Deadline as a multiple of the time that the last restore took that succeeded.
const DEADLINE_SHARE: u32 = 10;

/// The environment is at fault.
pub(super) struct Environment;

impl<I: Iptables> Syncer<I> {
    /// Makes a full restore of the Services as they are rendered.
    pub(super) async fn full_again(
        &mut self,
        options: &mut Options,
        work: &mut Isolation,
    ) -> Result<Result<(), Failure>, Environment> {
        let before = self.history.full_took;
        self.deadline = (before > Duration::ZERO).then(|| deadline(before));
        let started = (self.clock)();
        let done = self.full(FullReason::Failed, options).await;
        let now = (self.clock)();
        let Err(failure) = done.restored else {
            work.restores += 1;
            self.history.full_took = now.saturating_duration_since(started);
            self.restore_took = self.history.full_took;
            self.history.succeeded(now);
            self.tracker.shifts_applied();
            return Ok(Ok(()));
        };
        match &failure {
            Failure::Restore(error, _) if Cause::of(error).is_some() => {
                work.restores += 1;
                work.failed += 1;
                Ok(Err(failure))
            }
            _ => Err(Environment),
        }
    }

    /// Makes a partial restore of Services as the cluster wants them.
    pub(super) async fn apply(
        &mut self,
        names: &[ServiceName],
        options: &Options,
        work: &mut Isolation,
    ) -> Result<Result<(), (Cause, Failure)>, Environment> {
        let held = names.iter().map(|name| self.tracker.render_as_wanted(name));
        let held: Vec<_> = held.collect();
        let applied = self.apply_as_rendered(names, options, work).await;
        if !matches!(applied, Ok(Ok(()))) {
            for (name, state) in names.iter().zip(held) {
                if let Some(state) = state {
                    self.tracker.put_back(name, state);
                }
            }
        }
        applied
    }

    /// Makes a partial restore of Services as they are rendered, and of those that lose a frontend
    /// to them or gain one: no frontend may have the rules of two.
    pub(super) async fn apply_as_rendered(
        &mut self,
        names: &[ServiceName],
        options: &Options,
        work: &mut Isolation,
    ) -> Result<Result<(), (Cause, Failure)>, Environment> {
        let names: BTreeSet<_> = names.iter().chain(self.tracker.shifted()).collect();
        let names: Vec<_> = names.into_iter().cloned().collect();
        let saved = self.applied.save(&names);
        let partial = self.render(&names, PartialRestore::ChangedChains, options);
        if partial.text.is_empty() {
            self.tracker.shifts_applied();
            return Ok(Ok(()));
        }
        self.deadline = Some(deadline(self.restore_took));
        let started = (self.clock)();
        let restored = self.give(&mut Text::new(&partial.text)).await;
        let Err(error) = restored else {
            work.restores += 1;
            self.restore_took = (self.clock)().saturating_duration_since(started);
            self.tracker.shifts_applied();
            return Ok(Ok(()));
        };
        if is_untouched(&error, &mut Text::new(&partial.text)) {
            self.applied.put_back(saved);
        } else {
            self.forget_kernel();
        }
        let cause = Cause::of(&error).ok_or(Environment)?;
        work.restores += 1;
        work.failed += 1;
        let failure = Failure::refused(error, &mut Text::new(&partial.text));
        Ok(Err((cause, failure)))
    }

    /// Restores a Service in quarantine that is due, alone. Only one for each sync, so that changes
    /// of others come between two that hang.
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
        let mut work = Isolation::default();
        let applied = self.apply(&names, options, &mut work).await;
        let is_lost = self.know_kernel(options, &mut work).await.is_err();
        if is_lost {
            self.history.force_full(FullReason::Failed);
        }
        self.deadline = None;
        let now = (self.clock)();
        let took = now.saturating_duration_since(started);
        let result = match applied {
            Ok(Ok(())) => {
                let was_in = self.quarantine.remove(&name, now);
                // Also those that lost a frontend to it or gained one: all others are settled.
                let quarantine = &self.quarantine;
                let settled = self.tracker.settle_where(|name| !quarantine.has(name));
                outcome.settled.triggers.extend(settled.triggers);
                outcome.settled.before.extend(settled.before);
                Ok(was_in)
            }
            Ok(Err((_, failure))) => Err(Some(failure)),
            Err(Environment) => Err(None),
        };
        if result.is_err() {
            self.quarantine.failed(&name, tried, took, now);
        }
        (outcome.rules, outcome.totals) = (self.applied.rules(), self.applied.totals());
        outcome.retry = Some(Retry {
            name,
            restores: work.restores,
            failed: work.failed,
            result,
            is_lost,
        });
    }
}

/// Deadline of a restore of the search; the usual one, if shorter, holds all the same.
fn deadline(last_took: Duration) -> Duration {
    SHORTEST_DEADLINE.max(last_took.saturating_mul(DEADLINE_SHARE))
}
