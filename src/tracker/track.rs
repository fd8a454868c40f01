//! The tracker of one family: the state of every Service, the dirty ones among them, and the states
//! that are rendered in place of those of the cluster, for Services whose changes cannot be
//! applied.
//!
//! Overrides are part of the tracker because such a Service claims the frontends of the state that
//! is rendered: otherwise two Services would have rules for one frontend, or none.
//!
//! # Invariants
//!
//! - The lost frontends of a Service with an override are in the override; its tracked state has
//!   none.
//! - A Service is in `changed_losses` from a change of its lost frontends until the kernel has its
//!   rules.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use hashbrown::HashMap;

use super::allowances::{Allowances, Size};
use super::dirty::{AppliedChanges, Dirty, UnappliedObjects, toggle};
use super::frontends::{Frontends, Wanted};
use crate::model::{
    Allowance, Change, ExternalIps, Frontend, FrontendRank, Kind, LostFrontend, NamespaceLimits,
    Node, PortFrontend, Service, ServiceName, ServiceState, Services, Slice, SliceName,
};

/// Known objects of one family, and the changes that the kernel does not have yet.
#[derive(Debug)]
pub struct Tracker {
    services: BTreeMap<ServiceName, Tracked>,
    /// Service of each known slice.
    slices: HashMap<SliceName, ServiceName>,
    node: Option<Node>,
    dirty: Dirty,
    frontends: Frontends,
    /// States that are rendered in place of those of the cluster.
    overrides: BTreeMap<ServiceName, Override>,
    /// Services whose lost frontends changed since they were last rendered.
    changed_losses: BTreeSet<ServiceName>,
    allowances: Allowances,
    /// Kinds of which a list is complete. Before that, an object may be unknown and exist.
    listed: BTreeSet<Kind>,
    started: SystemTime,
}

/// Known Service.
#[derive(Debug, Default)]
struct Tracked {
    state: ServiceState,
    size: Size,
}

/// State of a Service that is rendered in place of that of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    pub state: ServiceState,
    claims: OverrideClaims,
}

/// Frontends that a Service with an override claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverrideClaims {
    /// Frontends of the state that is rendered. One that is no longer in the cluster's state gives
    /// way to every other claim.
    Rendered,
    /// Frontends of the cluster's state, although the Service has no rules: an external IP must
    /// not take over a cluster IP because the Service of that cannot be rendered.
    Wanted,
}

impl Tracker {
    /// Returns a tracker without objects. Trigger times before `started` are ignored: they would
    /// measure the time before the process was started.
    pub fn new(started: SystemTime) -> Self {
        Self {
            services: BTreeMap::new(),
            slices: HashMap::new(),
            node: None,
            dirty: Dirty::default(),
            frontends: Frontends::default(),
            overrides: BTreeMap::new(),
            changed_losses: BTreeSet::new(),
            allowances: Allowances::new(NamespaceLimits::DEFAULT),
            listed: BTreeSet::new(),
            started,
        }
    }

    /// Sets the policy for external IPs, before the first change.
    #[must_use]
    pub fn with_external_ips(mut self, external_ips: ExternalIps) -> Self {
        self.frontends = Frontends::new(external_ips);
        self
    }

    /// Sets the limits of each namespace, before the first change.
    #[must_use]
    pub fn with_limits(mut self, limits: NamespaceLimits) -> Self {
        self.allowances = Allowances::new(limits);
        self
    }

    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Service(name, service) => self.set_service(&name, service.map(Arc::from)),
            Change::Slice(name, Some(slice), trigger) => self.set_slice(&name, *slice, trigger),
            Change::Slice(name, None, _) => self.remove_slice(&name),
            Change::Node(node) => self.set_node(node.map(|node| *node)),
            Change::Listed(kind) => self.listed(kind),
        }
    }

    /// Reports whether every kind has been listed once. An earlier sync would delete rules of
    /// objects that are not known yet.
    pub fn has_listed_all(&self) -> bool {
        Kind::ALL.iter().all(|kind| self.listed.contains(kind))
    }

    /// Reports whether a Service is dirty.
    pub fn has_pending(&self) -> bool {
        self.pending() > 0
    }

    /// Returns the number of dirty Services.
    pub fn pending(&self) -> usize {
        self.dirty.len()
    }

    /// Returns the number of objects whose changes the kernel does not have yet.
    pub fn unapplied(&self) -> UnappliedObjects {
        self.dirty.unapplied()
    }

    pub const fn limits(&self) -> NamespaceLimits {
        self.allowances.limits()
    }

    /// Returns the number of frontends that several service ports ask for.
    pub fn frontend_conflicts(&self) -> usize {
        self.frontends.conflicts()
    }

    pub fn frontend_owner(&self, frontend: &Frontend) -> Option<&ServiceName> {
        self.frontends.owner(frontend)
    }

    /// Returns the names of the dirty Services, sorted.
    pub fn dirty(&self) -> impl Iterator<Item = &ServiceName> {
        self.dirty.names()
    }

    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// Notes that the kernel has all that is known.
    pub fn mark_applied(&mut self) -> AppliedChanges {
        self.mark_lost_frontends_applied();
        self.mark_rendered_applied()
    }

    /// Notes that the kernel has all that is rendered. Services with an override stay dirty, as do
    /// those whose lost frontends changed since they were rendered.
    pub fn mark_rendered_applied(&mut self) -> AppliedChanges {
        let mut applied = AppliedChanges::default();
        let (changed_losses, overrides) = (&self.changed_losses, &self.overrides);
        let is_applied =
            |name: &ServiceName| !overrides.contains_key(name) && !changed_losses.contains(name);
        for (name, mut differences) in self.dirty.take(is_applied) {
            applied.triggers.append(&mut differences.triggers);
            let now = self.services.get(&name).map(|tracked| &tracked.state);
            let before = differences.applied(now);
            applied.before.push((name, before));
        }
        applied
    }

    /// Returns the state of a dirty Service that was applied last; `None` for one that is not
    /// dirty: there it is the present state.
    pub fn last_applied(&self, name: &ServiceName) -> Option<ServiceState> {
        let differences = self.dirty.get(name)?;
        Some(differences.clone().applied(self.get(name)))
    }

    /// Returns all Services in the states that the kernel has rules for, sorted by name.
    pub fn applied(&self) -> impl Iterator<Item = (&ServiceName, Cow<'_, ServiceState>)> {
        let names: BTreeSet<&ServiceName> = self
            .services
            .keys()
            .chain(self.dirty.names())
            .chain(self.overrides.keys())
            .collect();
        let states = names.into_iter();
        states.filter_map(|name| Some((name, self.applied_state(name)?)))
    }

    /// Returns a Service in the state that the kernel has rules for.
    pub fn applied_state(&self, name: &ServiceName) -> Option<Cow<'_, ServiceState>> {
        let rendered = self.overrides.get(name).map(|one| &one.state);
        match (rendered, self.last_applied(name)) {
            (Some(rendered), _) => Some(Cow::Borrowed(rendered)),
            (None, Some(applied)) => Some(Cow::Owned(applied)),
            (None, None) => self.get(name).map(Cow::Borrowed),
        }
    }

    /// Reports whether the kernel does not have the last changes of a Service.
    pub fn is_dirty(&self, name: &ServiceName) -> bool {
        self.dirty.get(name).is_some()
    }

    fn set_service(&mut self, name: &ServiceName, service: Option<Arc<Service>>) {
        let tracked = self.services.entry(name.clone()).or_default();
        if tracked.state.service == service {
            self.forget_if_empty(name);
            return;
        }
        let allowance = tracked.state.allowance;
        let before = std::mem::replace(&mut tracked.state.service, service);
        let now = tracked.state.service.clone();
        let size = Size::of(&tracked.state);
        // No further search by name: in a large cluster each costs as much as a small change.
        let is_resized = size != tracked.size;
        let changed = is_resized.then(|| self.resize(name, size));
        let allowed = if is_resized {
            self.allowances.get(name, size)
        } else {
            allowance
        };
        let old = self.claims_of(name, before.as_deref(), allowance);
        let new = self.claims_of(name, now.as_deref(), allowed);
        self.dirty.note_service(name, before, now.as_ref());
        self.toggle_all(name, &old, &new);
        self.allow(&changed.unwrap_or_default());
        self.forget_if_empty(name);
    }

    fn set_slice(&mut self, name: &SliceName, slice: Slice, trigger: Option<SystemTime>) {
        let service = slice.service.clone();
        if let Some(previous) = self.slices.insert(name.clone(), service.clone())
            && previous != service
        {
            self.drop_slice(&previous, name);
        }
        let is_change = self.replace_slice(&service, name, Some(Arc::new(slice)));
        if let Some(at) = trigger.filter(|at| is_change && *at > self.started) {
            self.dirty.trigger(&service, at);
        }
    }

    fn remove_slice(&mut self, name: &SliceName) {
        if let Some(service) = self.slices.remove(name) {
            self.drop_slice(&service, name);
        }
    }

    fn drop_slice(&mut self, service: &ServiceName, name: &SliceName) {
        self.replace_slice(service, name, None);
        self.dirty.forget_triggers(service);
    }

    /// Adds a slice to the state of a Service, or removes it; reports whether the state changed.
    fn replace_slice(
        &mut self,
        service: &ServiceName,
        name: &SliceName,
        slice: Option<Arc<Slice>>,
    ) -> bool {
        let tracked = self.services.entry(service.clone()).or_default();
        let now = slice.clone();
        let before = tracked.state.replace_slice(name, slice);
        let is_change = before != now;
        let endpoints = |slice: Option<&Arc<Slice>>| {
            let of = tracked.state.service.as_ref().zip(slice);
            of.map_or(0, |(service, slice)| service.endpoints_in(slice))
        };
        let mut size = tracked.size;
        size.replace_endpoints(endpoints(before.as_ref()), endpoints(now.as_ref()));
        self.dirty.note_slice(service, name, before, now.as_ref());
        if size != tracked.size {
            let changed = self.resize(service, size);
            self.allow(&changed);
        }
        self.forget_if_empty(service);
        is_change
    }

    /// Changes the size and the allowance of a Service; returns the Services whose allowance may
    /// differ since.
    fn resize(&mut self, name: &ServiceName, size: Size) -> Vec<ServiceName> {
        let Some(tracked) = self.services.get_mut(name) else {
            return Vec::new();
        };
        let before = std::mem::replace(&mut tracked.size, size);
        if before == size {
            return Vec::new();
        }
        let changed = self.allowances.set(name, before, size);
        let now = self.allowances.get(name, size);
        let before = std::mem::replace(&mut tracked.state.allowance, now);
        self.dirty.note_allowance(name, before, now);
        changed
    }

    /// Updates the allowances of these Services.
    fn allow(&mut self, names: &[ServiceName]) {
        for name in names {
            let Some(tracked) = self.services.get(name) else {
                continue;
            };
            let before = tracked.state.allowance;
            let now = self.allowances.get(name, tracked.size);
            if now == before {
                continue;
            }
            let claims = self.claims(name);
            if let Some(tracked) = self.services.get_mut(name) {
                tracked.state.allowance = now;
            }
            self.dirty.note_allowance(name, before, now);
            self.update_claims(name, &claims);
        }
    }

    fn forget_if_empty(&mut self, name: &ServiceName) {
        let tracked = self.services.get(name);
        if tracked.is_some_and(|tracked| tracked.state.is_empty()) {
            self.services.remove(name);
        }
    }

    fn set_node(&mut self, node: Option<Node>) {
        // After the deletion of a Node its zone still applies: traffic still flows. A new Node
        // without addresses has those of the one before: the host is the same.
        if let Some(mut node) = node {
            if node.addresses.is_empty() {
                let known = self.node.take().map(|known| known.addresses);
                node.addresses = known.unwrap_or_default();
            }
            self.node = Some(node);
        }
    }

    /// Notes that all objects of a kind are known. Which Services exceed a limit depends on the
    /// order of the changes, so it is decided anew.
    fn listed(&mut self, kind: Kind) {
        self.listed.insert(kind);
        let changed = self.allowances.choose_again();
        self.allow(&changed);
    }

    /// Returns the states that are rendered in place of those of the cluster.
    pub const fn overrides(&self) -> &BTreeMap<ServiceName, Override> {
        &self.overrides
    }

    pub const fn rendered(&self) -> RenderedServices<'_> {
        RenderedServices(self)
    }

    /// Returns the dirty Services that are rendered in their state in the cluster: those without
    /// an override.
    pub fn dirty_without_override(&self) -> impl Iterator<Item = &ServiceName> {
        let dirty = self.dirty();
        dirty.filter(|name| !self.overrides.contains_key(*name))
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
    fn claims(&self, name: &ServiceName) -> Wanted {
        let tracked = self.services.get(name).map(|tracked| &tracked.state);
        let wanted = tracked.and_then(|state| state.service.as_deref());
        let allowance = tracked.map_or(Allowance::Full, |state| state.allowance);
        self.claims_of(name, wanted, allowance)
    }

    /// Returns the frontends that a Service claims in this state of the cluster. A Service over a
    /// limit, without rules, claims its cluster IP and NodePorts, but no other addresses: there
    /// may be millions of these.
    fn claims_of(
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
    fn update_claims(&mut self, name: &ServiceName, before: &Wanted) {
        let now = self.claims(name);
        self.toggle_all(name, before, &now);
    }

    /// Notes every frontend that is lost or won because the claims of a Service change.
    fn toggle_all(&mut self, name: &ServiceName, before: &Wanted, now: &Wanted) {
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

    fn take_lost(&mut self, name: &ServiceName) -> BTreeSet<PortFrontend> {
        let tracked = self.services.get_mut(name);
        let lost = tracked.map(|tracked| std::mem::take(&mut tracked.state.lost));
        let lost = lost.unwrap_or_default();
        for frontend in &lost {
            self.dirty.note_frontend(name, *frontend);
        }
        lost
    }
}

impl Services for Tracker {
    fn all(&self) -> Box<dyn Iterator<Item = (&ServiceName, &ServiceState)> + '_> {
        Box::new(
            self.services
                .iter()
                .map(|(name, tracked)| (name, &tracked.state)),
        )
    }

    fn get(&self, name: &ServiceName) -> Option<&ServiceState> {
        self.services.get(name).map(|tracked| &tracked.state)
    }
}

/// Services as they are rendered: in their state in the cluster, or in that of their override.
#[derive(Debug, Clone, Copy)]
pub struct RenderedServices<'a>(&'a Tracker);

impl Services for RenderedServices<'_> {
    fn all(&self) -> Box<dyn Iterator<Item = (&ServiceName, &ServiceState)> + '_> {
        let Self(tracker) = *self;
        let overrides = tracker.overrides();
        if overrides.is_empty() {
            return tracker.all();
        }
        let known = tracker.all().map(|(name, state)| {
            let rendered = overrides.get(name).map(|one| &one.state);
            (name, rendered.unwrap_or(state))
        });
        // Overridden Services that are deleted in the cluster, but not yet in the kernel.
        let gone = overrides
            .iter()
            .filter(move |(name, _)| tracker.get(name).is_none())
            .map(|(name, one)| (name, &one.state));
        let (mut known, mut gone) = (known.peekable(), gone.peekable());
        Box::new(std::iter::from_fn(move || {
            match (known.peek(), gone.peek()) {
                (Some((known_name, _)), Some((gone_name, _))) if gone_name < known_name => {
                    gone.next()
                }
                (None, _) => gone.next(),
                (Some(_), _) => known.next(),
            }
        }))
    }

    fn get(&self, name: &ServiceName) -> Option<&ServiceState> {
        let Self(tracker) = *self;
        let rendered = tracker.overrides().get(name).map(|one| &one.state);
        rendered.or_else(|| tracker.get(name))
    }
}
