//! Renders explanations as JSON.
//!
//! The keys are an interface: keys may be added, but not renamed. The help of the command lists
//! them.

use serde_json::{Value, json};

use super::client::Client;
use super::explanation::Explanation;
use super::path::{Branch, PacketPath, PathResult, SeenSource, SharedRules};
use super::summary;
use crate::inspect::catalog::FrontendConflict;
use crate::rules::Step;

/// Renders one object; keys are sorted, and lists are in the order of the rules.
pub fn json(explanations: &[Explanation<'_>]) -> Value {
    json!({"destinations": explanations.iter().map(destination).collect::<Vec<_>>()})
}

fn destination(explanation: &Explanation<'_>) -> Value {
    let Explanation {
        to,
        paths,
        affinity,
        source_ranges,
        conflicts,
        suggestions,
        is_node_address_assumed,
        assumed_node_ip: _,
        lacks_pod_address,
        missing_tables,
        unread_tables,
    } = explanation;
    let services = to
        .frontends
        .iter()
        .map(|frontend| json!({"name": frontend.name.name, "kind": frontend.kind.as_str()}));
    let texts = |texts: &mut dyn Iterator<Item = String>| texts.collect::<Vec<_>>();
    json!({
        "address": to.ip,
        "port": to.port,
        "protocol": to.protocol.as_str(),
        "services": services.collect::<Vec<_>>(),
        "endpointOf": texts(&mut to.endpoint_of.iter().map(|port| port.name.to_string())),
        "affinitySeconds": affinity.map(|time| time.as_secs()),
        "sourceRanges": texts(&mut source_ranges.iter().map(ToString::to_string)),
        "conflicts": conflicts.iter().map(conflict).collect::<Vec<_>>(),
        "near": texts(&mut suggestions.iter().map(ToString::to_string)),
        "nodeAddressKnown": !is_node_address_assumed,
        "podAddressKnown": !lacks_pod_address,
        "missingTables": texts(&mut missing_tables.iter().map(ToString::to_string)),
        "tablesNotRead": unread_tables,
        "ways": paths.iter().map(|one| path(explanation, one)).collect::<Vec<_>>(),
    })
}

fn conflict(conflict: &FrontendConflict) -> Value {
    json!({
        "name": conflict.loser.name,
        "kind": conflict.kind.as_str(),
        "owner": conflict.owner,
    })
}

fn path(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> Value {
    json!({
        "clients": path.clients.iter().map(client).collect::<Vec<_>>(),
        "rulesOf": (path.shared_rules != SharedRules::All)
            .then(|| path.clients.first().map(|client| summary::kind(client.kind))),
        "summary": summary::summary(explanation, path),
        "outcomes": path.branches.iter().map(|one| outcome(explanation, path, one)).collect::<Vec<_>>(),
        "hairpinMasqueraded": path.has_hairpin,
        "unsure": path.undecided.iter().map(rule).collect::<Vec<_>>(),
    })
}

fn client(client: &Client) -> Value {
    json!({
        "kind": summary::kind(client.kind),
        "address": client.ip,
        "interface": client.in_interface,
    })
}

fn outcome(explanation: &Explanation<'_>, path: &PacketPath<'_>, branch: &Branch<'_>) -> Value {
    let why = |why| Some(summary::block_reason(explanation, path, why));
    let (result, to, source, reason) = match &branch.result {
        PathResult::Served { to, source } => ("served", Some(to.to_string()), Some(*source), None),
        PathResult::Passed { is_local, source } => {
            let result = if *is_local { "local" } else { "routed" };
            (result, None, Some(*source), None)
        }
        PathResult::Dropped(reason) => ("dropped", None, None, why(reason)),
        PathResult::Rejected(reason) => ("rejected", None, None, why(reason)),
        PathResult::Unclear(unclear) => ("unclear", None, None, Some(unclear.to_string())),
        PathResult::MissingTable(table) => {
            ("unclear", None, None, Some(summary::missing_table(*table)))
        }
    };
    let (sees, masquerade) = match source {
        Some(SeenSource::Client) => (Some("client"), None),
        Some(SeenSource::Node(why)) => (Some("node"), Some(summary::masquerade(why).to_owned())),
        Some(other @ SeenSource::Other(_)) => (Some("other"), Some(summary::seen_source(other))),
        None => (None, None),
    };
    // A policy has no rule; its entry has the same keys and one more.
    let policy = branch.policy().map(|(table, chain)| {
        json!({
            "table": table.as_str(),
            "chain": chain,
            "rule": "",
            "comment": null,
            "policy": "DROP",
        })
    });
    json!({
        "share": branch.share.to_string(),
        "result": result,
        "to": to,
        "sees": sees,
        "reason": reason.or(masquerade),
        "rules": path.steps(branch).map(rule).chain(policy).collect::<Vec<_>>(),
    })
}

fn rule(step: &Step<'_>) -> Value {
    json!({
        "table": step.table.as_str(),
        "chain": step.chain,
        "rule": step.rule.to_string(),
        "comment": step.rule.comment(),
    })
}
