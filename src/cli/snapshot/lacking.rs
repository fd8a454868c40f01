//! What objects lack that rules depend on.
//!
//! Apart because the daemon waits for what is missing, while a command that looks once takes it for
//! true: whoever left it out by mistake is told.

use crate::config::environment;
use crate::model::{Endpoint, NodeHint, Service, ServiceState, Services, TrafficPolicy};
use crate::net::PerFamily;
use crate::tracker::Tracker;

/// The Nodes of the input that are not ours.
pub(super) enum OtherNodes {
    /// Of manifests, sorted.
    Named(Vec<Box<str>>),
    /// A cluster is asked for ours alone.
    NotAsked,
}

/// More names would not be read.
const MOST: usize = 3;

/// One warning each, with its hint.
pub(super) fn warnings(
    trackers: &PerFamily<Tracker>,
    node_name: &str,
    others: &OtherNodes,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let has_slices = states(trackers).any(|state| !state.slices.is_empty());
    if !has_slices && states(trackers).any(|state| state.service.is_some()) {
        warnings.push(
            "no EndpointSlices in the input: every Service looks as if it had no endpoints\n\
             hint: kubectl get services,endpointslices,nodes -A -o yaml"
                .to_owned(),
        );
    }
    let OtherNodes::Named(names) = others else {
        return warnings;
    };
    if trackers.v4.node().is_some() {
        return warnings;
    }
    if names.is_empty() {
        warnings.extend(without_nodes(trackers, node_name));
    } else {
        let shown: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let shown = shown.into_iter().take(MOST).collect::<Vec<_>>().join(", ");
        let more = if names.len() > MOST { ", ..." } else { "" };
        warnings.push(format!(
            "no Node `{node_name}` in the input, which has {shown}{more}\n{NAME_HINT}"
        ));
    }
    warnings
}

/// The warning of a cluster without our Node.
pub(super) fn unknown_node(node_name: &str) -> String {
    format!(
        "no Node `{node_name}` in the cluster: which endpoints are local is not known\n{NAME_HINT}"
    )
}

const NAME_HINT: &str = "hint: name the node whose rules are meant with --hostname-override";

/// Nodes are seldom written down, and seldom missed.
fn without_nodes(trackers: &PerFamily<Tracker>, node_name: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    // Endpoints name their nodes: whoever says which is ours needs no Node to know what is local.
    let is_named = node_name != environment::host_name().trim().to_lowercase();
    let is_somewhere = states(trackers).flat_map(endpoints).any(|one| one.is_local);
    if !is_named && !is_somewhere && states(trackers).any(asks_for_locality) {
        warnings.push(format!(
            "no Nodes in the input: which endpoints are local is not known\n{NAME_HINT}"
        ));
    }
    let mut hints = states(trackers).flat_map(endpoints);
    if hints.any(|one| !one.zone_hints.is_empty()) {
        warnings.push(
            "no Nodes in the input: this one's zone is not known, and hints of zones are not heeded"
                .to_owned(),
        );
    }
    warnings
}

fn asks_for_locality(state: &ServiceState) -> bool {
    let is_local = |service: &Service| {
        [service.internal_policy, service.external_policy].contains(&TrafficPolicy::Local)
    };
    let is_hinted = |endpoint: &Endpoint| endpoint.node_hint != NodeHint::Absent;
    let mut endpoints = endpoints(state).peekable();
    let has_endpoints = endpoints.peek().is_some();
    has_endpoints && state.service.as_deref().is_some_and(is_local) || endpoints.any(is_hinted)
}

fn states(trackers: &PerFamily<Tracker>) -> impl Iterator<Item = &ServiceState> {
    let pairs = trackers.as_ref().into_pairs().into_iter();
    pairs.flat_map(|(_, tracker)| tracker.all().map(|(_, state)| state))
}

fn endpoints(state: &ServiceState) -> impl Iterator<Item = &Endpoint> {
    state.slices.iter().flat_map(|(_, slice)| &slice.endpoints)
}
