//! States that are rendered in place of those of the cluster, for Services whose changes cannot be
//! applied.
//!
//! They are part of the tracker because such a Service claims the frontends of the state that is
//! rendered: otherwise two Services would have rules for one frontend, or none.
//!
//! # Invariants
//!
//! - The lost frontends of a Service with an override are in the override; its tracked state has
//!   none.
//! - A Service is in `changed_losses` from a change of its lost frontends until the kernel has its
//!   rules.

use std::collections::BTreeMap;

use super::dirty::toggle;
use super::frontends::Wanted;
use super::track::{Override, OverrideClaims, Tracker};
use crate::model::{
    Allowance, FrontendRank, LostFrontend, PortFrontend, Service, ServiceName, ServiceState,
};

impl Tracker {
    /// Returns the states that are rendered in place of those of the cluster.
    pub const fn overrides(&self) -> &BTreeMap<ServiceName, Override> {
        &self.overrides
    }

    /// Returns the Services whose lost frontends changed since they were last rendered.
    pub fn with_changed_losses(&self) -> impl Iterator<Item = &ServiceName> {
        self.changed_losses.iter()
    }

    /// Notes that the kernel has the rules of all Services whose lost frontends changed.
    pub fn mark_lost_frontends_applied(&mut self) {
        for name in std::mem::take(&mut self.changed_losses) {
            if let Some(rendered) = self.overrides.get(&name) {
                self.dirty.set_lost(&name, rendered.state.lost.clone());
            }
        }
    }

    /// Renders a Service as `state` in place of the state of the cluster. Sets the frontends that
    /// it has lost.
    pub fn render_as(
        &mut self,
        name: &ServiceName,
        mut state: ServiceState,
        claims: OverrideClaims,
    ) {
        let before = self.claims(name);
        state.lost = match self.overrides.remove(name) {
            Some(known) => known.state.lost,
            None => self.take_lost(name),
        };
        self.overrides
            .insert(name.clone(), Override { state, claims });
        self.update_claims(name, &before);
        self.forget_if_empty(name);
    }

    /// Puts back an override that [`remove_override`](Self::remove_override) returned.
    pub fn put_back(&mut self, name: &ServiceName, known: Override) {
        self.render_as(name, known.state, known.claims);
    }

    /// Renders a Service in the state of the cluster again; returns the override.
    pub fn remove_override(&mut self, name: &ServiceName) -> Option<Override> {
        let before = self.claims(name);
        let known = self.overrides.remove(name)?;
        for frontend in &known.state.lost {
            self.toggle_lost(name, *frontend);
        }
        self.update_claims(name, &before);
        self.forget_if_empty(name);
        Some(known)
    }

    /// Returns the frontends that service ports ask for and other Services have, sorted by
    /// frontend.
    pub fn lost_frontends(&self) -> impl Iterator<Item = LostFrontend> {
        self.frontends.lost().map(|(frontend, owner, loser)| {
            let rendered = self.overrides.get(&loser.service).map(|one| &one.state);
            let tracked = self.services.get(&loser.service).map(|one| &one.state);
            let state = rendered.filter(|state| state.service.is_some()).or(tracked);
            let service = state.and_then(|state| state.service.as_ref());
            let port = service.and_then(|service| service.ports.get(usize::from(loser.port_index)));
            LostFrontend {
                service: loser.service.clone(),
                port: port.map_or_else(Box::default, |port| port.name.as_ref().into()),
                frontend,
                rank: loser.rank,
                owner: owner.service.clone(),
            }
        })
    }

    /// Returns the frontends that a Service claims now.
    pub(super) fn claims(&self, name: &ServiceName) -> Wanted {
        let tracked = self.services.get(name).map(|tracked| &tracked.state);
        let wanted = tracked.and_then(|state| state.service.as_deref());
        let allowance = tracked.map_or(Allowance::Full, |state| state.allowance);
        self.claims_of(name, wanted, allowance)
    }

    /// Returns the frontends that a Service claims in this state of the cluster. A Service over a
    /// limit, without rules, claims its cluster IP and NodePorts, but no other addresses: there
    /// may be millions of these.
    pub(super) fn claims_of(
        &self,
        name: &ServiceName,
        wanted: Option<&Service>,
        allowance: Allowance,
    ) -> Wanted {
        if let Some(Override {
            state,
            claims: OverrideClaims::Rendered,
        }) = self.overrides.get(name)
        {
            return self
                .frontends
                .claims_of_override(state.service.as_deref(), wanted);
        }
        let mut claims = self.frontends.wanted_by(wanted);
        if allowance == Allowance::NoRules {
            claims.retain(|(_, rank)| *rank == FrontendRank::Allocated);
        }
        claims
    }

    /// Updates lost frontends after a change of what a Service claims.
    pub(super) fn update_claims(&mut self, name: &ServiceName, before: &Wanted) {
        let now = self.claims(name);
        self.toggle_all(name, before, &now);
    }

    /// Notes every frontend that is lost or won because the claims of a Service change.
    pub(super) fn toggle_all(&mut self, name: &ServiceName, before: &Wanted, now: &Wanted) {
        for (name, frontend) in self.frontends.update(name, before, now) {
            self.toggle_lost(&name, frontend);
        }
    }

    fn toggle_lost(&mut self, name: &ServiceName, frontend: PortFrontend) {
        self.changed_losses.insert(name.clone());
        if let Some(rendered) = self.overrides.get_mut(name) {
            toggle(&mut rendered.state.lost, frontend);
            return;
        }
        let tracked = self.services.entry(name.clone()).or_default();
        toggle(&mut tracked.state.lost, frontend);
        self.dirty.note_frontend(name, frontend);
    }

    fn take_lost(&mut self, name: &ServiceName) -> std::collections::BTreeSet<PortFrontend> {
        let tracked = self.services.get_mut(name);
        let lost = tracked.map(|tracked| std::mem::take(&mut tracked.state.lost));
        let lost = lost.unwrap_or_default();
        for frontend in &lost {
            self.dirty.note_frontend(name, *frontend);
        }
        lost
    }
}
