//! `explain`: shows what happens to packets to an address or a Service, and why; or, with
//! `--all-nodes`, for which packets the nodes of a cluster disagree.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};

use super::arguments::RuleSettings;
use super::cluster::{self, Agreement, Held, MAX_NAMES};
use super::exit::{self, ErrorReport};
use super::snapshot::{self, RuleOrigin, RuleSnapshot};
use super::terminal::{self, Progress};
use crate::config::{ExpectArg, ExplainArgs, GraphArg, OutputArg};
use crate::conntrack::{Filter, Flow};
use crate::host::{Conntrack, FlowError, FlowTable, KernelLookup};
use crate::inspect::explain::{
    self, ClientKind, ClientOutcome, Detail, Explanation, NodeRules, TracedPackets,
};
use crate::net::IpFamily;
use crate::rules::HostLookup;
use crate::text::first_of;

/// Prints the paths of packets, or the disagreements of all nodes. Returns the exit code.
pub(super) fn explain(args: &ExplainArgs, report: &ErrorReport) -> ExitCode {
    if args.all_nodes {
        exit::judged(compare_nodes(args, report), report)
    } else {
        exit::code(explain_source(args, report), report)
    }
}

/// Prints the paths of packets.
///
/// # Errors
///
/// No rules can be read, nothing matches the destination, or it is not as `--expect` says.
fn explain_source(args: &ExplainArgs, report: &ErrorReport) -> anyhow::Result<()> {
    let query = args.query()?;
    terminal::install_quiet_log()?;
    let settings = RuleSettings::read(&args.origin.desired)?;
    let snapshot = RuleSnapshot::load(&args.origin, &settings, report)?;
    if let Some(note) = snapshot.origin.note() {
        tracing::warn!("{}; {note}", snapshot.origin);
    }
    if let Some(absence) = snapshot.absence() {
        tracing::warn!("{absence}");
    }
    let nodes = with_routes(snapshot.node_rules(&args.node_ip), args, &snapshot.origin);
    let progress = Progress::start("tracing packets through the rules");
    let mut explained = explain::explain(&query, &nodes, &args.client_selection())?;
    let added = if snapshot.origin.is_of_this_node() {
        add_flows(&mut explained)
    } else {
        Ok(())
    };
    drop(progress);
    if let Err(cause) = added {
        tracing::warn!("{cause}: stale entries of UDP clients are not shown");
    }
    let text = match (args.graph, args.output.format) {
        (Some(GraphArg::Tree), _) => explain::tree(&explained),
        (Some(GraphArg::Svg), _) => explain::svg(&explained),
        (None, OutputArg::Json) => format!("{:#}\n", document(&explained, &snapshot)),
        (None, OutputArg::Text) if args.verbose => explain::text(&explained, Detail::Full),
        (None, OutputArg::Text) => explain::text(&explained, Detail::Short),
    };
    terminal::print(text)?;
    check(args.expect, &explained)
}

/// Adds the routes and IP sets that rules match: those of this node, or the interface of `--route`.
fn with_routes<'a>(
    nodes: Vec<NodeRules<'a>>,
    args: &ExplainArgs,
    origin: &RuleOrigin,
) -> Vec<NodeRules<'a>> {
    let add: Box<dyn Fn(NodeRules<'a>) -> NodeRules<'a>> = if let Some(interface) = &args.route {
        Box::new(|node: NodeRules<'a>| node.with_endpoint_interface(interface))
    } else if origin.is_of_this_node() {
        match KernelLookup::open() {
            Ok(lookup) => {
                let lookup: Arc<dyn HostLookup> = Arc::new(lookup);
                Box::new(move |node: NodeRules<'a>| node.with_host(Arc::clone(&lookup)))
            }
            Err(error) => {
                tracing::warn!("cannot read routes: {error}: rules about interfaces are unclear");
                return nodes;
            }
        }
    } else {
        return nodes;
    };
    nodes.into_iter().map(add).collect()
}

/// Adds the conntrack entries of UDP clients: their packets do not traverse the rules.
fn add_flows(explained: &mut [Explanation<'_>]) -> Result<(), FlowError> {
    let mut table = Conntrack::default();
    for explanation in explained {
        let Some(destination) = explanation.udp_frontend() else {
            continue;
        };
        let (family, filter) = (IpFamily::of(destination.ip()), Filter::To(destination));
        let mut read = |flow: &Flow| {
            if flow.destination == destination {
                explanation.add_flow(flow.reply_source);
            }
            // Nothing is deleted.
            false
        };
        table.sweep(family, &[filter], &mut read).1?;
    }
    Ok(())
}

/// Checks that the packets of all clients are as `--expect` says.
fn check(expected: Option<ExpectArg>, explained: &[Explanation<'_>]) -> anyhow::Result<()> {
    let (word, is_reachable) = match expected {
        None => return Ok(()),
        Some(ExpectArg::Reachable) => ("reachable", true),
        Some(ExpectArg::Unreachable) => ("unreachable", false),
    };
    let unexpected = explain::unexpected(explained, is_reachable);
    anyhow::ensure!(
        unexpected.is_empty(),
        "expected {word}: {}",
        unexpected.join("; ")
    );
    Ok(())
}

/// Returns the explanations with the source of the rules, and what these lack.
fn document(explained: &[Explanation<'_>], snapshot: &RuleSnapshot) -> Value {
    let mut document = explain::json(explained);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("source".to_owned(), json!(snapshot.origin.to_string()));
        fields.insert("observedAt".to_owned(), json!(snapshot.observed_at));
        let notes = snapshot.origin.note().into_iter();
        fields.insert("notes".to_owned(), notes.collect());
    }
    document
}

/// Prints the packets with different outcomes on different nodes. Returns whether there are none. A
/// node that is not read is an error in the report.
fn compare_nodes(args: &ExplainArgs, report: &ErrorReport) -> anyhow::Result<bool> {
    let query = args.query()?;
    terminal::install_quiet_log()?;
    let clients = args.client_selection();
    let options = RuleSettings::read(&args.origin.desired)?.api_options()?;
    let mut not_found = None;
    let agreement = snapshot::compare_rules(options, report, |snapshot| {
        let nodes = snapshot.node_rules(&[]);
        match explain::explain(&query, &nodes, &clients) {
            Ok(explained) => explain::outcomes(&query, &explained),
            Err(problem) => {
                // Other nodes may have rules for it.
                not_found = Some(problem);
                Vec::new()
            }
        }
    })?;
    if let Some(problem) = not_found.filter(|_| agreement.things() == 0) {
        return Err(problem.into());
    }
    let nodes = agreement.nodes();
    let outcomes: BTreeSet<&str> = agreement.values().map(|one| &*one.summary).collect();
    let agreed = format!(
        "{nodes} nodes agree: {}; `explain --node NAME` shows the paths of one",
        first_of(outcomes, MAX_NAMES)
    );
    cluster::print_disagreements(&lines(&agreement), &agreed)
}

/// Clients whose packets to a destination have the same outcomes, different ones on different
/// nodes.
struct Disagreement<'a> {
    to: &'a str,
    clients: Vec<ClientKind>,
    held: Vec<Held<'a, ClientOutcome>>,
}

/// Returns a line for each destination and each group of clients.
fn lines(agreement: &Agreement<TracedPackets, ClientOutcome>) -> Vec<String> {
    let mut all: Vec<Disagreement<'_>> = Vec::new();
    for (TracedPackets { to, from }, held) in agreement.disagreements() {
        let mut known = all.iter_mut();
        match known.find(|known| known.to == to && known.held == held) {
            Some(known) => known.clients.push(*from),
            None => all.push(Disagreement {
                to,
                clients: vec![*from],
                held,
            }),
        }
    }
    all.iter().map(Disagreement::line).collect()
}

impl Disagreement<'_> {
    /// Renders `10.96.0.10:80/tcp from outside: 209 nodes: 3 endpoints answer; node17: rejected: no
    /// endpoints`.
    fn line(&self) -> String {
        let clients = explain::client_kinds(&self.clients);
        let text = cluster::disagreement(&self.held, |held, most| {
            format!(": {}", outcome_text(held.value, most))
        });
        format!("{} from {clients}: {text}", self.to)
    }
}

/// Renders the outcome on some nodes. If its words are those of most nodes, the endpoints show the
/// difference.
fn outcome_text(outcome: Option<&ClientOutcome>, most: Option<&ClientOutcome>) -> String {
    let Some(outcome) = outcome else {
        return "no rules for it".to_owned();
    };
    let summary = &outcome.summary;
    match most {
        Some(most) if most.summary == *summary => {
            let others = outcome.endpoints.difference(&most.endpoints);
            format!("{summary}, with {}", first_of(others, MAX_NAMES))
        }
        _ => summary.clone(),
    }
}

#[cfg(test)]
#[path = "tests/explain.rs"]
mod tests;
