//! Renders explanations as JSON.
//!
//! The keys are an interface: keys may be added, but not renamed.
//! `deploy/docs/schema/explain.json` describes each of them, and the tests check that everything
//! that is printed is described there.

use serde_json::{Value, json};

use super::explanation::Explanation;
use super::node::AddressOrigin;
use super::outcome::is_reachable;
use super::path::{Branch, PacketPath, SeenSource};
use super::phrases::{self, ResultWords};
use crate::inspect::API_VERSION;
use crate::rules::Step;

/// Renders one object; keys are sorted, and lists are in the order of the rules.
pub(crate) fn json(explanations: &[Explanation<'_>]) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "destinations": all(explanations, destination),
    })
}

fn all<T>(items: &[T], render: impl Fn(&T) -> Value) -> Vec<Value> {
    items.iter().map(render).collect()
}

fn texts<T: ToString>(items: impl IntoIterator<Item = T>) -> Vec<String> {
    items.into_iter().map(|one| one.to_string()).collect()
}

fn destination(explanation: &Explanation<'_>) -> Value {
    let to = &explanation.to;
    json!({
        "address": to.ip,
        "port": to.port.get(),
        "protocol": to.protocol.as_str(),
        "services": all(&to.frontends, |frontend| json!({
            "name": frontend.name.name,
            "kind": frontend.kind.as_str(),
        })),
        "endpointOf": all(&to.endpoint_of, |port| json!(port.name)),
        "affinitySeconds": explanation.affinity.map(|time| time.as_secs()),
        "sourceRanges": texts(&explanation.source_ranges),
        "conflicts": all(&explanation.conflicts, |conflict| json!({
            "name": conflict.loser.name,
            "kind": conflict.kind.as_str(),
            "owner": conflict.owner,
        })),
        "staleFlows": texts(&explanation.stale_flows),
        "nodeAddressKnown": explanation.assumed_node_ip.is_none(),
        "addressAssumed": explanation.destination_origin == AddressOrigin::Invented,
        "podAddressKnown": !explanation.lacks_pod_address,
        "missingTables": texts(&explanation.missing_tables),
        "tablesNotRead": explanation.unread_tables,
        "unreadableRules": explanation.unreadable_rules,
        "ways": all(&explanation.paths, |one| path(explanation, one)),
    })
}

fn path(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> Value {
    let first = path.clients.first();
    let rules_of = first.filter(|_| path.has_other_rules);
    json!({
        "clients": all(&path.clients, |client| json!({
            "kind": phrases::kind(client.kind),
            "address": client.ip,
            "assumed": client.origin == AddressOrigin::Invented,
            "interface": client.in_interface,
        })),
        "rulesOf": rules_of.map(|client| phrases::kind(client.kind)),
        "summary": phrases::summary(explanation, path),
        "reachable": is_reachable(explanation, path),
        "outcomes": all(&path.branches, |one| outcome(explanation, path, one)),
        "unsure": all(&path.undecided, step),
        "cutOff": path.is_cut_off,
        "broken": texts(&path.gaps),
        "traversed": path.traversed.map(|traversed| json!({
            "rules": traversed.rules,
            "dispatchRules": traversed.dispatch_rules,
        })),
    })
}

fn outcome(explanation: &Explanation<'_>, path: &PacketPath<'_>, branch: &Branch<'_>) -> Value {
    let ResultWords {
        result,
        to,
        source,
        reason,
    } = ResultWords::of(explanation, path, &branch.result);
    let (sees, masquerade) = match source {
        Some(SeenSource::Client) => (Some("client"), None),
        Some(SeenSource::Node(why)) => (Some("node"), Some(phrases::masquerade(why).to_owned())),
        Some(other @ SeenSource::Other(_)) => (Some("other"), Some(phrases::seen_source(other))),
        None => (None, None),
    };
    let reasons: Vec<String> = reason.into_iter().chain(masquerade).collect();
    let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
    let (result, reason) = match (phrases::condition(path, branch), reason) {
        (None, reason) => (result, reason),
        (Some(condition), None) => ("unclear", Some(format!("{result} {condition}"))),
        (Some(condition), Some(reason)) => {
            ("unclear", Some(format!("{result} {condition}: {reason}")))
        }
    };
    let mut rules: Vec<Value> = path.steps(branch).map(step).collect();
    rules.extend(branch.policy().map(|(table, chain)| {
        json!({
            "table": table.as_str(),
            "chain": chain,
            "rule": "",
            "comment": null,
            "policy": "DROP",
        })
    }));
    let mut outcome = json!({
        "share": branch.share.to_string(),
        "ratio": branch.share.ratio(),
        "result": result,
        "to": to.map(|to| to.to_string()),
        "sees": sees,
        "reason": reason,
        "rules": rules,
    });
    if let (false, Some(fields)) = (branch.reply_steps.is_empty(), outcome.as_object_mut()) {
        let rules = all(&branch.reply_steps, step);
        fields.insert("replyRules".to_owned(), json!(rules));
    }
    outcome
}

fn step(step: &Step<'_>) -> Value {
    json!({
        "table": step.table.as_str(),
        "chain": step.chain,
        "rule": step.rule.to_string(),
        "comment": step.rule.comment(),
    })
}
