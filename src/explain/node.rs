//! The node whose rules are explained, as one family of them shows it.
//!
//! Apart because everything else asks it: what is local, who is a pod, which address a NodePort
//! has. A dump does not say which addresses its node has; then one stands in for them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::detector::Detector;
use super::index::Index;
use crate::inspect::catalog::{Catalog, FrontendConflict, FrontendKind};
use crate::net::IpFamily;
use crate::rules::{Locality, Network, RuleSet, Table};

/// One family's rules and what they are about.
#[derive(Debug)]
pub struct Node<'a> {
    pub(super) rules: &'a RuleSet,
    pub(super) catalog: Catalog,
    pub(super) index: Index,
    pub(super) locality: Locality,
    pub(super) detector: Detector,
    pub(super) family: IpFamily,
    /// The address that its own programs send from.
    pub(super) ip: IpAddr,
    /// An address that its NodePorts are on.
    pub(super) exposed_ip: IpAddr,
    /// The addresses that its NodePorts are limited to; none: all of them.
    pub(super) exposed_on: BTreeSet<IpAddr>,
    /// Whether nobody knows its addresses, so that these are made up.
    pub(super) is_made_up: bool,
    /// The tables of which nobody knows what is in them.
    pub(super) unseen: BTreeSet<Table>,
    /// The frontends that several Services ask for.
    pub(super) conflicts: Vec<FrontendConflict>,
}

impl<'a> Node<'a> {
    /// Reads the rules of a family; `addresses` are the node's, of any family, if known.
    pub fn new(rules: &'a RuleSet, family: IpFamily, addresses: &BTreeSet<IpAddr>) -> Self {
        let detector = Detector::read(rules);
        let exposed_on = node_port_addresses(rules);
        let is_own = |ip: &&IpAddr| IpFamily::of(**ip) == family;
        let mut own: BTreeSet<IpAddr> = addresses.iter().filter(is_own).copied().collect();
        let is_made_up = !own.iter().any(|ip| is_routable(*ip));
        if is_made_up {
            own.extend(&exposed_on);
        }
        let routable = || own.iter().copied().filter(|ip| is_routable(*ip));
        // Of several the one that is not the bridge's, which rules take for a pod's.
        let ip = routable().find(|ip| !detector.has(*ip));
        let ip = ip.or_else(|| routable().next());
        let ip = ip.unwrap_or_else(|| stand_in(family));
        own.insert(ip);
        let answers = exposed_on.iter().copied().find(|ip| own.contains(ip));
        let catalog = Catalog::read(rules);
        Self {
            index: Index::of(&catalog),
            catalog,
            locality: Locality {
                addresses: own,
                recent_lists: BTreeSet::new(),
            },
            rules,
            detector,
            family,
            ip,
            exposed_ip: answers.unwrap_or(ip),
            exposed_on,
            is_made_up,
            unseen: BTreeSet::new(),
            conflicts: Vec::new(),
        }
    }

    /// This node with frontends that several Services ask for. A service port that has lost all of
    /// its own has no rules, and can still be asked for by name.
    #[must_use]
    pub fn with_conflicts(mut self, conflicts: Vec<FrontendConflict>) -> Self {
        for conflict in &conflicts {
            let ports = &mut self.catalog.ports;
            ports.entry(conflict.loser.clone()).or_default();
        }
        self.conflicts = conflicts;
        self
    }

    /// Address of a conflict; of a port of the node, one that it is on.
    pub(super) fn address_of(&self, conflict: &FrontendConflict) -> IpAddr {
        let of_node = match conflict.kind {
            FrontendKind::HealthCheck => self.ip,
            _ => self.exposed_ip,
        };
        conflict.ip.unwrap_or(of_node)
    }

    /// The same, with the network of its pods, if that is known. Rules of Services without
    /// endpoints do not mention it.
    #[must_use]
    pub fn with_pods(mut self, network: Option<Network>) -> Self {
        if self.detector.networks.is_empty() {
            self.detector.networks.extend(network);
        }
        self
    }

    /// The same, whose tables of these names were not saved: that they have no rules says nothing.
    #[must_use]
    pub fn without(self, unseen: BTreeSet<Table>) -> Self {
        Self { unseen, ..self }
    }

    /// The address that stands in for its own, if one does.
    pub(super) fn stand_in(&self) -> Option<IpAddr> {
        (self.is_made_up && self.exposed_on.is_empty()).then_some(self.ip)
    }

    /// Whether NodePorts are on that address.
    pub(super) fn has_node_ports(&self, ip: IpAddr) -> bool {
        let is_asked = self.exposed_on.is_empty() || self.exposed_on.contains(&ip);
        is_asked && self.locality.is_local(ip)
    }
}

fn is_routable(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    }
}

/// From networks that are for measuring machines with, RFC 2544 and RFC 5180, so that hardly any
/// rule is about them.
fn stand_in(family: IpFamily) -> IpAddr {
    match family {
        IpFamily::V4 => IpAddr::from([198, 18, 0, 1]),
        IpFamily::V6 => IpAddr::from([0x2001, 2, 0, 0, 0, 0, 0, 1]),
    }
}

/// The addresses that NodePorts are limited to; none if they are on all.
fn node_port_addresses(rules: &RuleSet) -> BTreeSet<IpAddr> {
    let chain = rules.chain(Table::Nat, "KUBE-SERVICES").into_iter();
    let last = chain
        .flat_map(|chain| chain.rules.iter().rev())
        .take_while(|rule| rule.target_chain() == Some("KUBE-NODEPORTS"));
    let hosts = last.filter_map(|rule| rule.destination.filter(|asked| !asked.negated));
    let hosts = hosts.filter_map(|asked| Network::host(asked.value));
    hosts.filter(|ip| is_routable(*ip)).collect()
}
