//! The review for machines.
//!
//! Apart because its shape is an interface: fields are added, never renamed or removed, and lists
//! are sorted. What `services` has a word for has the same one here. The help of the command lists
//! it.
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
//!   effects[]  kind, and what belongs to it
//!   chains[]
//! setUp[], staleChains[]   family, and a chain
//! restores[]   family, scope: full | partial, reason, services (if partial),
//!   chains, lines, bytes, payload (if partial)
//!
//! chain: table, chain, side: both | left | right, cosmetic, reordered, removed[], added[]: rules
//! ```

use serde_json::{Value, json};

use super::edit::Edit;
use super::effect_json::effect;
use super::review::{ChainReview, PortReview, Presence, Restore, Review, Scope, Verdict};
use super::summary::Summary;
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
        "families": reviews.iter().map(|review| review.family.as_str()).collect::<Vec<_>>(),
        "summary": {
            "changed": summary.changed,
            "added": summary.added,
            "removed": summary.removed,
            "cosmetic": summary.cosmetic,
            "setUp": summary.set_up,
            "stale": summary.stale,
            "chains": summary.chains,
            "foreignRules": summary.foreign,
            "leftOut": {"servicePorts": summary.other_ports, "chains": summary.other_chains},
        },
        "servicePorts": ports,
        "setUp": chains(reviews, |review| &review.set_up),
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

fn restore(restore: &Restore, family: IpFamily) -> Value {
    json!({
        "family": family.as_str(),
        "scope": match restore.scope {
            Scope::Full => "full",
            Scope::Partial => "partial",
        },
        "reason": restore.reason,
        "services": restore.services,
        "chains": restore.chains,
        "lines": restore.lines,
        "bytes": restore.bytes,
        "payload": restore.payload,
    })
}
