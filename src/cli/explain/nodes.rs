//! `explain --all-nodes`: prints for which packets the nodes of a cluster disagree.

use std::fmt::Write as _;

use crate::cli::arguments::RuleSettings;
use crate::cli::cluster::{self, Agreement, Held, MAX_NAMES};
use crate::cli::exit::{ComparisonResult, ErrorReport};
use crate::cli::snapshot;
use crate::cli::terminal;
use crate::config::ExplainArgs;
use crate::inspect::catalog::first_of;
use crate::inspect::explain::{self, ClientKind, ClientOutcome, TracedPackets};

/// Prints the packets with different outcomes on different nodes. A node that is not read is an
/// error in the report.
pub(super) fn compare_nodes(
    args: &ExplainArgs,
    report: &ErrorReport,
) -> anyhow::Result<ComparisonResult> {
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
    let agreed = format!("{nodes} nodes agree: `explain --node NAME` shows the paths of one");
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
        let mut text = format!("{} from {clients}:", self.to);
        let most = self.held.first().and_then(|most| most.value);
        for (index, held) in self.held.iter().enumerate() {
            let separator = if index == 0 { "" } else { ";" };
            let nodes = held.nodes_text(index == 0);
            let outcome = outcome_text(held.value, most.filter(|_| index > 0));
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator} {nodes}: {outcome}");
        }
        text
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
            let others = first_of(others.map(ToString::to_string), MAX_NAMES);
            format!("{summary}, with {others}")
        }
        _ => summary.clone(),
    }
}

#[cfg(test)]
#[path = "tests/nodes.rs"]
mod tests;
