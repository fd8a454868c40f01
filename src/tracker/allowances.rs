//! Decides which rules the limits of its namespace allow to each Service.
//!
//! There are two limits: of endpoints, and of rules without those of endpoints. In a namespace
//! over a limit, the largest Services are left out until the others are within it: as many
//! Services as possible keep their rules.
//!
//! A Service that is left out returns only when the namespace is well within the limit with it.
//! Otherwise a tenant could make each change of one endpoint delete and write the rules of a huge
//! Service. So the choice depends on the order of changes; at the end of each list it is made
//! again from sizes and names alone.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::model::{Allowance, MOST_ENDPOINTS, NamespaceLimits, ServiceName, ServiceState};

/// Both limits of all namespaces.
#[derive(Debug)]
pub(super) struct Allowances {
    rules_without_endpoints: NamespaceLimit,
    endpoints: NamespaceLimit,
}

/// Size of a Service as it counts towards the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Size {
    rules_without_endpoints: usize,
    /// Endpoints of all slices, summed over the ports.
    endpoints: usize,
}

impl Size {
    /// Returns the size of a Service. Linear in its slices.
    pub(super) fn of(state: &ServiceState) -> Self {
        let Some(service) = &state.service else {
            return Self::default();
        };
        let slices = state.slices.iter();
        Self {
            rules_without_endpoints: service.rules_without_endpoints(),
            endpoints: slices.map(|(_, slice)| service.endpoints_in(slice)).sum(),
        }
    }

    /// Replaces the endpoints of a slice, `before`, by `now`.
    pub(super) const fn replace_endpoints(&mut self, before: usize, now: usize) {
        self.endpoints = self.endpoints - before + now;
    }

    /// Returns the endpoints with rules: the limit of the Service itself applies first.
    fn limited_endpoints(self) -> usize {
        self.endpoints.min(MOST_ENDPOINTS)
    }
}

impl Allowances {
    pub(super) fn new(limits: NamespaceLimits) -> Self {
        Self {
            rules_without_endpoints: NamespaceLimit::new(limits.rules_without_endpoints),
            endpoints: NamespaceLimit::new(limits.endpoints),
        }
    }

    pub(super) const fn limits(&self) -> NamespaceLimits {
        NamespaceLimits {
            endpoints: self.endpoints.most(),
            rules_without_endpoints: self.rules_without_endpoints.most(),
        }
    }

    pub(super) fn get(&self, name: &ServiceName, size: Size) -> Allowance {
        let (rules, endpoints) = (size.rules_without_endpoints, size.limited_endpoints());
        if self.rules_without_endpoints.is_over(name, rules) {
            Allowance::NoRules
        } else if self.endpoints.is_over(name, endpoints) {
            Allowance::NoEndpoints
        } else {
            Allowance::Full
        }
    }

    /// Changes the size of one Service; returns the Services whose allowance may differ since.
    pub(super) fn set(&mut self, name: &ServiceName, before: Size, now: Size) -> Vec<ServiceName> {
        let (of, to) = (before.rules_without_endpoints, now.rules_without_endpoints);
        let mut changed = self.rules_without_endpoints.set(name, of, to);
        let (of, to) = (before.limited_endpoints(), now.limited_endpoints());
        changed.append(&mut self.endpoints.set(name, of, to));
        changed.push(name.clone());
        changed
    }

    /// Chooses again from the objects alone; returns the Services whose allowance may differ
    /// since.
    pub(super) fn choose_again(&mut self) -> Vec<ServiceName> {
        let mut changed = self.rules_without_endpoints.choose_again();
        changed.append(&mut self.endpoints.choose_again());
        changed
    }
}

/// One limit, with the Services within it and over it in every namespace.
#[derive(Debug)]
struct NamespaceLimit {
    most: usize,
    namespaces: HashMap<Box<str>, Namespace>,
}

/// Services of one namespace, sorted by size and name; those of size 0 are not in it.
#[derive(Debug, Default)]
struct Namespace {
    within: BTreeSet<(usize, ServiceName)>,
    /// Sum of the sizes of those within.
    total: usize,
    over: BTreeSet<(usize, ServiceName)>,
}

impl NamespaceLimit {
    fn new(most: usize) -> Self {
        Self {
            most,
            namespaces: HashMap::new(),
        }
    }

    const fn most(&self) -> usize {
        self.most
    }

    /// Reports whether a Service of this size is left out.
    fn is_over(&self, name: &ServiceName, size: usize) -> bool {
        let namespace = self.namespaces.get(name.namespace());
        namespace.is_some_and(|n| !n.over.is_empty() && n.over.contains(&(size, name.clone())))
    }

    /// Changes the size of one Service; returns the Services that are left out since then, or no
    /// longer. Takes logarithmic time in the number of Services of the namespace.
    fn set(&mut self, name: &ServiceName, before: usize, now: usize) -> Vec<ServiceName> {
        if before == now {
            return Vec::new();
        }
        let most = self.most;
        let key = name.namespace();
        let namespace = match self.namespaces.get_mut(key) {
            Some(namespace) => namespace,
            None => self.namespaces.entry(key.into()).or_default(),
        };
        namespace.resize(name, before, now);
        let mut moved = namespace.leave_out(most);
        moved.append(&mut namespace.take_back(most - most / RESERVE));
        if namespace.is_empty() {
            self.namespaces.remove(key);
        }
        moved
    }

    /// Chooses again from sizes and names alone; returns the Services for which the choice
    /// differs.
    fn choose_again(&mut self) -> Vec<ServiceName> {
        let mut moved = Vec::new();
        for namespace in self.namespaces.values_mut() {
            if namespace.over.is_empty() {
                continue;
            }
            let known = namespace.take_back(usize::MAX);
            let known: BTreeSet<_> = known.into_iter().collect();
            let now: BTreeSet<_> = namespace.leave_out(self.most).into_iter().collect();
            moved.extend(known.symmetric_difference(&now).cloned());
        }
        moved.sort_unstable();
        moved
    }
}

/// One part in this many of the limit has to be free before a Service returns.
const RESERVE: usize = 10;

impl Namespace {
    fn is_empty(&self) -> bool {
        self.within.is_empty() && self.over.is_empty()
    }

    fn resize(&mut self, name: &ServiceName, before: usize, now: usize) {
        let mut key = (before, name.clone());
        let was_over = self.over.remove(&key);
        if self.within.remove(&key) {
            self.total -= before;
        }
        key.0 = now;
        match now {
            0 => {}
            _ if was_over => drop(self.over.insert(key)),
            _ => {
                self.total += now;
                self.within.insert(key);
            }
        }
    }

    /// Leaves out the largest Services while the sum is more than `most`. After a change one is
    /// enough: the sum was within the limit before, and grew by at most the size of the largest.
    fn leave_out(&mut self, most: usize) -> Vec<ServiceName> {
        let mut moved = Vec::new();
        while self.total > most
            && let Some(largest) = self.within.pop_last()
        {
            self.total -= largest.0;
            moved.push(largest.1.clone());
            self.over.insert(largest);
        }
        moved
    }

    /// Takes back the smallest Services, while the sum is at most `most`.
    fn take_back(&mut self, most: usize) -> Vec<ServiceName> {
        let mut moved = Vec::new();
        while let Some((size, _)) = self.over.first()
            && self.total + *size <= most
            && let Some(smallest) = self.over.pop_first()
        {
            self.total += smallest.0;
            moved.push(smallest.1.clone());
            self.within.insert(smallest);
        }
        moved
    }
}
