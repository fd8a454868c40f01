//! Renders reviews as machine-readable JSON.
//!
//! The shape is an interface: fields are added, never renamed or removed, and lists are sorted.
//! Fields that `services` has as well have the same name there, and an effect is named after the
//! field of `services` that it changes. The help of the command documents the shape.
//!
//! # Shape
//!
//! ```text
//! families[] those that were compared
//! summary    changed, added, removed, cosmetic, setUp, stale, chains, foreignRules,
//!   leftOut.servicePorts, leftOut.chains: numbers
//! servicePorts[]
//!   namespace, service, port, protocol, family
//!   verdict  appears | disappears | changes | cosmetic
//!   effects[]  kind, and its fields
//!   chains[]
//! setUp[], staleChains[]   family, and a chain
//! restores[]   family, scope: full | partial, reason, services (if partial),
//!   chains, lines, bytes, payload (if partial)
//!
//! chain: table, chain, side: both | left (live) | right (desired), cosmetic, reordered,
//!   removed[], added[]: rules
//!
//! kinds of effects:
//!   entranceAdded, entranceRemoved   entrance: a frontend
//!   fate                             entrance on the desired side, before
//!   internalTrafficPolicy, externalTrafficPolicy, affinitySeconds   before, after; null: none
//!   endpoints                        policy, entrances[], before, after: numbers, added[],
//!                                    removed[]
//!   clusterShare, localShare         address, before, after: shares of new connections
//!   sourceRanges                     added[], removed[]
//!   masquerade                       before, after: clients; null: none; neither: see the chains
//!   refusals, order, rules           see the chains
//!
//! entrance: kind, ip, port, fate, chain
//! clients: kind: all | outside, network, interface
//! ```

use serde_json::{Value, json};

use super::edit::Edit;
use super::effect::{Effect, EndpointChange, MasqueradedClients, Traffic};
use super::review::{
    ChainReview, PlannedRestore, PortChange, PortReview, Presence, RestoreScope, Review, Summary,
};
use crate::inspect::catalog::{FrontendView, Policy};
use crate::net::IpFamily;

/// Renders the reviews of all IP families as one document.
pub fn json(reviews: &[Review<'_>]) -> Value {
    let summary: Summary = reviews.iter().collect();
    let mut ports: Vec<(&PortReview<'_>, IpFamily)> = Vec::new();
    for review in reviews {
        ports.extend(review.ports.iter().map(|port| (port, review.family)));
    }
    ports.sort_by(|left, right| (&left.0.name, left.1).cmp(&(&right.0.name, right.1)));
    let ports: Vec<Value> = ports
        .into_iter()
        .map(|(port, family)| service_port(port, family))
        .collect();
    let restores = reviews.iter();
    let restores = restores.filter_map(|one| Some(restore(one.restore.as_ref()?, one.family)));
    json!({
        "families": reviews.iter().map(|review| review.family.as_str()).collect::<Vec<_>>(),
        "summary": {
            "changed": summary.changed,
            "added": summary.added,
            "removed": summary.removed,
            "cosmetic": summary.cosmetic,
            "setUp": summary.fixed,
            "stale": summary.stale,
            "chains": summary.chains,
            "foreignRules": summary.third_party,
            "leftOut": {"servicePorts": summary.unselected_ports, "chains": summary.unselected_chains},
        },
        "servicePorts": ports,
        "setUp": chains(reviews, |review| &review.fixed),
        "staleChains": chains(reviews, |review| &review.stale),
        "restores": restores.collect::<Vec<_>>(),
    })
}

fn service_port(port: &PortReview<'_>, family: IpFamily) -> Value {
    json!({
        "namespace": port.name.namespace(),
        "service": port.name.service(),
        "port": port.name.port(),
        "protocol": port.name.protocol,
        "family": family.as_str(),
        "verdict": match port.change {
            PortChange::Appears => "appears",
            PortChange::Disappears => "disappears",
            PortChange::Changes => "changes",
            PortChange::Cosmetic => "cosmetic",
        },
        "effects": port.effects.iter().map(effect).collect::<Vec<_>>(),
        "chains": port.chains.iter().map(chain).collect::<Vec<_>>(),
    })
}

fn chains<'r>(
    reviews: &'r [Review<'r>],
    of: impl Fn(&'r Review<'r>) -> &'r [ChainReview<'r>],
) -> Vec<Value> {
    let mut values = Vec::new();
    for review in reviews {
        for one in of(review) {
            let mut value = chain(one);
            if let Value::Object(fields) = &mut value {
                fields.insert("family".to_owned(), review.family.as_str().into());
            }
            values.push(value);
        }
    }
    values
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
        "reordered": review.is_reordered,
        "removed": rules(false),
        "added": rules(true),
    })
}

fn restore(restore: &PlannedRestore, family: IpFamily) -> Value {
    json!({
        "family": family.as_str(),
        "scope": match restore.scope {
            RestoreScope::Full => "full",
            RestoreScope::Partial => "partial",
        },
        "reason": restore.reason,
        "services": restore.services,
        "chains": restore.chains,
        "lines": restore.lines,
        "bytes": restore.bytes,
        "payload": restore.payload,
    })
}

fn effect(effect: &Effect) -> Value {
    match effect {
        Effect::FrontendAdded(one) => json!({"kind": "entranceAdded", "entrance": frontend(one)}),
        Effect::FrontendRemoved(one) => {
            json!({"kind": "entranceRemoved", "entrance": frontend(one)})
        }
        Effect::DispositionChanged {
            frontend: one,
            before,
        } => json!({"kind": "fate", "entrance": frontend(one), "before": before.id()}),
        Effect::PolicyChanged {
            traffic,
            before,
            after,
        } => {
            let kind = match traffic {
                Traffic::Internal => "internalTrafficPolicy",
                Traffic::External => "externalTrafficPolicy",
            };
            let (before, after) = (before.map(Policy::as_str), after.map(Policy::as_str));
            json!({"kind": kind, "before": before, "after": after})
        }
        Effect::EndpointsChanged(change) => endpoints(change),
        Effect::ShareChanged {
            policy,
            endpoint,
            before,
            after,
        } => json!({
            "kind": match policy {
                Policy::Cluster => "clusterShare",
                Policy::Local => "localShare",
            },
            "address": endpoint.to_string(),
            "before": before.to_string(),
            "after": after.to_string(),
        }),
        Effect::AffinityChanged { before, after } => json!({
            "kind": "affinitySeconds",
            "before": before.map(|timeout| timeout.as_secs()),
            "after": after.map(|timeout| timeout.as_secs()),
        }),
        Effect::SourceRangesChanged { added, removed } => json!({
            "kind": "sourceRanges", "added": texts(added), "removed": texts(removed),
        }),
        Effect::MasqueradeChanged { before, after } => json!({
            "kind": "masquerade",
            "before": before.as_ref().map(clients),
            "after": after.as_ref().map(clients),
        }),
        Effect::MasqueradeRules => json!({"kind": "masquerade"}),
        Effect::FilterRules => json!({"kind": "refusals"}),
        Effect::Reordered => json!({"kind": "order"}),
        Effect::OtherRules => json!({"kind": "rules"}),
    }
}

fn endpoints(change: &EndpointChange) -> Value {
    json!({
        "kind": "endpoints",
        "policy": change.policy.as_str(),
        "entrances": change.frontends.iter().map(frontend).collect::<Vec<_>>(),
        "before": change.before,
        "after": change.after,
        "added": texts(&change.added),
        "removed": texts(&change.removed),
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

fn frontend(frontend: &FrontendView) -> Value {
    json!({
        "kind": frontend.kind.id(),
        "ip": frontend.ip,
        "port": frontend.port,
        "fate": frontend.disposition.id(),
        "chain": frontend.chain,
    })
}
