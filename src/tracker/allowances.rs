//! Decides which rules the limits of its namespace allow to each Service.

use super::namespace_limit::NamespaceLimit;
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
    /// Returns limits without Services.
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

    /// Returns the allowance of a Service of this size.
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
    pub(super) fn choose_anew(&mut self) -> Vec<ServiceName> {
        let mut changed = self.rules_without_endpoints.choose_anew();
        changed.append(&mut self.endpoints.choose_anew());
        changed
    }
}
