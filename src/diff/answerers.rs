//! Who answers, on both sides.
//!
//! Apart from the other [effects](super::effects) because most of what traffic notices is here, and
//! because a policy decides for each way in which endpoints count.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::effect::{Answerers, Effect, Traffic};
use crate::catalog::{Endpoint, Entrance, Kind, Policy, PortView};
use crate::rules::Share;

/// Who answers traffic from inside and from outside, said once where both notice the same.
pub(super) fn endpoints(before: &PortView, after: &PortView) -> Vec<Effect> {
    let internal = answerers(Traffic::Internal, before, after);
    let external = answerers(Traffic::External, before, after);
    let all = match (internal, external) {
        (Some(mut internal), Some(external)) if internal.is_like(&external) => {
            internal.at.extend(external.at);
            vec![internal]
        }
        (internal, external) => internal.into_iter().chain(external).collect(),
    };
    all.into_iter().map(Effect::Endpoints).collect()
}

/// Who stays among the same endpoints, and gets more or less.
pub(super) fn shares(before: &PortView, after: &PortView) -> Vec<Effect> {
    let policies = [Policy::Cluster, Policy::Local].into_iter();
    policies
        .flat_map(|policy| changed_shares(policy, before, after))
        .collect()
}

fn answerers(traffic: Traffic, before: &PortView, after: &PortView) -> Option<Answerers> {
    let (old, new) = (answering(traffic, before), answering(traffic, after));
    let missing = |all: &BTreeMap<SocketAddr, Share>, from: &BTreeMap<SocketAddr, Share>| {
        let addresses = all.keys().filter(|address| !from.contains_key(address));
        addresses.copied().collect::<Vec<_>>()
    };
    let (added, removed) = (missing(&new, &old), missing(&old, &new));
    let is_told = !added.is_empty() || !removed.is_empty();
    let mut at = entrances_of(traffic, after);
    if at.is_empty() {
        at = entrances_of(traffic, before);
    }
    is_told.then_some(Answerers {
        policy: told_policy(traffic, before, after),
        at,
        before: old.len(),
        after: new.len(),
        added,
        removed,
    })
}

/// Who answers such traffic, if there is a destination for it.
fn answering(traffic: Traffic, view: &PortView) -> BTreeMap<SocketAddr, Share> {
    if entrances_of(traffic, view).is_empty() {
        return BTreeMap::new();
    }
    held_shares(view, policy_of(traffic, view).unwrap_or(Policy::Cluster))
}

fn policy_of(traffic: Traffic, view: &PortView) -> Option<Policy> {
    match traffic {
        Traffic::Internal => view.internal_policy,
        Traffic::External => view.external_policy,
    }
}

/// The policy as it will be. A service port that disappears, or has no endpoint any more, does not
/// tell: then it is the one under which those answered that no longer do.
fn told_policy(traffic: Traffic, before: &PortView, after: &PortView) -> Policy {
    let known = policy_of(traffic, after).or(policy_of(traffic, before));
    known.unwrap_or(Policy::Cluster)
}

/// The destinations of such traffic. Health checks are not answered by endpoints.
fn entrances_of(traffic: Traffic, view: &PortView) -> Vec<Entrance> {
    let is_such = |entrance: &&Entrance| match entrance.kind {
        Kind::HealthCheck => false,
        Kind::ClusterIp => traffic == Traffic::Internal,
        _ => traffic == Traffic::External,
    };
    view.entrances.iter().filter(is_such).cloned().collect()
}

/// The endpoints that have a share under a policy.
fn held_shares(view: &PortView, policy: Policy) -> BTreeMap<SocketAddr, Share> {
    let share = |endpoint: &Endpoint| match policy {
        Policy::Cluster => endpoint.cluster,
        Policy::Local => endpoint.local,
    };
    let endpoints = view.endpoints.iter();
    endpoints
        .filter_map(|endpoint| Some((endpoint.address, share(endpoint)?)))
        .collect()
}

fn changed_shares(policy: Policy, before: &PortView, after: &PortView) -> Vec<Effect> {
    let (old, new) = (held_shares(before, policy), held_shares(after, policy));
    if !old.keys().eq(new.keys()) {
        return Vec::new();
    }
    let changed = old.iter().filter_map(|(endpoint, before)| {
        let after = *new.get(endpoint)?;
        (!before.is_nearly(after)).then_some(Effect::ShareChanged {
            policy,
            endpoint: *endpoint,
            before: *before,
            after,
        })
    });
    changed.collect()
}
