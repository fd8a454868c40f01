//! Renders reviews as machine-readable JSON.
//!
//! The fields are an interface: fields are added, never renamed or removed, and lists are sorted.
//! `deploy/docs/schema/diff.json` describes each of them, and the tests check that everything that
//! is printed is described there. Fields that `services` has as well have the same name there, and
//! an effect is named after the field of `services` that it changes.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::review::{
    ChainReview, Edit, Effect, ManifestFacts, MasqueradedClients, PortReview, Presence, Review,
    Summary,
};
use crate::inspect::API_VERSION;
use crate::inspect::catalog::{Policy, PortName};
use crate::net::IpFamily;
use crate::rules::{Backend, Share};

/// Renders the reviews of all IP families as one document, whose keys are sorted.
pub fn json(reviews: &[Review<'_>], facts: &ManifestFacts) -> Value {
    let mut ports: Vec<(&PortReview<'_>, IpFamily)> = Vec::new();
    for review in reviews {
        ports.extend(review.ports.iter().map(|port| (port, review.family)));
    }
    ports.sort_by(|left, right| (&left.0.name, left.1).cmp(&(&right.0.name, right.1)));
    let ports = ports.into_iter();
    let service_ports = ports.map(|(port, family)| service_port(port, family));
    let with_legacy = reviews
        .iter()
        .filter(|one| one.other_backend == Some(Backend::Legacy));
    json!({
        "apiVersion": API_VERSION,
        "families": families(reviews.iter()),
        "summary": summary(&reviews.iter().collect(), facts),
        "servicePorts": service_ports.collect::<Vec<_>>(),
        "setUp": chains(reviews, |review| &review.fixed),
        "staleChains": chains(reviews, |review| &review.stale),
        "notCompared": {
            "familiesWithLegacyRules": families(with_legacy),
        },
        "assumptions": facts.assumptions,
    })
}

fn families<'r>(reviews: impl Iterator<Item = &'r Review<'r>>) -> Vec<&'static str> {
    reviews.map(|review| review.family.as_str()).collect()
}

fn summary(summary: &Summary, facts: &ManifestFacts) -> Value {
    json!({
        "changed": summary.changed,
        "added": summary.added,
        "removed": summary.removed,
        "cosmetic": summary.cosmetic,
        "setUp": summary.fixed,
        "stale": summary.stale,
        "chains": summary.chains,
        "hiddenObjects": facts.hidden_objects,
        "foreignRules": summary.third_party,
        "leftOut": {
            "servicePorts": summary.unselected_ports,
            "chains": summary.unselected_chains,
        },
    })
}

fn port_name(port: &PortName, family: IpFamily) -> Value {
    json!({
        "namespace": port.namespace(),
        "service": port.service(),
        "port": port.port(),
        "protocol": port.protocol,
        "family": family.as_str(),
    })
}

fn service_port(port: &PortReview<'_>, family: IpFamily) -> Value {
    let effects: Vec<Value> = port.effects.iter().map(effect).collect();
    let chains: Vec<Value> = port.chains.iter().map(chain).collect();
    let more = json!({"verdict": port.change.as_str(), "effects": effects, "chains": chains});
    merged(port_name(&port.name, family), more)
}

fn chains<'r>(
    reviews: &'r [Review<'r>],
    of: impl Fn(&'r Review<'r>) -> &'r [ChainReview<'r>],
) -> Vec<Value> {
    let of_review = |review: &'r Review<'r>| {
        let family = review.family.as_str();
        let chains = of(review).iter();
        chains.map(move |one| merged(chain(one), json!({"family": family})))
    };
    reviews.iter().flat_map(of_review).collect()
}

/// Adds the fields of another object.
fn merged(mut object: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut object, more) {
        fields.extend(more);
    }
    object
}

fn chain(review: &ChainReview<'_>) -> Value {
    let rules = |is_added: bool| {
        let edits = review.edits.iter();
        let rules = edits.filter_map(move |edit| match edit {
            Edit::Added(rule) if is_added => Some(rule.to_string()),
            Edit::Removed(rule) if !is_added => Some(rule.to_string()),
            _ => None,
        });
        rules.collect::<Vec<_>>()
    };
    json!({
        "table": review.table.as_str(),
        "chain": review.chain,
        "side": match review.presence {
            Presence::Both => "both",
            Presence::Live => "left",
            Presence::Desired => "right",
        },
        "cosmetic": review.is_cosmetic,
        "removed": rules(false),
        "added": rules(true),
    })
}

fn effect(effect: &Effect) -> Value {
    match effect {
        Effect::FrontendAdded(one) => json!({"kind": "entranceAdded", "entrance": one}),
        Effect::FrontendRemoved(one) => json!({"kind": "entranceRemoved", "entrance": one}),
        Effect::DispositionChanged { frontend, before } => {
            json!({"kind": "fate", "entrance": frontend, "before": before})
        }
        Effect::PolicyChanged {
            traffic,
            before,
            after,
        } => {
            let kind = format!("{}TrafficPolicy", traffic.as_str());
            let [before, after] = [before, after].map(|policy| policy.map(Policy::as_str));
            json!({"kind": kind, "before": before, "after": after})
        }
        Effect::EndpointsChanged(change) => json!({
            "kind": "endpoints",
            "policy": change.policy.as_str(),
            "entrances": change.frontends,
            "before": change.before,
            "after": change.after,
            "added": texts(&change.added),
            "removed": texts(&change.removed),
        }),
        Effect::ShareChanged {
            policy,
            endpoint,
            before,
            after,
        } => share_change(*policy, endpoint, [*before, *after]),
        Effect::AffinityChanged { before, after } => json!({
            "kind": "affinitySeconds",
            "before": before.map(|timeout| timeout.as_secs()),
            "after": after.map(|timeout| timeout.as_secs()),
        }),
        Effect::SourceRangesChanged { added, removed } => json!({
            "kind": "sourceRanges",
            "added": texts(added),
            "removed": texts(removed),
        }),
        Effect::MasqueradeChanged { before, after } => {
            let [before, after] = [before, after].map(|one| one.as_ref().map(clients));
            json!({"kind": "masquerade", "before": before, "after": after})
        }
        Effect::OtherRules => json!({"kind": "rules"}),
    }
}

fn share_change(policy: Policy, endpoint: &SocketAddr, [before, after]: [Share; 2]) -> Value {
    json!({
        "kind": match policy {
            Policy::Cluster => "clusterShare",
            Policy::Local => "localShare",
        },
        "address": endpoint,
        "before": before.to_string(),
        "beforeRatio": before.ratio(),
        "after": after.to_string(),
        "afterRatio": after.ratio(),
    })
}

fn clients(clients: &MasqueradedClients) -> Value {
    let (kind, network, interface) = match clients {
        MasqueradedClients::All => ("all", None, None),
        MasqueradedClients::OutsideNetwork(network) => ("outside", Some(network.to_string()), None),
        MasqueradedClients::OutsideInterface(name) => ("outside", None, Some(name)),
    };
    json!({"kind": kind, "network": network, "interface": interface})
}

fn texts(all: &[impl ToString]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}
