//! Warnings of objects that the input lacks.
//!
//! The daemon waits for missing objects; a command reads its input once and takes it as complete.

use crate::config::environment;
use crate::model::{Endpoint, NodeHint, Service, ServiceState, Services, TrafficPolicy};
use crate::net::PerFamily;
use crate::tracker::Tracker;

/// Nodes of the input other than the one that rules are for.
pub(super) enum OtherNodes {
    /// Nodes in manifests, sorted.
    Named(Vec<Box<str>>),
    /// Only the node itself is listed in a cluster.
    Unknown,
}

/// Maximum names in a warning.
const MAX_NAMES: usize = 3;

/// Returns warnings of missing objects, each with its hint.
pub(super) fn warnings(
    trackers: &PerFamily<Tracker>,
    node_name: &str,
    others: &OtherNodes,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let has_slices = states(trackers).any(|state| !state.slices.is_empty());
    if !has_slices && states(trackers).any(|state| state.service.is_some()) {
        warnings.push(
            "no EndpointSlices in the input: every Service is treated as without endpoints\n\
             hint: include them: kubectl get services,endpointslices,nodes -A -o yaml"
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
        let shown = shown
            .into_iter()
            .take(MAX_NAMES)
            .collect::<Vec<_>>()
            .join(", ");
        let more = if names.len() > MAX_NAMES { ", ..." } else { "" };
        warnings.push(format!(
            "no Node `{node_name}` in the input, only {shown}{more}\n{NAME_HINT}"
        ));
    }
    warnings
}

/// Returns the warning of a cluster without the node.
pub(super) fn unknown_node(node_name: &str) -> String {
    format!(
        "no Node `{node_name}` in the cluster: cannot determine which endpoints are local\n{NAME_HINT}"
    )
}

const NAME_HINT: &str = "hint: set --hostname-override to the node that rules are for";

/// Returns warnings of an input without Nodes, if its rules depend on one: most do not.
fn without_nodes(trackers: &PerFamily<Tracker>, node_name: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    // Endpoints contain the names of their nodes, so a node that is named needs no Node.
    let is_named = node_name != environment::host_name().trim().to_lowercase();
    let has_local = states(trackers).flat_map(endpoints).any(|one| one.is_local);
    if !is_named && !has_local && states(trackers).any(depends_on_locality) {
        warnings.push(format!(
            "no Nodes in the input: cannot determine which endpoints are local\n{NAME_HINT}"
        ));
    }
    let mut hints = states(trackers).flat_map(endpoints);
    if hints.any(|one| !one.zone_hints.is_empty()) {
        warnings.push(
            "no Nodes in the input: the node's zone is unknown, and zone hints are ignored"
                .to_owned(),
        );
    }
    warnings
}

fn depends_on_locality(state: &ServiceState) -> bool {
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
