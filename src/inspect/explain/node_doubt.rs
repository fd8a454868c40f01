//! Finds addresses that may be the node's, and would change the result if they were.
//!
//! Packets to the node's own address take other hooks: they enter `INPUT` and are not masqueraded
//! on their way in. Whether it matters is tried out, because mostly it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::client::{Client, ClientKind};
use super::destination::PacketDestination;
use super::node::NodeRules;
use super::path::{PacketPath, PathResult};
use super::trace::outcomes;
use crate::inspect::catalog::FrontendKind;
use crate::rules::{Share, TracedNode, Verdict};

/// Maximum addresses that are tried: each costs a trace for every client.
const MAX_TRIED: usize = 16;

/// Returns the addresses of the destination and its endpoints with which the result would differ if
/// they were the node's, sorted. Empty if addresses of the node are known.
pub(super) fn possible_node_addresses(
    node: &NodeRules<'_>,
    to: &PacketDestination,
    paths: &[PacketPath<'_>],
) -> Vec<IpAddr> {
    if node.assumed_ip().is_none() {
        return Vec::new();
    }
    let branches = paths.iter().flat_map(|path| &path.branches);
    let endpoints = branches.filter_map(|branch| match &branch.result {
        PathResult::Served { to, .. } | PathResult::Unanswered { to, .. } => Some(to.ip()),
        _ => None,
    });
    // A cluster IP is never the node's; of other addresses the suggestions tell.
    let is_external = |kind| {
        matches!(
            kind,
            FrontendKind::ExternalIp | FrontendKind::LoadBalancer | FrontendKind::External
        )
    };
    let mut frontends = to.frontends.iter();
    let own = frontends
        .any(|frontend| is_external(frontend.kind))
        .then_some(to.ip);
    let mut candidates: BTreeSet<IpAddr> = endpoints.chain(own).collect();
    candidates.retain(|ip| !node.detector.has(*ip) && !node.traced_node.is_local(*ip));
    let candidates: BTreeSet<IpAddr> = candidates.into_iter().take(MAX_TRIED).collect();
    let most = paths.iter().map(|path| path.branches.len()).max();
    let most_of_node = (MAX_BRANCHES / most.unwrap_or_default().max(1)).max(1);
    let mut found = BTreeSet::new();
    for client in paths.iter().flat_map(|path| &path.clients) {
        let trial = Trial { node, to, client };
        let known = trial.effects(&node.traced_node, client.ip);
        let differs = |candidate: &&IpAddr| trial.differs(&known, **candidate);
        if client.kind == ClientKind::Node {
            // The source is the candidate as well, so that each is a trace of its own.
            found.extend(candidates.iter().take(most_of_node).filter(differs));
        } else {
            found.extend(trial.differing_endpoints(&known, &candidates));
            found.extend(candidates.get(&to.ip).filter(differs));
        }
    }
    found.into_iter().collect()
}

/// Maximum branches of all traces of one client that is the node: a Service with thousands of
/// endpoints would otherwise take seconds.
const MAX_BRANCHES: usize = 1 << 12;

/// Shares of verdicts by the address of the receiver; `None`: of those without one.
type Effects = BTreeMap<Option<IpAddr>, Vec<(Share, Verdict)>>;

/// Client on whose packets addresses of the node are tried.
struct Trial<'t, 'a> {
    node: &'t NodeRules<'a>,
    to: &'t PacketDestination,
    client: &'t Client,
}

impl Trial<'_, '_> {
    /// Reports whether the packets are treated differently if an address is the node's.
    fn differs(&self, known: &Effects, candidate: IpAddr) -> bool {
        let Self { node, client, .. } = self;
        let mut traced_node = node.traced_node.clone();
        traced_node.addresses.remove(&node.ip);
        traced_node.addresses.insert(candidate);
        // The kernel uses a local destination address as the source as well.
        let source = if client.kind == ClientKind::Node && !client.ip.is_loopback() {
            candidate
        } else {
            client.ip
        };
        self.effects(&traced_node, source) != *known
    }

    /// Returns the endpoints to which packets are treated differently if these are addresses of the
    /// node. Whether an endpoint is one matters only to packets to it, so that one trace tries all.
    fn differing_endpoints(&self, known: &Effects, candidates: &BTreeSet<IpAddr>) -> Vec<IpAddr> {
        let mut traced_node = self.node.traced_node.clone();
        traced_node.addresses.remove(&self.node.ip);
        let endpoints = candidates.iter().filter(|ip| **ip != self.to.ip);
        traced_node.addresses.extend(endpoints.clone());
        let tried = self.effects(&traced_node, self.client.ip);
        let differs = |ip: &&IpAddr| tried.get(&Some(**ip)) != known.get(&Some(**ip));
        endpoints.filter(differs).copied().collect()
    }

    fn effects(&self, traced_node: &TracedNode, source: IpAddr) -> Effects {
        let of_node = self.client.kind == ClientKind::Node;
        let in_interface = self.client.in_interface.as_deref();
        let mut effects = Effects::new();
        for outcome in outcomes(self.node, traced_node, self.to, source, in_interface) {
            let verdict = effect(outcome.verdict, of_node);
            let receiver = match &verdict {
                Verdict::Delivered { to, .. } | Verdict::Unanswered { to, .. } => Some(*to),
                _ => None,
            };
            let same = effects.entry(receiver).or_default();
            same.push((outcome.share, verdict));
        }
        effects
    }
}

/// Returns the verdict as a receiver sees it: masquerading changes nothing if the client has the
/// node's address itself.
fn effect(verdict: Verdict, is_of_node: bool) -> Verdict {
    match verdict {
        Verdict::Delivered { to, port, .. } if is_of_node => Verdict::Delivered {
            to,
            port,
            masqueraded: false,
        },
        Verdict::Unanswered { to, port, loss, .. } if is_of_node => Verdict::Unanswered {
            to,
            port,
            masqueraded: false,
            loss,
        },
        Verdict::Passed { .. } if is_of_node => Verdict::Passed { masqueraded: false },
        other => other,
    }
}
