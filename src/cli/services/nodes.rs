//! `services --all-nodes`: prints on which endpoints the nodes of a cluster disagree.
//!
//! Compared are the endpoints for policy Cluster, which are the same on all nodes. Those for policy
//! Local differ by design.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;

use super::query;
use super::rows::{self, Row};
use crate::cli::arguments::RuleSettings;
use crate::cli::cluster::{self, Agreement, Held, NodeAnswer, NodeProblem};
use crate::cli::exit::{ComparisonResult, ErrorReport};
use crate::cli::snapshot;
use crate::cli::terminal;
use crate::config::ServicesArgs;
use crate::inspect::catalog::{PortQuery, first_of};
use crate::watch::api::ProxyPod;

/// Endpoints of a service port, of both families.
type Endpoints = BTreeSet<SocketAddr>;

/// Prints the service ports that nodes disagree on. A node that does not answer is an error in the
/// report.
pub(super) fn compare_nodes(
    args: &ServicesArgs,
    report: &ErrorReport,
) -> anyhow::Result<ComparisonResult> {
    terminal::install_quiet_log()?;
    let query = &query::read(args)?;
    let options = RuleSettings::read(&args.origin.desired)?.api_options()?;
    let mut agreement = Agreement::default();
    let mut failed = Vec::new();
    cluster::block_on(options, async |cluster| {
        let pods = cluster.pods(None).await?;
        let asked = cluster.ask_all(&pods, "/rules", |pod, answer| {
            match endpoints(pod, answer, query, report) {
                Ok(endpoints) => agreement.add(&pod.node, endpoints),
                Err(problem) => failed.push(format!("node `{}`: {problem}", pod.node)),
            }
        });
        asked.await;
        Ok(())
    })?;
    print_failed(&failed, report);
    anyhow::ensure!(agreement.nodes() > 0, "no node answered");
    let disagreements = agreement.disagreements();
    let mut text = String::new();
    for (name, held) in &disagreements {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line(name, held));
    }
    if disagreements.is_empty() {
        let (nodes, things) = (agreement.nodes(), agreement.things());
        let _ = writeln!(text, "{nodes} nodes agree on {things} service ports");
    }
    terminal::stdout(|out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(if disagreements.is_empty() {
        ComparisonResult::Equal
    } else {
        ComparisonResult::Different
    })
}

/// Maximum failures that are printed: a network that is down is the same one for all nodes.
const MAX_FAILED: usize = 10;

fn print_failed(failed: &[String], report: &ErrorReport) {
    for problem in failed.iter().take(MAX_FAILED) {
        report.print_one(problem);
    }
    if failed.len() > MAX_FAILED {
        let more = failed.len() - MAX_FAILED;
        report.print_one(&format_args!("{more} more nodes did not answer"));
    }
}

/// Returns the endpoints of each service port that a query selects on a node.
fn endpoints(
    pod: &ProxyPod,
    answer: Result<NodeAnswer, NodeProblem>,
    query: &PortQuery,
    report: &ErrorReport,
) -> anyhow::Result<Vec<(String, Endpoints)>> {
    let snapshot = snapshot::of_answer(pod, answer?, report)?;
    let (rows, _) = rows::rows(&snapshot);
    let rows = rows::selected(rows, query).into_iter();
    Ok(rows
        .map(|row| (row.name.to_string(), of_row(&row)))
        .collect())
}

fn of_row(row: &Row) -> Endpoints {
    let endpoints = row.views().flat_map(|(_, view)| &view.endpoints);
    let of_cluster = endpoints.filter(|endpoint| endpoint.cluster.is_some());
    of_cluster.map(|endpoint| endpoint.address).collect()
}

/// Maximum names of nodes and addresses in a line.
const MAX_NAMES: usize = 8;

/// Renders a disagreement: `shop/web:http: 209 nodes have 3 endpoints; node17, node41 have 2`.
fn line(name: &str, held: &[Held<'_, Endpoints>]) -> String {
    let mut text = format!("{name}: ");
    let most = held.first().and_then(|most| most.value);
    for (index, held) in held.iter().enumerate() {
        if index > 0 {
            text.push_str("; ");
        }
        let nodes = held.nodes.len();
        // Writing to a String cannot fail.
        let _ = match held.nodes.as_slice() {
            [node] => write!(text, "{node} has "),
            _ if index == 0 => write!(text, "{nodes} nodes have "),
            names => write!(
                text,
                "{} have ",
                first_of(names.iter().map(ToString::to_string), MAX_NAMES)
            ),
        };
        text.push_str(&value_text(held.value, most.filter(|_| index > 0)));
    }
    text
}

/// Renders the endpoints of some nodes, beside those that most have. If their number is the same,
/// the addresses show the difference.
fn value_text(value: Option<&Endpoints>, most: Option<&Endpoints>) -> String {
    let Some(endpoints) = value else {
        return "no rules".to_owned();
    };
    match most {
        Some(most) if most.len() == endpoints.len() => {
            let others = endpoints.difference(most);
            format!(
                "{}, with {}",
                endpoints.len(),
                first_of(others.map(ToString::to_string), MAX_NAMES)
            )
        }
        Some(_) => endpoints.len().to_string(),
        None if endpoints.len() == 1 => "1 endpoint".to_owned(),
        None => format!("{} endpoints", endpoints.len()),
    }
}

#[cfg(test)]
#[path = "tests/nodes.rs"]
mod tests;
