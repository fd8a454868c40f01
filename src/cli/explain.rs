//! `explain`: shows what happens to packets to an address or a Service, and why.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::exit::ErrorReport;
use super::snapshot::RuleSnapshot;
use super::terminal::{self, Progress};
use crate::config::{ExpectArg, ExplainArgs, GraphArg, OutputArg};
use crate::inspect::explain::{self, Detail, Explanation, NodeRules};
use crate::rules::Table;

/// Prints the paths of packets.
///
/// # Errors
///
/// No rules can be read, nothing matches the destination, or it is not as `--expect` says.
pub(super) fn explain(args: &ExplainArgs, report: &ErrorReport) -> anyhow::Result<()> {
    let query = args.query()?;
    terminal::install_quiet_log()?;
    let snapshot = RuleSnapshot::load(&args.origin, report)?;
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
    let mut addresses = snapshot.node_addresses;
    addresses.extend(args.node_ip.iter().map(IpAddr::to_canonical));
    // A family without a dump is unknown, which is not the same as without rules.
    let families = &snapshot.families;
    let pairs = snapshot.rules.as_ref().into_pairs().into_iter();
    let nodes: Vec<NodeRules<'_>> = pairs
        .filter(|(family, _)| families.contains(family))
        .map(|(family, rules)| {
            // A node may do without mangle; then it is not in a complete dump.
            let mut missing_tables = snapshot.missing_tables.get(family).clone();
            missing_tables.remove(&Table::Mangle);
            let node = NodeRules::new(rules, family, &addresses).without(missing_tables);
            let conflicts = snapshot.conflicts.get(family).lost.clone();
            let other_backend = snapshot.other_backends.get(family).as_ref();
            let other_backend = other_backend.map(|(backend, rules)| (*backend, rules));
            node.with_pods(*snapshot.pods.get(family))
                .with_conflicts(conflicts)
                .with_other_backend(other_backend)
        })
        .collect();
    let progress = Progress::start("tracing packets through the rules");
    let explained = explain::explain(&query, &nodes, &args.client_selection())?;
    drop(progress);
    let text = match (args.graph, args.output) {
        (Some(GraphArg::Tree), _) => explain::tree(&explained),
        (Some(GraphArg::Svg), _) => explain::svg(&explained),
        (None, OutputArg::Json) => format!("{:#}\n", document(&explained, &source)),
        (None, OutputArg::Text) if args.verbose => explain::text(&explained, Detail::Full),
        (None, OutputArg::Text) => explain::text(&explained, Detail::Short),
    };
    terminal::stdout(|out| Ok(out.write_all(text.as_bytes())?))?;
    check(args.expect, &explained)
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
