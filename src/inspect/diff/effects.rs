//! Derives the effects on traffic from the two views of a service port and from its rules.
//!
//! An effect that follows from another one is not listed again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::review::{
    ChainReview, Edit, Effect, EndpointChange, MasqueradedClients, Presence, Traffic,
    without_cosmetics,
};
use crate::inspect::catalog::{EndpointView, FrontendKind, FrontendView, Policy, PortView};
use crate::rules::{Match, Rule, Share};
use crate::ruleset::KUBE_MARK_MASQ;

/// Returns the effects of turning the live service port into the desired one; `None` stands for a
/// side without it.
pub(super) fn effects(
    live: Option<&PortView>,
    desired: Option<&PortView>,
    chains: &[ChainReview<'_>],
) -> Vec<Effect> {
    let empty = PortView::default();
    let is_on_both_sides = live.is_some() && desired.is_some();
    let (live, desired) = (live.unwrap_or(&empty), desired.unwrap_or(&empty));
    let mut effects = frontend_effects(live, desired);
    if is_on_both_sides {
        effects.extend(policy_effects(live, desired));
    }
    effects.extend(endpoint_effects(live, desired));
    effects.extend(share_effects(Policy::Cluster, live, desired));
    effects.extend(share_effects(Policy::Local, live, desired));
    effects.extend(setting_effects(live, desired));
    let has_other_effects = !effects.is_empty();
    let views = [live, desired].into_iter();
    let cluster_ips: Vec<IpAddr> = views.flat_map(cluster_ips).collect();
    effects.extend(rule_effects(chains, &cluster_ips, has_other_effects));
    effects
}

/// Identity of a frontend on both sides. Without its kind: rules that drop or reject do not
/// distinguish external IPs from load balancer addresses.
type FrontendKey = (Option<IpAddr>, u16, bool);

fn frontends_by_key(view: &PortView) -> BTreeMap<FrontendKey, &FrontendView> {
    let frontends = view.frontends.iter();
    let key = |frontend: &FrontendView| {
        let is_health_check = frontend.kind == FrontendKind::HealthCheck;
        (frontend.ip, frontend.port, is_health_check)
    };
    frontends
        .map(|frontend| (key(frontend), frontend))
        .collect()
}

fn frontend_effects(live: &PortView, desired: &PortView) -> Vec<Effect> {
    let (old, new) = (frontends_by_key(live), frontends_by_key(desired));
    let removed = old.iter().filter(|(key, _)| !new.contains_key(key));
    let removed = removed.map(|(_, frontend)| Effect::FrontendRemoved((*frontend).clone()));
    let others = new.iter().filter_map(|(key, frontend)| {
        let frontend = (*frontend).clone();
        match old.get(key) {
            None => Some(Effect::FrontendAdded(frontend)),
            Some(old) if old.disposition != frontend.disposition => {
                Some(Effect::DispositionChanged {
                    before: old.disposition,
                    frontend,
                })
            }
            Some(_) => None,
        }
    });
    removed.chain(others).collect()
}

fn policy_effects(live: &PortView, desired: &PortView) -> impl Iterator<Item = Effect> {
    let policies = [Traffic::Internal, Traffic::External].map(|traffic| {
        (
            traffic,
            policy_of(traffic, live),
            policy_of(traffic, desired),
        )
    });
    policies.into_iter().filter_map(|(traffic, before, after)| {
        // A policy that rules do not show, because nothing is served, has not changed.
        let is_changed = before.is_some() && after.is_some() && before != after;
        is_changed.then_some(Effect::PolicyChanged {
            traffic,
            before,
            after,
        })
    })
}

fn policy_of(traffic: Traffic, view: &PortView) -> Option<Policy> {
    match traffic {
        Traffic::Internal => view.internal_policy,
        Traffic::External => view.external_policy,
    }
}

/// Compares the endpoints for internal and external traffic; one effect where both are equal.
fn endpoint_effects(live: &PortView, desired: &PortView) -> impl Iterator<Item = Effect> {
    let internal = endpoint_change(Traffic::Internal, live, desired);
    let external = endpoint_change(Traffic::External, live, desired);
    let all = match (internal, external) {
        (Some(mut internal), Some(external)) if internal.is_like(&external) => {
            internal.frontends.extend(external.frontends);
            vec![internal]
        }
        (internal, external) => internal.into_iter().chain(external).collect(),
    };
    all.into_iter().map(Effect::EndpointsChanged)
}

fn endpoint_change(
    traffic: Traffic,
    live: &PortView,
    desired: &PortView,
) -> Option<EndpointChange> {
    let old = endpoints_for(traffic, live);
    let new = endpoints_for(traffic, desired);
    let added: Vec<SocketAddr> = new.difference(&old).copied().collect();
    let removed: Vec<SocketAddr> = old.difference(&new).copied().collect();
    if added.is_empty() && removed.is_empty() {
        return None;
    }
    let mut frontends = frontends_for(traffic, desired);
    if frontends.is_empty() {
        frontends = frontends_for(traffic, live);
    }
    // Without endpoints, the desired side shows no policy: then it is that of the removed ones.
    let policy = policy_of(traffic, desired).or(policy_of(traffic, live));
    Some(EndpointChange {
        policy: policy.unwrap_or(Policy::Cluster),
        frontends,
        before: old.len(),
        after: new.len(),
        added,
        removed,
    })
}

/// Returns the endpoints for some traffic, if there is a frontend for it.
fn endpoints_for(traffic: Traffic, view: &PortView) -> BTreeSet<SocketAddr> {
    if frontends_for(traffic, view).is_empty() {
        return BTreeSet::new();
    }
    let policy = policy_of(traffic, view).unwrap_or(Policy::Cluster);
    shares(policy, view).into_keys().collect()
}

/// Returns the frontends for some traffic. Health checks are not served by endpoints.
fn frontends_for(traffic: Traffic, view: &PortView) -> Vec<FrontendView> {
    let is_wanted = |frontend: &&FrontendView| match frontend.kind {
        FrontendKind::HealthCheck => false,
        FrontendKind::ClusterIp => traffic == Traffic::Internal,
        _ => traffic == Traffic::External,
    };
    view.frontends.iter().filter(is_wanted).cloned().collect()
}

fn shares(policy: Policy, view: &PortView) -> BTreeMap<SocketAddr, Share> {
    let share = |endpoint: &EndpointView| match policy {
        Policy::Cluster => endpoint.cluster,
        Policy::Local => endpoint.local,
    };
    let endpoints = view.endpoints.iter();
    endpoints
        .filter_map(|endpoint| Some((endpoint.address, share(endpoint)?)))
        .collect()
}

/// Compares the shares of endpoints if both sides have the same endpoints.
fn share_effects(policy: Policy, live: &PortView, desired: &PortView) -> Vec<Effect> {
    let (old, new) = (shares(policy, live), shares(policy, desired));
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

fn setting_effects(live: &PortView, desired: &PortView) -> Vec<Effect> {
    let mut effects = Vec::new();
    let are_served = live.is_served() && desired.is_served();
    if are_served && live.affinity != desired.affinity {
        effects.push(Effect::AffinityChanged {
            before: live.affinity,
            after: desired.affinity,
        });
    }
    let old: BTreeSet<_> = live.source_ranges.iter().copied().collect();
    let new: BTreeSet<_> = desired.source_ranges.iter().copied().collect();
    if old != new {
        effects.push(Effect::SourceRangesChanged {
            added: new.difference(&old).copied().collect(),
            removed: old.difference(&new).copied().collect(),
        });
    }
    effects
}

/// Returns effects that rules show and views do not. Only chains of both sides count: differences
/// of the others follow from another effect.
fn rule_effects(
    chains: &[ChainReview<'_>],
    cluster_ips: &[IpAddr],
    has_other_effects: bool,
) -> Vec<Effect> {
    let (mut removed, mut added) = changed_rules(chains);
    let mut before = take_masqueraded(&mut removed, cluster_ips);
    let mut after = take_masqueraded(&mut added, cluster_ips);
    let is_one_kind = before.len() <= 1 && after.len() <= 1;
    let is_masquerade_change = is_one_kind && before != after;
    // With such a rule on one side only, another effect may be the cause.
    let is_certain = !has_other_effects || (before.len() == 1 && after.len() == 1);
    let mut effects = Vec::new();
    if is_masquerade_change && is_certain {
        effects.push(Effect::MasqueradeChanged {
            before: before.pop_first(),
            after: after.pop_first(),
        });
    }
    // Rules are not shown if the only effect is a change of the masqueraded clients.
    let has_others = effects.is_empty() || !is_one_kind || removed != added;
    if has_others && !has_other_effects {
        effects.push(Effect::OtherRules);
    }
    effects
}

/// Returns the removed and the added rules, sorted, whatever chain they are in: other releases have
/// the same rules in other chains.
fn changed_rules(chains: &[ChainReview<'_>]) -> (Vec<Rule>, Vec<Rule>) {
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let chains = chains.iter();
    let on_both_sides =
        chains.filter(|chain| chain.presence == Presence::Both && !chain.is_cosmetic);
    for edit in on_both_sides.flat_map(|chain| &chain.edits) {
        match edit {
            Edit::Kept(_) => {}
            Edit::Removed(rule) => removed.push(without_cosmetics(rule)),
            Edit::Added(rule) => added.push(without_cosmetics(rule)),
        }
    }
    removed.sort_unstable();
    added.sort_unstable();
    (removed, added)
}

/// Takes the rules that masquerade traffic to a cluster IP, and returns the clients whose traffic
/// it is. They are a setting of the whole node, but only the rules of each Service show it.
fn take_masqueraded(rules: &mut Vec<Rule>, cluster_ips: &[IpAddr]) -> BTreeSet<MasqueradedClients> {
    let mut clients = BTreeSet::new();
    rules.retain(|rule| {
        let of_rule = masqueraded_clients(rule, cluster_ips);
        let is_other = of_rule.is_none();
        clients.extend(of_rule);
        is_other
    });
    clients
}

fn cluster_ips(view: &PortView) -> impl Iterator<Item = IpAddr> {
    let frontends = view.frontends.iter();
    let internal = frontends.filter(|frontend| frontend.kind == FrontendKind::ClusterIp);
    internal.filter_map(|frontend| frontend.ip)
}

fn masqueraded_clients(rule: &Rule, cluster_ips: &[IpAddr]) -> Option<MasqueradedClients> {
    if rule.target_chain() != Some(KUBE_MARK_MASQ) {
        return None;
    }
    let destination = rule.destination.filter(|to| !to.negated)?.value.host()?;
    let is_plain = |one: &Match| matches!(one, Match::Comment(_) | Match::Ports { .. });
    if !cluster_ips.contains(&destination) || !rule.matches.iter().all(is_plain) {
        return None;
    }
    match (rule.source, &rule.in_interface) {
        (None, None) => Some(MasqueradedClients::All),
        (Some(source), None) if source.negated => {
            Some(MasqueradedClients::OutsideNetwork(source.value))
        }
        (None, Some(name)) if name.negated => {
            Some(MasqueradedClients::OutsideInterface(name.value.clone()))
        }
        _ => None,
    }
}
