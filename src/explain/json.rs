//! Explanations for programs.
//!
//! Apart because its fields are an interface: they may be joined by others, but not renamed. The
//! help of the command lists them.

use serde_json::{Value, json};

use super::{Alike, Client, End, Explanation, Fate, Sees, Way, words};
use crate::inspect::catalog::FrontendConflict;
use crate::rules::Step;

/// One object; keys are sorted, and lists are in the order of the rules.
pub fn json(explanations: &[Explanation<'_>]) -> Value {
    json!({"destinations": explanations.iter().map(destination).collect::<Vec<_>>()})
}

fn destination(explanation: &Explanation<'_>) -> Value {
    let Explanation {
        to,
        ways,
        affinity,
        source_ranges,
        near,
        conflicts,
        is_node_made_up,
        lacks_pods,
        unseen,
        stand_in: _,
        unread,
    } = explanation;
    let services = to
        .subjects
        .iter()
        .map(|subject| json!({"name": subject.name.name, "kind": subject.kind.as_str()}));
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
        "near": texts(&mut near.iter().map(ToString::to_string)),
        "nodeAddressKnown": !is_node_made_up,
        "podAddressKnown": !lacks_pods,
        "missingTables": texts(&mut unseen.iter().map(ToString::to_string)),
        "tablesNotRead": unread,
        "ways": ways.iter().map(|one| way(explanation, one)).collect::<Vec<_>>(),
    })
}

fn conflict(conflict: &FrontendConflict) -> Value {
    json!({
        "name": conflict.loser.name,
        "kind": conflict.kind.as_str(),
        "owner": conflict.owner,
    })
}

fn way(explanation: &Explanation<'_>, way: &Way<'_>) -> Value {
    json!({
        "clients": way.clients.iter().map(client).collect::<Vec<_>>(),
        "rulesOf": (way.alike != Alike::Wholly)
            .then(|| way.clients.first().map(|client| words::who(client.who))),
        "summary": words::summary(explanation, way),
        "outcomes": way.ends.iter().map(|end| outcome(explanation, way, end)).collect::<Vec<_>>(),
        "hairpinMasqueraded": way.has_hairpin,
        "unsure": way.doubts.iter().map(rule).collect::<Vec<_>>(),
    })
}

fn client(client: &Client) -> Value {
    json!({
        "kind": words::who(client.who),
        "address": client.ip,
        "interface": client.in_interface,
    })
}

fn outcome(explanation: &Explanation<'_>, way: &Way<'_>, end: &End<'_>) -> Value {
    let why = |why| Some(words::refusal(explanation, way, why));
    let (result, to, sees, reason) = match &end.fate {
        Fate::Served { to, sees } => ("served", Some(to.to_string()), Some(*sees), None),
        Fate::Passed { is_local, sees } => {
            let result = if *is_local { "local" } else { "routed" };
            (result, None, Some(*sees), None)
        }
        Fate::Dropped(refusal) => ("dropped", None, None, why(refusal)),
        Fate::Rejected(refusal) => ("rejected", None, None, why(refusal)),
        Fate::Unclear(unclear) => ("unclear", None, None, Some(unclear.to_string())),
        Fate::Unseen(table) => ("unclear", None, None, Some(words::unseen(*table))),
    };
    let (sees, masquerade) = match sees {
        Some(Sees::Client) => (Some("client"), None),
        Some(Sees::Node(why)) => (Some("node"), Some(words::masquerade(why).to_owned())),
        Some(other @ Sees::Other(_)) => (Some("other"), Some(words::seen_by_one(other))),
        None => (None, None),
    };
    // In place of the rule that there is not.
    let policy = end.policy().map(|(table, chain)| {
        json!({
            "table": table.as_str(),
            "chain": chain,
            "rule": "",
            "comment": null,
            "policy": "DROP",
        })
    });
    json!({
        "share": end.share.to_string(),
        "result": result,
        "to": to,
        "sees": sees,
        "reason": reason.or(masquerade),
        "rules": way.steps(end).map(rule).chain(policy).collect::<Vec<_>>(),
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
