//! `explain` with the rules of one source: prints paths of packets.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::arguments::RuleSettings;
use crate::cli::exit::ErrorReport;
use crate::cli::snapshot::{RuleOrigin, RuleSnapshot};
use crate::cli::terminal::{self, Progress};
use crate::config::{ExpectArg, ExplainArgs, GraphArg, OutputArg};
use crate::conntrack::{Filter, Flow};
use crate::host::{Conntrack, FlowError, FlowTable, KernelLookup};
use crate::inspect::explain::{self, Detail, Explanation, NodeRules};
use crate::net::IpFamily;
use crate::rules::HostLookup;

/// Prints the paths of packets.
///
/// # Errors
///
/// No rules can be read, nothing matches the destination, or it is not as `--expect` says.
pub(super) fn explain_source(args: &ExplainArgs, report: &ErrorReport) -> anyhow::Result<()> {
    let query = args.query()?;
    terminal::install_quiet_log()?;
    let settings = RuleSettings::read(&args.origin.desired)?;
    let snapshot = RuleSnapshot::load(&args.origin, &settings, report)?;
    let source = RulesSource {
        text: snapshot.origin.to_string(),
        observed_at: snapshot.observed_at,
        notes: snapshot.origin.note().into_iter().collect(),
    };
    for note in &source.notes {
        tracing::warn!("{}; {note}", source.text);
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
        (None, OutputArg::Json) => format!("{:#}\n", document(&explained, &source)),
        (None, OutputArg::Text) if args.verbose => explain::text(&explained, Detail::Full),
        (None, OutputArg::Text) => explain::text(&explained, Detail::Short),
    };
    terminal::stdout(|out| Ok(out.write_all(text.as_bytes())?))?;
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

/// Returns the explanations with the source of the rules.
fn document(explained: &[Explanation<'_>], source: &RulesSource) -> Value {
    let mut document = explain::json(explained);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("source".to_owned(), json!(source.text));
        fields.insert("observedAt".to_owned(), json!(source.observed_at));
        fields.insert("notes".to_owned(), json!(source.notes));
    }
    document
}

/// Source of the rules, and what they lack.
struct RulesSource {
    text: String,
    observed_at: Option<Timestamp>,
    notes: Vec<&'static str>,
}
