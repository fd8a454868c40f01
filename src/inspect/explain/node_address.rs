//! Addresses of the node that its rules show, for dumps that are read elsewhere.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::inspect::catalog::Catalog;
use crate::rules::{Network, RuleSet, Table, Target};

/// Origin of an address that stands for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressOrigin {
    /// Given, or an address of this node.
    Known,
    /// Taken from rules of this node, which show that it is the node's.
    Inferred,
    /// Invented: an example, or an assumption without any evidence.
    Invented,
}

/// Returns addresses that are the node's by the evidence of its rules: endpoints on this node
/// outside of the pods' networks, which use the host's network, and the sources that SNAT sets, to
/// which replies have to return.
pub(super) fn inferred(
    rules: &RuleSet,
    catalog: &Catalog,
    pods: &BTreeSet<Network>,
) -> BTreeSet<IpAddr> {
    let endpoints = catalog.ports.values().flat_map(|view| &view.endpoints);
    let local = endpoints.filter(|endpoint| endpoint.local.is_some());
    let is_pod = |ip: IpAddr| pods.is_empty() || pods.iter().any(|network| network.contains(ip));
    let local = local.map(|endpoint| endpoint.address.ip());
    let all_rules = rules.chains(Table::Nat).flat_map(|(_, chain)| &chain.rules);
    let targets = all_rules.filter_map(|rule| rule.target.as_ref());
    let sources = targets.filter_map(Target::new_source);
    local.filter(|ip| !is_pod(*ip)).chain(sources).collect()
}
