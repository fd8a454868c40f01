//! Brings the kernel into a known state without the changes of suspects, for a
//! [search](super::search).
//!
//! If a restore or an adoption succeeded before (`SyncHistory::has_applied`), the suspects are the
//! dirty Services, rendered as last applied. What differs from the rules in the kernel is written;
//! a full restore follows only if these cannot be read or compared: it may be what failed, for
//! example for lack of memory. A Service that did not change is quarantined if that restore names a
//! line of it. If the restore still fails, Services in quarantine lose their endpoints.
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

use std::collections::BTreeSet;

use super::bisect::Bisection;
use super::kernel_state::ReadScope;
use super::outcome::{Baseline, Failure, NodeFault, SearchResult};
use super::quarantine::{Fallback, QuarantineCause};
use super::syncer::Syncer;
use super::trial_restore::{NamedService, TrialResult};
use crate::host::Iptables;
use crate::model::{ServiceName, Services};
use crate::render::{self, DeclineReason, Options};

/// Maximum number of Services that are quarantined because a full restore rejected one of their
/// lines; another such restore follows each.
const MOST_NAMED_LINES: usize = 4;

/// Number of Services with the most rules that are suspects if the rules in the kernel cannot be
/// adopted: a Service whose rules take too long or too much memory is among them.
const HEAVIEST: usize = 16;

/// Maximum number of Services whose chains are rewritten to prove that the node can restore rules.
const MOST_PROOFS: usize = 2;

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
            let dirty = self.tracker.dirty();
            let dirty = dirty.filter(|name| !self.tracker.overrides().contains_key(*name));
            dirty.cloned().collect()
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
        self.lower_fallbacks(search);
        let mut suspects = self.hold_back_without_history(options, search).await?;
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

    /// Returns the suspects before the first restore or adoption that succeeded.
    async fn hold_back_without_history(
        &mut self,
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
        let (mut last_failure, mut tried) = (NodeFault::default(), vec![BTreeSet::new()]);
        for suspects in [heaviest, without_chains, both] {
            if tried.contains(&suspects) {
                continue;
            }
            for name in tried.last().into_iter().flatten() {
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
            tried.push(suspects);
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
                let services = self.rendered_services();
                let without_chains =
                    render::services_without_chains(&rules.live, &services, options);
                return Ok(AdoptionResult::Declined {
                    reason,
                    without_chains,
                });
            }
        };
        self.applied = adopted.applied;
        self.applied_options = Some(options.clone());
        let is_suspect = |name: &ServiceName| {
            self.tracker.get(name).is_some() && !self.tracker.overrides().contains_key(name)
        };
        let differing = adopted.differing.into_iter();
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
            let (tracker, quarantine) = (&self.tracker, &self.quarantine);
            let other = self.applied.forget_chains_of_one(|name| {
                tracker.get(name).is_some() && !excluded.contains(name) && !quarantine.has(name)
            });
            let Some(name) = other else {
                break;
            };
            let one = std::slice::from_ref(&name);
            let proof = self
                .try_as_rendered(one, options, search)
                .await?
                .or_node_fault();
            let Err(failure) = proof else {
                return Ok(());
            };
            self.ensure_kernel_known(options, search).await?;
            last_failure = Some(failure);
            excluded.insert(name);
        }
        match last_failure {
            Some(failure) => Err(failure),
            None => self.restore_all(options, search).await,
        }
    }
}
