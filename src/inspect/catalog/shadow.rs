//! Finds frontends for which several Services have rules: only the first rule matches packets.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Catalog;
use super::name::PortName;
use super::view::{FrontendConflict, FrontendDisposition, FrontendKind, FrontendView, LoserRules};

/// Packets of a frontend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ClaimedFrontend {
    ip: Option<IpAddr>,
    port: u16,
    protocol: Box<str>,
    /// Health checks have ports of their own, without DNAT.
    is_health_check: bool,
}

/// First owner of each frontend.
#[derive(Debug, Default)]
pub(super) struct Owners {
    first: BTreeMap<ClaimedFrontend, PortName>,
    shadowed: Vec<FrontendConflict>,
}

impl Owners {
    /// Adds a frontend of a service port, in the order in which packets meet the rules.
    pub(super) fn claim(&mut self, name: &PortName, frontend: &FrontendView) {
        let key = ClaimedFrontend {
            ip: frontend.ip,
            port: frontend.port,
            protocol: name.protocol.clone(),
            is_health_check: frontend.kind == FrontendKind::HealthCheck,
        };
        let owner = self.first.entry(key).or_insert_with(|| name.clone());
        let is_same = owner.namespace() == name.namespace() && owner.service() == name.service();
        if !is_same {
            let conflict = FrontendConflict {
                loser: name.clone(),
                kind: frontend.kind,
                ip: frontend.ip,
                port: frontend.port,
                owner: format!("{}/{}", owner.namespace(), owner.service()).into(),
                rules: LoserRules::Shadowed,
            };
            if !self.shadowed.contains(&conflict) {
                self.shadowed.push(conflict);
            }
        }
    }

    /// Returns the frontends that other Services have, in the order of the rules.
    pub(super) fn into_shadowed(self) -> Vec<FrontendConflict> {
        self.shadowed
    }
}

impl Catalog {
    /// Marks the frontends as unreachable that another Service has.
    pub(super) fn mark_shadowed(&mut self) {
        for conflict in &self.shadowed {
            let Some(view) = self.ports.get_mut(&conflict.loser) else {
                continue;
            };
            let is_meant = |frontend: &&mut FrontendView| {
                let key = (frontend.kind, frontend.ip, frontend.port);
                key == (conflict.kind, conflict.ip, conflict.port)
            };
            for frontend in view.frontends.iter_mut().filter(is_meant) {
                frontend.disposition = FrontendDisposition::Unreachable;
            }
        }
    }
}
