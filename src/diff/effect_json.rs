//! Effects for machines.
//!
//! Apart from the document that they are in because they have a shape each. An effect is called
//! after the field of `services` that it changes, where there is one.
//!
//! ```text
//! entranceAdded, entranceRemoved   entrance
//! fate                             entrance as it will be, before
//! internalTrafficPolicy, externalTrafficPolicy, affinitySeconds   before, after; null: none
//! endpoints                        policy, entrances[], before, after: numbers, added[], removed[]
//! clusterShare, localShare         address, before, after: of new connections
//! sourceRanges                     added[], removed[]
//! masquerade                       before, after: clients; null: nobody's; neither: see the chains
//! refusals, order, rules           see the chains
//!
//! entrance: kind, ip, port, fate, chain
//! clients: kind: all | outside, network, interface
//! ```

use serde_json::{Value, json};

use super::effect::{Answerers, Effect, Traffic};
use super::masquerade::Clients;
use crate::catalog::{Entrance, Policy};

pub(super) fn effect(effect: &Effect) -> Value {
    match effect {
        Effect::EntranceAdded(one) => json!({"kind": "entranceAdded", "entrance": entrance(one)}),
        Effect::EntranceRemoved(one) => {
            json!({"kind": "entranceRemoved", "entrance": entrance(one)})
        }
        Effect::Fate {
            entrance: one,
            before,
        } => json!({"kind": "fate", "entrance": entrance(one), "before": before.id()}),
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
        Effect::Endpoints(answerers) => endpoints(answerers),
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
        Effect::Affinity { before, after } => json!({
            "kind": "affinitySeconds",
            "before": before.map(|stay| stay.as_secs()),
            "after": after.map(|stay| stay.as_secs()),
        }),
        Effect::SourceRanges { added, removed } => json!({
            "kind": "sourceRanges", "added": texts(added), "removed": texts(removed),
        }),
        Effect::Masquerade { before, after } => json!({
            "kind": "masquerade",
            "before": before.as_ref().map(clients),
            "after": after.as_ref().map(clients),
        }),
        Effect::OtherMasquerade => json!({"kind": "masquerade"}),
        Effect::Refusals => json!({"kind": "refusals"}),
        Effect::Order => json!({"kind": "order"}),
        Effect::Rules => json!({"kind": "rules"}),
    }
}

fn endpoints(of: &Answerers) -> Value {
    json!({
        "kind": "endpoints",
        "policy": of.policy.as_str(),
        "entrances": of.at.iter().map(entrance).collect::<Vec<_>>(),
        "before": of.before,
        "after": of.after,
        "added": texts(&of.added),
        "removed": texts(&of.removed),
    })
}

fn clients(of: &Clients) -> Value {
    let (kind, network, interface) = match of {
        Clients::All => ("all", None, None),
        Clients::Outside(network) => ("outside", Some(network.to_string()), None),
        Clients::NotBy(name) => ("outside", None, Some(name)),
    };
    json!({"kind": kind, "network": network, "interface": interface})
}

fn texts(all: &[impl ToString]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

fn entrance(entrance: &Entrance) -> Value {
    json!({
        "kind": entrance.kind.id(),
        "ip": entrance.ip,
        "port": entrance.port,
        "fate": entrance.fate.id(),
        "chain": entrance.chain,
    })
}
