//! Finds the Services that make restores fail, so that all others are applied.
//!
//! A partial restore that fails is followed by a full one. If that fails, the cause is either some
//! Service or the node: missing programs, a kernel without memory. The search finds out,
//! and puts the Services at fault into [quarantine](super::quarantine).
//!
//! 1. While the failure names a line of a Service, the full restore is repeated without it.
//! 2. Otherwise a full restore that renders every dirty Service as last applied brings the kernel
//!    into a known state without the suspects. Before the first applied sync, the rules in the
//!    kernel are adopted instead; if they cannot be, a full restore leaves out the Services with
//!    the most rules. If this fails, the node is at fault.
//! 3. Partial restores of groups of suspects follow, halved as [`bisect`](super::bisect) decides.

use std::time::Duration;

use super::bisect::{Bisection, NodeEvidence};
use super::kernel_state::ReadScope;
use super::outcome::{Attempt, Failure, Isolation, Quarantined};
use super::quarantine::{Fallback, QuarantineCause};
use super::subset::NodeFault;
use super::syncer::Syncer;
use crate::host::Iptables;
use crate::model::{ServiceName, ServiceState, Services};
use crate::render::{Options, owner};
use crate::tracker::{AppliedChanges, OverrideClaims};

/// Maximum number of full restores that are repeated because of a named line. Further failing
/// Services are left to the bisection, whose restores are smaller.
const MOST_NAMED: usize = 4;

/// Number of Services with the most rules that the first full restore leaves out: a Service that
/// takes too long or too much memory is among them.
const HEAVIEST: usize = 16;

/// Time after which a search starts no further restore: the changes in the kernel by then are
/// marked as applied, and the next sync continues the search.
const LONGEST_SEARCH: Duration = Duration::from_secs(300);

/// Time without another search after one that found the node at fault: syncs that fail
/// meanwhile are only retried.
const AFTER_NODE_FAULT: Duration = Duration::from_secs(60);

/// Result of an adoption of the rules in the kernel before the first applied sync.
enum AdoptionResult {
    /// The rules are known; these Services differ.
    Adopted(Vec<ServiceName>),
    /// The rules cannot be adopted.
    Declined {
        /// No chain of a Service exists.
        is_bare: bool,
    },
}

impl<I: Iptables> Syncer<I> {
    /// Searches after the failed attempts of a sync; `None` if no Service can be the cause.
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
        QuarantineCause::of(error)?;
        if self.isolate_after.is_some_and(|after| now < after)
            || self.rendered_services().all().next().is_none()
        {
            return None;
        }
        let mut isolation = Isolation::default();
        let failures = attempts.iter().rev();
        let failures = failures.filter_map(|attempt| attempt.result.as_ref().err());
        let suspect = failures.into_iter().find_map(|failure| {
            let name = self.named_service(failure, options)?;
            Some((name, failure.on_one_line()))
        });
        if self.search(suspect, options, &mut isolation).await.is_err() {
            isolation.is_node_fault = true;
            let now = (self.clock)();
            self.isolate_after = Some(now + AFTER_NODE_FAULT);
            for quarantined in isolation.quarantined.drain(..) {
                self.quarantine.remove(&quarantined.name, now);
            }
        }
        self.release_held_back();
        self.deadline = None;
        for quarantined in &mut isolation.quarantined {
            let fallback = self.quarantine.fallback(&quarantined.name);
            quarantined.fallback = fallback.unwrap_or(quarantined.fallback);
        }
        Some(isolation)
    }

    /// Marks the changes that a search has applied.
    pub(super) fn mark_resolved_applied(
        &mut self,
        isolation: &Isolation,
        options: &Options,
    ) -> AppliedChanges {
        if isolation.is_node_fault {
            return AppliedChanges::default();
        }
        self.mark_applied(options, &isolation.unresolved)
    }

    async fn search(
        &mut self,
        mut suspect: Option<(ServiceName, String)>,
        options: &mut Options,
        isolation: &mut Isolation,
    ) -> Result<(), NodeFault> {
        let started = (self.clock)();
        for _ in 0..MOST_NAMED {
            let Some((name, error)) = suspect.take() else {
                break;
            };
            self.put_in_quarantine(&name, QuarantineCause::Rejected, error, isolation);
            match self.full_restore(options, isolation).await? {
                Ok(()) => return Ok(()),
                Err(failure) => {
                    let named = self.named_service(&failure, options);
                    suspect = named.map(|name| (name, failure.on_one_line()));
                }
            }
        }
        let suspects = self.leave_out_suspects(options, isolation).await?;
        let evidence = if self.applied.chains().next().is_some() {
            NodeEvidence::Works
        } else {
            NodeEvidence::Unknown
        };
        let mut bisection = Bisection::new(self.by_weight(suspects), evidence);
        while let Some(group) = bisection.next() {
            if (self.clock)().saturating_duration_since(started) > LONGEST_SEARCH {
                bisection.put_back(group);
                break;
            }
            let before = isolation.restores;
            match self.apply(&group, options, isolation).await? {
                // No restore was needed: this shows nothing about the node.
                Ok(()) if isolation.restores == before => {}
                Ok(()) => bisection.succeeded(),
                Err((cause, failure)) => {
                    let named = self.named_service(&failure, options);
                    if let Some(failing) = bisection.failed(group, named) {
                        self.put_in_quarantine(&failing, cause, failure.on_one_line(), isolation);
                    }
                    self.ensure_kernel_known(options, isolation).await?;
                }
            }
        }
        if bisection.is_node_fault() {
            return Err(NodeFault);
        }
        isolation.unresolved = bisection.unresolved();
        self.finish(options, isolation).await
    }

    /// Brings the kernel into a known state without the suspects, and returns them.
    async fn leave_out_suspects(
        &mut self,
        options: &mut Options,
        isolation: &mut Isolation,
    ) -> Result<Vec<ServiceName>, NodeFault> {
        if self.history.last_full.is_some() {
            let dirty = self.tracker.dirty();
            let dirty: Vec<_> = dirty
                .filter(|name| !self.quarantine.has(name))
                .cloned()
                .collect();
            if dirty.is_empty() {
                return Err(NodeFault);
            }
            self.hold_back(&dirty);
            return match self.full_restore(options, isolation).await? {
                Ok(()) => Ok(dirty),
                Err(_) => Err(NodeFault),
            };
        }
        let is_bare = match self.read_kernel(options).await? {
            AdoptionResult::Adopted(differing) => {
                isolation.is_adopted = true;
                return Ok(differing);
            }
            AdoptionResult::Declined { is_bare } => is_bare,
        };
        let all: Vec<_> = self
            .tracker
            .all()
            .map(|(name, _)| name.clone())
            .filter(|name| !self.quarantine.has(name))
            .collect();
        let mut heaviest = self.by_weight(all.clone());
        let heaviest = heaviest.split_off(heaviest.len().saturating_sub(HEAVIEST));
        // Leaving out all Services would delete the rules of an earlier process.
        let is_more = is_bare && heaviest.len() < all.len();
        for left_out in [Some(heaviest), is_more.then_some(all)]
            .into_iter()
            .flatten()
        {
            self.hold_back(&left_out);
            if self.full_restore(options, isolation).await?.is_ok() {
                return Ok(left_out);
            }
        }
        Err(NodeFault)
    }

    /// Reads the rules in the kernel, and adopts them as the applied state.
    async fn read_kernel(&mut self, options: &Options) -> Result<AdoptionResult, NodeFault> {
        let inspected = self.inspect(ReadScope::Adoption(options)).await;
        let mut inspection = inspected.map_err(|_| NodeFault)?;
        let Ok(adopted) = self.compare(&mut inspection, options) else {
            return Ok(AdoptionResult::Declined {
                is_bare: inspection.live.is_bare(),
            });
        };
        self.applied = adopted.applied;
        self.written = Some(options.clone());
        let is_suspect =
            |name: &ServiceName| self.tracker.get(name).is_some() && !self.quarantine.has(name);
        let differing = adopted.differing.into_iter();
        Ok(AdoptionResult::Adopted(
            differing.filter(is_suspect).collect(),
        ))
    }

    /// Makes sure that the applied state describes the kernel after a restore that may have been
    /// applied in part.
    pub(super) async fn ensure_kernel_known(
        &mut self,
        options: &mut Options,
        isolation: &mut Isolation,
    ) -> Result<(), NodeFault> {
        if self.written.is_some() {
            return Ok(());
        }
        if isolation.is_adopted {
            return match self.read_kernel(options).await? {
                AdoptionResult::Adopted(_) => Ok(()),
                AdoptionResult::Declined { .. } => Err(NodeFault),
            };
        }
        if self.full_restore(options, isolation).await?.is_ok() {
            return Ok(());
        }
        self.lower_fallbacks(isolation);
        let restored = self.full_restore(options, isolation).await?;
        restored.map_err(|_| NodeFault)
    }

    /// Leaves out the quarantined Services whose reject rules may be what fails.
    fn lower_fallbacks(&mut self, isolation: &Isolation) {
        for name in self.rejected(isolation) {
            self.lower_fallback(&name);
        }
    }

    /// Renders a Service in quarantine in its next fallback form.
    fn lower_fallback(&mut self, name: &ServiceName) {
        let rendered = self
            .rendered_services()
            .get(name)
            .cloned()
            .unwrap_or_default();
        let state = self.quarantine.lower(name, &rendered);
        let claims = match self.quarantine.fallback(name) {
            Some(Fallback::LeftOut) => OverrideClaims::Wanted,
            _ => OverrideClaims::Rendered,
        };
        self.tracker.render_as(name, state, claims);
    }

    /// Returns the newly quarantined Services that are rendered without endpoints.
    fn rejected(&self, isolation: &Isolation) -> Vec<ServiceName> {
        let is_rejected =
            |name: &ServiceName| self.quarantine.fallback(name) == Some(Fallback::NoEndpoints);
        let quarantined = isolation
            .quarantined
            .iter()
            .map(|quarantined| &quarantined.name);
        quarantined
            .filter(|name| is_rejected(name))
            .cloned()
            .collect()
    }

    /// Writes reject rules for newly quarantined Services without applied rules, and removes stale
    /// chains.
    async fn finish(
        &mut self,
        options: &mut Options,
        isolation: &mut Isolation,
    ) -> Result<(), NodeFault> {
        if isolation.is_adopted {
            // An unfinished search leaves stale chains to the next full restore.
            if !isolation.unresolved.is_empty()
                || self.full_restore(options, isolation).await?.is_ok()
            {
                return Ok(());
            }
            self.lower_fallbacks(isolation);
            let restored = self.full_restore(options, isolation).await?;
            return restored.map_err(|_| NodeFault);
        }
        let rejected = self.rejected(isolation);
        let applied = self
            .apply_as_rendered(&rejected, options, isolation)
            .await?;
        if applied.is_err() {
            self.lower_fallbacks(isolation);
        }
        self.ensure_kernel_known(options, isolation).await
    }

    /// Puts a Service into quarantine.
    fn put_in_quarantine(
        &mut self,
        name: &ServiceName,
        cause: QuarantineCause,
        error: String,
        isolation: &mut Isolation,
    ) {
        if self.quarantine.has(name) {
            return self.lower_fallback(name);
        }
        let wanted = self.tracker.get(name).cloned().unwrap_or_default();
        let held_back = || {
            let held_back = self.tracker.overrides().get(name)?;
            Some(held_back.state.clone())
        };
        let applied = self.tracker.applied_state(name).or_else(held_back);
        let applied =
            applied.filter(|state| state.service.is_some() && self.history.last_full.is_some());
        let now = (self.clock)();
        let state = self.quarantine.add(name, applied, wanted, now);
        self.tracker
            .render_as(name, state, OverrideClaims::Rendered);
        isolation.quarantined.push(Quarantined {
            name: name.clone(),
            cause,
            error,
            fallback: Fallback::LastApplied,
        });
    }

    /// Renders these Services as last applied, for the time of the search.
    fn hold_back(&mut self, names: &[ServiceName]) {
        let has_applied = self.history.last_full.is_some();
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

    /// Renders Services in their state in the cluster again that are not in quarantine.
    fn release_held_back(&mut self) {
        let overrides = self.tracker.overrides().keys();
        let held_back = overrides.filter(|name| !self.quarantine.has(name));
        for name in held_back.cloned().collect::<Vec<_>>() {
            self.tracker.render_as_wanted(&name);
        }
    }

    /// Returns the Service whose line the failure names.
    fn named_service(&self, failure: &Failure, options: &Options) -> Option<ServiceName> {
        let Failure::Restore(_, Some(excerpt)) = failure else {
            return None;
        };
        let mut lines = excerpt.lines.iter();
        let (_, line) = lines.find(|(number, _)| *number == excerpt.line)?;
        owner(line, &self.rendered_services(), self.setting(options))
    }

    /// Sorts Services by their approximate number of rules, the most at the end.
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
