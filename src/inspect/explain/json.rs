//! Renders explanations as JSON.
//!
//! The keys are an interface: keys may be added, but not renamed. `deploy/docs/schema/explain.json`
//! is the schema.

use std::net::IpAddr;

use serde::Serialize;
use serde_json::{Value, json};

use super::client::Client;
#[cfg(test)]
use super::client::ClientKind;
use super::explanation::Explanation;
use super::node::AddressOrigin;
use super::path::{Branch, PacketPath, SeenSource, SharedRules};
use super::phrases::{self, ResultWords};
use super::traversed::TraversedRules;
use crate::inspect::catalog::FrontendConflict;
#[cfg(test)]
use crate::inspect::catalog::FrontendKind;
use crate::rules::Step;
#[cfg(test)]
use crate::rules::TracedTable;

/// Paths of packets to the destinations of a query. Fields may be added.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "deltaproxy explain --output json"))]
struct ExplainDocument<'a> {
    destinations: Vec<DestinationDocument<'a>>,
}

/// Destination of packets, and the paths to it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct DestinationDocument<'a> {
    /// Destination address of the packets.
    address: IpAddr,
    /// Destination port of the packets.
    port: u16,
    /// Transport protocol in lower case.
    #[cfg_attr(test, schemars(extend("enum" = ["tcp", "udp", "sctp"])))]
    protocol: &'static str,
    /// Service ports with a frontend at the destination.
    services: Vec<DestinationService<'a>>,
    /// Service ports of which the destination is an endpoint.
    endpoint_of: Vec<String>,
    /// Timeout of session affinity in seconds; null without affinity.
    affinity_seconds: Option<u64>,
    /// Networks in `loadBalancerSourceRanges`; empty if clients are not limited.
    source_ranges: Vec<String>,
    /// Service ports that request the frontend without effect, because another Service has it.
    conflicts: Vec<DestinationConflict<'a>>,
    /// Similar destinations, if no Service has this one.
    near: Vec<String>,
    /// An address of the node is known; otherwise one is assumed.
    node_address_known: bool,
    /// The destination address is an assumed address of the node.
    address_assumed: bool,
    /// Addresses that rules show to be the node's; empty if its addresses are known.
    node_addresses_inferred: Vec<String>,
    /// Addresses that would change the result if they were the node's; empty if its addresses are
    /// known.
    possible_node_addresses: Vec<String>,
    /// An address of a Pod is known; otherwise there are no paths from a Pod.
    pod_address_known: bool,
    /// Tables that the dump lacks; their rules may match the packets.
    missing_tables: Vec<String>,
    /// Unknown tables that have rules, which are not evaluated.
    tables_not_read: &'a [Box<str>],
    /// Number of rules that cannot be read; each may be of the destination.
    unreadable_rules: usize,
    /// Paths of the packets of different clients.
    ways: Vec<PathDocument<'a>>,
}

/// Service port with a frontend at the destination.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DestinationService<'a> {
    /// Name of the service port, as in shop/web:http; in namespace `<unknown>` the hash in names
    /// of its chains, if the rules do not show its name.
    name: &'a str,
    /// Kind of the frontend.
    #[cfg_attr(test, schemars(extend("enum" = FrontendKind::ALL.map(FrontendKind::as_str))))]
    kind: &'static str,
}

/// Service port that requests the frontend without effect.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DestinationConflict<'a> {
    /// Name of the service port, as in shop/web:http.
    name: &'a str,
    /// Kind of the frontend.
    #[cfg_attr(test, schemars(extend("enum" = FrontendKind::ALL.map(FrontendKind::as_str))))]
    kind: &'static str,
    /// Namespace and name of the Service that has the frontend.
    owner: &'a str,
}

/// Path of the packets of clients with equal results.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct PathDocument<'a> {
    /// Clients that send the packets.
    clients: Vec<ClientDocument<'a>>,
    /// Kind of the client whose rules are listed, if clients traverse different ones.
    rules_of: Option<&'static str>,
    /// Result in one human-readable line.
    summary: String,
    /// Results, one for each random choice of the rules.
    outcomes: Vec<OutcomeDocument<'a>>,
    /// An endpoint that reaches itself is masqueraded, while these clients are not.
    hairpin_masqueraded: bool,
    /// Rules that cannot be evaluated and could change the outcomes.
    unsure: Vec<StepDocument<'a>>,
    /// The rules have too many paths, so that not every combination of the rules in `unsure` was
    /// tried.
    cut_off: bool,
    /// Missing jumps and rules of fixed chains that the packets depend on, human-readable.
    broken: Vec<String>,
    /// Rules that the kernel evaluates for the first packet of the first client; null if the packet
    /// cannot be traced to its end.
    traversed: Option<TraversedRules>,
}

/// Client that represents those of its kind.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ClientDocument<'a> {
    /// Kind of the client: a Pod, the node itself, a client outside of the cluster, one of these
    /// within `loadBalancerSourceRanges` (admitted), or the address of `--source`.
    #[cfg_attr(test, schemars(extend("enum" = ClientKind::ALL.map(phrases::kind))))]
    kind: &'static str,
    /// Source address of its packets.
    address: IpAddr,
    /// The address is an example, or an assumption about the node.
    assumed: bool,
    /// Interface by which its packets enter the node, if known.
    interface: Option<&'a str>,
}

/// Result for the packets that one random choice selects.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct OutcomeDocument<'a> {
    /// Fraction of new connections, such as 1/3.
    share: String,
    /// Served by an endpoint, unanswered (delivered to an endpoint whose reply is lost), local
    /// (delivered to this node), routed (as without rules), dropped, rejected or unclear. If it is
    /// unclear because of rules that cannot be evaluated, the reason
    /// and the other fields have the outcome for packets that these rules do not match.
    #[cfg_attr(test, schemars(extend(
        "enum" = ["served", "unanswered", "local", "routed", "dropped", "rejected", "unclear"]
    )))]
    result: &'static str,
    /// Address and port of the endpoint; null if the packets reach none.
    to: Option<String>,
    /// Source address that the receiver sees: that of the client, of the node or another one.
    #[cfg_attr(test, schemars(extend("enum" = ["client", "node", "other", null])))]
    sees: Option<&'static str>,
    /// Reason for the result or for the source address, human-readable.
    reason: Option<String>,
    /// Rules that the packets match, in order. If the policy of a chain drops them, the last entry
    /// is that chain, with an empty rule.
    rules: Vec<StepDocument<'a>>,
    /// Rules that the reply to these packets matches, in order, if it is lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reply_rules: Vec<StepDocument<'a>>,
}

/// Rule that packets match.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StepDocument<'a> {
    /// Table of the chain.
    #[cfg_attr(test, schemars(extend("enum" = TracedTable::ALL.map(TracedTable::as_str))))]
    table: &'static str,
    /// Name of the chain.
    chain: &'a str,
    /// Rule as iptables-save prints it, without the chain; empty for the policy of the chain.
    rule: String,
    /// Comment of the rule.
    comment: Option<&'a str>,
    /// Policy of the chain; absent for a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(extend("enum" = ["DROP"])))]
    policy: Option<&'static str>,
}

/// Renders one object; keys are sorted, and lists are in the order of the rules.
pub(crate) fn json(explanations: &[Explanation<'_>]) -> Value {
    json!(ExplainDocument {
        destinations: explanations.iter().map(destination).collect(),
    })
}

fn destination<'a>(explanation: &'a Explanation<'_>) -> DestinationDocument<'a> {
    let Explanation {
        to,
        paths,
        affinity,
        source_ranges,
        conflicts,
        suggestions,
        is_node_address_assumed,
        assumed_node_ip: _,
        inferred_node_ips,
        possible_node_ips,
        destination_origin,
        unreadable_rules,
        lacks_pod_address,
        missing_tables,
        unread_tables,
    } = explanation;
    let frontends = to.frontends.iter();
    let services = frontends.map(|frontend| DestinationService {
        name: &frontend.name.name,
        kind: frontend.kind.as_str(),
    });
    DestinationDocument {
        address: to.ip,
        port: to.port.get(),
        protocol: to.protocol.as_str(),
        services: services.collect(),
        endpoint_of: texts(to.endpoint_of.iter().map(|port| &port.name)),
        affinity_seconds: affinity.map(|time| time.as_secs()),
        source_ranges: texts(source_ranges),
        conflicts: conflicts.iter().map(conflict).collect(),
        near: texts(suggestions),
        node_address_known: !is_node_address_assumed,
        address_assumed: *destination_origin == AddressOrigin::Invented,
        node_addresses_inferred: texts(inferred_node_ips),
        possible_node_addresses: texts(possible_node_ips),
        pod_address_known: !lacks_pod_address,
        missing_tables: texts(missing_tables),
        tables_not_read: unread_tables,
        unreadable_rules: *unreadable_rules,
        ways: paths.iter().map(|one| path(explanation, one)).collect(),
    }
}

fn texts<T: ToString>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    all.into_iter().map(|one| one.to_string()).collect()
}

fn conflict(conflict: &FrontendConflict) -> DestinationConflict<'_> {
    DestinationConflict {
        name: &conflict.loser.name,
        kind: conflict.kind.as_str(),
        owner: &conflict.owner,
    }
}

fn path<'a>(explanation: &Explanation<'_>, path: &'a PacketPath<'_>) -> PathDocument<'a> {
    let first = path.clients.first();
    let branches = path.branches.iter();
    PathDocument {
        clients: path.clients.iter().map(client).collect(),
        rules_of: first
            .filter(|_| path.shared_rules != SharedRules::All)
            .map(|client| phrases::kind(client.kind)),
        summary: phrases::summary(explanation, path),
        outcomes: branches
            .map(|one| outcome(explanation, path, one))
            .collect(),
        hairpin_masqueraded: path.has_hairpin,
        unsure: path.undecided.iter().map(step).collect(),
        cut_off: path.is_cut_off,
        broken: texts(&path.gaps),
        traversed: path.traversed,
    }
}

fn client(client: &Client) -> ClientDocument<'_> {
    ClientDocument {
        kind: phrases::kind(client.kind),
        address: client.ip,
        assumed: client.origin == AddressOrigin::Invented,
        interface: client.in_interface.as_deref(),
    }
}

fn outcome<'a>(
    explanation: &Explanation<'_>,
    path: &'a PacketPath<'_>,
    branch: &'a Branch<'_>,
) -> OutcomeDocument<'a> {
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
    let policy = branch.policy().map(|(table, chain)| StepDocument {
        table: table.as_str(),
        chain,
        rule: String::new(),
        comment: None,
        policy: Some("DROP"),
    });
    let reason = match (reason, masquerade) {
        (Some(reason), Some(masquerade)) => Some(format!("{reason}; {masquerade}")),
        (reason, masquerade) => reason.or(masquerade),
    };
    let (result, reason) = if let Some(condition) = phrases::condition(path, branch) {
        let (before, after) = match &reason {
            Some(reason) => (": ", reason.as_str()),
            None => ("", ""),
        };
        let text = format!("{result} {condition}{before}{after}");
        ("unclear", Some(text))
    } else {
        (result, reason)
    };
    OutcomeDocument {
        share: branch.share.to_string(),
        result,
        to: to.map(|to| to.to_string()),
        sees,
        reason,
        rules: path.steps(branch).map(step).chain(policy).collect(),
        reply_rules: branch.reply_steps.iter().map(step).collect(),
    }
}

fn step<'a>(step: &'a Step<'_>) -> StepDocument<'a> {
    StepDocument {
        table: step.table.as_str(),
        chain: step.chain,
        rule: step.rule.to_string(),
        comment: step.rule.comment(),
        policy: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_explanations_is_recorded() {
        crate::schema::assert_recorded::<ExplainDocument<'_>>("explain");
    }
}
