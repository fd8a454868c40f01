//! Finds the Services because of which restores fail, so that all others are applied.
//!
//! A partial restore that fails is followed by a full one. If that fails too, some Service may be
//! at fault, or the environment: missing programs, a kernel without memory. The search tells them
//! apart, and puts the Services at fault into [quarantine](super::quarantine).
//!
//! 1. While the failure names a line of a Service, the full restore is made again without it.
//! 2. Otherwise the kernel is brought into a known state that leaves out all suspects: a full
//!    restore that renders every dirty Service as last applied. At the start, when nothing has been
//!    applied, the rules in the kernel are read, and if those cannot be adopted, a full restore
//!    leaves out the Services with the most rules. If this fails, the environment is at fault.
//! 3. Partial restores of groups of suspects follow, halved as [`bisect`](super::bisect) decides.

use std::time::Duration;

use super::bisect::Bisection;
use super::inspect::{Inspection, Interest};
use super::isolation::{Isolation, Quarantined};
use super::outcome::{Attempt, Failure};
use super::quarantine::{Cause, Fallback};
use super::subset::Environment;
use super::syncer::Syncer;
use crate::host::Iptables;
use crate::model::{ServiceName, ServiceState, Services};
use crate::render::{Options, owner};
use crate::tracker::{OverrideClaims, Settled};

/// Full restores made again because of a named line. More culprits are left to the bisection, whose
/// restores are smaller.
const MOST_NAMED: usize = 4;

/// Services with the most rules that the first full restore leaves out: what takes too long or too
/// much memory is among them.
const HEAVIEST: usize = 16;

/// Time after which a search begins no further restore: what was applied by then is settled, and
/// the next sync searches on.
const LONGEST_SEARCH: Duration = Duration::from_secs(300);

/// Wait after a search that found the environment to be at fault: until then syncs fail without
/// one.
const AFTER_ENVIRONMENT: Duration = Duration::from_secs(60);

/// Rules that were in the kernel when nothing had been applied.
enum Read {
    /// They are known; these Services differ.
    Adopted(Vec<ServiceName>),
    /// They are not as anything here writes them.
    Declined {
        /// No Service has a chain.
        is_bare: bool,
    },
}

impl<I: Iptables> Syncer<I> {
    /// Searches after the attempts of a sync that failed; `None` if no Service can be to blame.
    pub(super) async fn isolate(
        &mut self,
        attempts: &[Attempt],
        options: &mut Options,
    ) -> Option<Isolation> {
        let now = (self.clock)();
        let failure = attempts.last()?.result.as_ref().err()?;
        let Failure::Restore(error, _) = failure else {
            return None;
        };
        Cause::of(error)?;
        if self.isolate_after.is_some_and(|after| now < after) || self.view().all().next().is_none()
        {
            return None;
        }
        let mut work = Isolation::default();
        let failures = attempts.iter().rev();
        let failures = failures.filter_map(|attempt| attempt.result.as_ref().err());
        let suspect = failures.into_iter().find_map(|failure| {
            let name = self.named(failure, options)?;
            Some((name, failure.on_one_line()))
        });
        if self.search(suspect, options, &mut work).await.is_err() {
            work.is_environment = true;
            let now = (self.clock)();
            self.isolate_after = Some(now + AFTER_ENVIRONMENT);
            for blamed in work.quarantined.drain(..) {
                self.quarantine.remove(&blamed.name, now);
            }
        }
        self.let_all_go();
        self.deadline = None;
        for blamed in &mut work.quarantined {
            let fallback = self.quarantine.fallback(&blamed.name);
            blamed.fallback = fallback.unwrap_or(blamed.fallback);
        }
        Some(work)
    }

    /// Settles what a search has applied.
    pub(super) fn settle_resolved(&mut self, work: &Isolation, options: &Options) -> Settled {
        if work.is_environment {
            return Settled::default();
        }
        self.settle(options, &work.unresolved)
    }

    async fn search(
        &mut self,
        mut suspect: Option<(ServiceName, String)>,
        options: &mut Options,
        work: &mut Isolation,
    ) -> Result<(), Environment> {
        let started = (self.clock)();
        for _ in 0..MOST_NAMED {
            let Some((name, error)) = suspect.take() else {
                break;
            };
            self.blame(&name, Cause::Refused, error, work);
            match self.full_again(options, work).await? {
                Ok(()) => return Ok(()),
                Err(failure) => {
                    let named = self.named(&failure, options);
                    suspect = named.map(|name| (name, failure.on_one_line()));
                }
            }
        }
        let suspects = self.leave_out_suspects(options, work).await?;
        let mut bisection = Bisection::new(self.by_weight(suspects));
        while let Some(group) = bisection.next() {
            if (self.clock)().saturating_duration_since(started) > LONGEST_SEARCH {
                bisection.put_back(group);
                break;
            }
            let before = work.restores;
            match self.apply(&group, options, work).await? {
                // Services that need nothing prove nothing.
                Ok(()) if work.restores == before => {}
                Ok(()) => bisection.succeeded(),
                Err((cause, failure)) => {
                    let named = self.named(&failure, options);
                    if let Some(culprit) = bisection.failed(group, named) {
                        self.blame(&culprit, cause, failure.on_one_line(), work);
                    }
                    self.know_kernel(options, work).await?;
                }
            }
        }
        if bisection.is_environment() {
            return Err(Environment);
        }
        work.unresolved = bisection.unresolved();
        self.finish(options, work).await
    }

    /// Brings the kernel into a known state without the suspects, and returns them.
    async fn leave_out_suspects(
        &mut self,
        options: &mut Options,
        work: &mut Isolation,
    ) -> Result<Vec<ServiceName>, Environment> {
        if self.history.last_full.is_some() {
            let dirty = self.tracker.dirty();
            let dirty: Vec<_> = dirty
                .filter(|name| !self.quarantine.has(name))
                .cloned()
                .collect();
            if dirty.is_empty() {
                return Err(Environment);
            }
            self.hold_back(&dirty);
            return match self.full_again(options, work).await? {
                Ok(()) => Ok(dirty),
                Err(_) => Err(Environment),
            };
        }
        let is_bare = match self.read_kernel(options).await? {
            Read::Adopted(differing) => {
                work.is_adopted = true;
                return Ok(differing);
            }
            Read::Declined { is_bare } => is_bare,
        };
        let all: Vec<_> = self
            .tracker
            .all()
            .map(|(name, _)| name.clone())
            .filter(|name| !self.quarantine.has(name))
            .collect();
        let mut heaviest = self.by_weight(all.clone());
        let heaviest = heaviest.split_off(heaviest.len().saturating_sub(HEAVIEST));
        // Rules of an earlier process would go with all the Services.
        let is_more = is_bare && heaviest.len() < all.len();
        for left_out in [Some(heaviest), is_more.then_some(all)]
            .into_iter()
            .flatten()
        {
            self.hold_back(&left_out);
            if self.full_again(options, work).await?.is_ok() {
                return Ok(left_out);
            }
        }
        Err(Environment)
    }

    /// Reads the rules in the kernel, for an applied state of them.
    async fn read_kernel(&mut self, options: &Options) -> Result<Read, Environment> {
        let inspected = self.inspect(Interest::AllOfOurs).await;
        let Inspection { live, found, .. } = inspected.map_err(|_| Environment)?;
        let Ok(adopted) = self.compare(found, &live, options).await else {
            return Ok(Read::Declined {
                is_bare: live.is_bare(),
            });
        };
        self.applied = adopted.applied;
        self.written = Some(options.clone());
        let is_suspect =
            |name: &ServiceName| self.tracker.get(name).is_some() && !self.quarantine.has(name);
        let differing = adopted.differing.into_iter();
        Ok(Read::Adopted(differing.filter(is_suspect).collect()))
    }

    /// Makes sure that the applied state describes the kernel, after a restore that failed
    /// half-way.
    pub(super) async fn know_kernel(
        &mut self,
        options: &mut Options,
        work: &mut Isolation,
    ) -> Result<(), Environment> {
        if self.written.is_some() {
            return Ok(());
        }
        if work.is_adopted {
            return match self.read_kernel(options).await? {
                Read::Adopted(_) => Ok(()),
                Read::Declined { .. } => Err(Environment),
            };
        }
        if self.full_again(options, work).await?.is_ok() {
            return Ok(());
        }
        self.lower_blamed(work);
        let restored = self.full_again(options, work).await?;
        restored.map_err(|_| Environment)
    }

    /// Leaves out the Services blamed whose rejects may be what fails.
    fn lower_blamed(&mut self, work: &Isolation) {
        for name in self.rejected(work) {
            self.lower(&name);
        }
    }

    /// Renders a Service in quarantine in its next form.
    fn lower(&mut self, name: &ServiceName) {
        let rendered = self.view().get(name).cloned().unwrap_or_default();
        let state = self.quarantine.lower(name, &rendered);
        let claims = match self.quarantine.fallback(name) {
            Some(Fallback::LeftOut) => OverrideClaims::Wanted,
            _ => OverrideClaims::Rendered,
        };
        self.tracker.render_as(name, state, claims);
    }

    /// The Services blamed that are rendered without endpoints.
    fn rejected(&self, work: &Isolation) -> Vec<ServiceName> {
        let is_rejected =
            |name: &ServiceName| self.quarantine.fallback(name) == Some(Fallback::NoEndpoints);
        let blamed = work.quarantined.iter().map(|blamed| &blamed.name);
        blamed.filter(|name| is_rejected(name)).cloned().collect()
    }

    /// Rejects the clients of new Services that were blamed, and removes stale chains.
    async fn finish(
        &mut self,
        options: &mut Options,
        work: &mut Isolation,
    ) -> Result<(), Environment> {
        if work.is_adopted {
            // Stale chains go with the next full restore, if this is not the end of the search.
            if !work.unresolved.is_empty() || self.full_again(options, work).await?.is_ok() {
                return Ok(());
            }
            self.lower_blamed(work);
            let restored = self.full_again(options, work).await?;
            return restored.map_err(|_| Environment);
        }
        let rejected = self.rejected(work);
        let applied = self.apply_as_rendered(&rejected, options, work).await?;
        if applied.is_err() {
            self.lower_blamed(work);
        }
        self.know_kernel(options, work).await
    }

    /// Puts a Service into quarantine.
    fn blame(&mut self, name: &ServiceName, cause: Cause, error: String, work: &mut Isolation) {
        if self.quarantine.has(name) {
            return self.lower(name);
        }
        let wanted = self.tracker.get(name).cloned().unwrap_or_default();
        let held_back = || {
            let held_back = self.tracker.overrides().get(name)?;
            Some(held_back.state.clone())
        };
        let settled = self.tracker.settled_state(name).or_else(held_back);
        let applied =
            settled.filter(|state| state.service.is_some() && self.history.last_full.is_some());
        let now = (self.clock)();
        let state = self.quarantine.add(name, applied, wanted, now);
        self.tracker
            .render_as(name, state, OverrideClaims::Rendered);
        work.quarantined.push(Quarantined {
            name: name.clone(),
            cause,
            error,
            fallback: Fallback::LastApplied,
        });
    }

    /// Renders these Services as last applied.
    fn hold_back(&mut self, names: &[ServiceName]) {
        let has_applied = self.history.last_full.is_some();
        let claims = if has_applied {
            OverrideClaims::Rendered
        } else {
            OverrideClaims::Wanted
        };
        for name in names {
            let settled = self.tracker.settled_state(name);
            let state = settled.filter(|_| has_applied).unwrap_or_default();
            self.tracker.render_as(name, state, claims);
        }
    }

    /// Renders the Services that are only held back as the cluster wants them.
    fn let_all_go(&mut self) {
        let overrides = self.tracker.overrides().keys();
        let held_back = overrides.filter(|name| !self.quarantine.has(name));
        for name in held_back.cloned().collect::<Vec<_>>() {
            self.tracker.render_as_wanted(&name);
        }
    }

    /// The Service of which the failure names a line.
    fn named(&self, failure: &Failure, options: &Options) -> Option<ServiceName> {
        let Failure::Restore(_, Some(excerpt)) = failure else {
            return None;
        };
        let mut lines = excerpt.lines.iter();
        let (_, line) = lines.find(|(number, _)| *number == excerpt.line)?;
        owner(line, &self.view(), self.setting(options))
    }

    /// Sorted by the number of rules, roughly, the most at the end.
    fn by_weight(&self, mut names: Vec<ServiceName>) -> Vec<ServiceName> {
        names.sort_by_cached_key(|name| (self.tracker.get(name).map_or(0, weight), name.clone()));
        names
    }
}

/// Size of what a Service needs, roughly.
fn weight(state: &ServiceState) -> usize {
    let ports = state
        .service
        .as_ref()
        .map_or(0, |service| service.ports.len());
    let endpoints = state.slices.iter().map(|(_, slice)| slice.endpoints.len());
    ports * (1 + endpoints.sum::<usize>())
}
