//! The review for machines.
//!
//! Apart because its shape is an interface: fields are added, never renamed or removed, and lists are
//! sorted. Addresses, policies and fates are spelled as in Kubernetes and in rules.
//!
//! # Shape
//!
//! ```text
//! summary    changed, added, removed, cosmetic, setUp, unused, chains, foreignRules: numbers
//! servicePorts[]
//!   name, protocol, family
//!   verdict  appears | disappears | changes | cosmetic
//!   effects[]  kind, and what belongs to it
//!   chains[]
//! setUp[], unusedChains[]   family, and a chain
//! restores[]   family, scope: full | partial, chains, lines, bytes, payload (if partial)
//!
//! chain: table, chain, side: both | left | right, cosmetic, reordered, removed[], added[]: rules
//! ```

use serde_json::{Value, json};

use super::edit::Edit;
use super::effect::{Answerers, Effect};
use super::phrase::policy;
use super::review::{ChainReview, PortReview, Presence, Restore, Review, Scope, Verdict};
use super::summary::Summary;
use crate::catalog::{Entrance, Fate, Policy};
use crate::net::IpFamily;

/// The reviews of all families as one document.
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
        "summary": {
            "changed": summary.changed,
            "added": summary.added,
            "removed": summary.removed,
            "cosmetic": summary.cosmetic,
            "setUp": summary.set_up,
            "unused": summary.unused,
            "chains": summary.chains,
            "foreignRules": summary.foreign,
        },
        "servicePorts": ports,
        "setUp": chains(reviews, |review| &review.set_up),
        "unusedChains": chains(reviews, |review| &review.unused),
        "restores": restores.collect::<Vec<_>>(),
    })
}

fn service_port(port: &PortReview<'_>, family: IpFamily) -> Value {
    json!({
        "name": port.name.name,
        "protocol": port.name.protocol,
        "family": family.as_str(),
        "verdict": match port.verdict {
            Verdict::Appears => "appears",
            Verdict::Disappears => "disappears",
            Verdict::Changes => "changes",
            Verdict::Cosmetic => "cosmetic",
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
            Presence::Left => "left",
            Presence::Right => "right",
        },
        "cosmetic": review.is_cosmetic,
        "reordered": review.is_reordered,
        "removed": rules(false),
        "added": rules(true),
    })
}

fn effect(effect: &Effect) -> Value {
    match effect {
        Effect::EntranceAdded(one) => json!({"kind": "entranceAdded", "entrance": entrance(one)}),
        Effect::EntranceRemoved(one) => {
            json!({"kind": "entranceRemoved", "entrance": entrance(one)})
        }
        Effect::Fate {
            entrance: one,
            before,
        } => json!({"kind": "fate", "entrance": entrance(one), "before": fate(*before)}),
        Effect::PolicyChanged {
            traffic,
            before,
            after,
        } => {
            let traffic = traffic.as_str();
            let (before, after) = (policy(*before), policy(*after));
            json!({"kind": "policy", "traffic": traffic, "before": before, "after": after})
        }
        Effect::Endpoints(answerers) => endpoints(answerers),
        Effect::ShareChanged {
            policy,
            endpoint,
            before,
            after,
        } => json!({
            "kind": "share",
            "policy": name(*policy),
            "endpoint": endpoint.to_string(),
            "before": before.to_string(),
            "after": after.to_string(),
        }),
        Effect::Affinity { before, after } => json!({
            "kind": "affinity",
            "beforeSeconds": before.map(|stay| stay.as_secs()),
            "afterSeconds": after.map(|stay| stay.as_secs()),
        }),
        Effect::SourceRanges { added, removed } => json!({
            "kind": "sourceRanges", "added": texts(added), "removed": texts(removed),
        }),
        Effect::Masquerade => json!({"kind": "masquerade"}),
        Effect::Refusals => json!({"kind": "refusals"}),
        Effect::Order => json!({"kind": "order"}),
        Effect::Rules => json!({"kind": "rules"}),
    }
}

fn endpoints(of: &Answerers) -> Value {
    json!({
        "kind": "endpoints",
        "policy": name(of.policy),
        "entrances": of.at.iter().map(entrance).collect::<Vec<_>>(),
        "before": of.before,
        "after": of.after,
        "added": texts(&of.added),
        "removed": texts(&of.removed),
    })
}

fn texts(all: &[impl ToString]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

const fn name(of: Policy) -> &'static str {
    policy(Some(of))
}

fn entrance(entrance: &Entrance) -> Value {
    json!({
        "type": entrance.kind.as_str(),
        "ip": entrance.ip,
        "port": entrance.port,
        "fate": fate(entrance.fate),
    })
}

const fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Served => "served",
        Fate::Dropped => "dropped",
        Fate::Rejected => "rejected",
    }
}

fn restore(restore: &Restore, family: IpFamily) -> Value {
    json!({
        "family": family.as_str(),
        "scope": match restore.scope {
            Scope::Full => "full",
            Scope::Partial => "partial",
        },
        "chains": restore.chains,
        "lines": restore.lines,
        "bytes": restore.bytes,
        "payload": restore.payload,
    })
}
