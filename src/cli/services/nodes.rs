//! `services --all-nodes`: prints on which endpoints the nodes of a cluster disagree.
//!
//! Compared are the endpoints for policy Cluster, which are the same on all nodes. Those for policy
//! Local differ by design.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::rows::{self, Row};
use super::single;
use crate::cli::arguments::RuleSettings;
use crate::cli::cluster::{self, Held, MAX_NAMES};
use crate::cli::exit::ErrorReport;
use crate::cli::snapshot;
use crate::cli::terminal;
use crate::config::ServicesArgs;
use crate::status::ServiceCondition;
use crate::text::{counted, first_of};

/// Endpoints of a service port, of both families.
type Endpoints = BTreeSet<SocketAddr>;

/// Prints the service ports that nodes disagree on. Returns whether there are none. A node that is
/// not read is an error in the report.
pub(super) fn compare_nodes(args: &ServicesArgs, report: &ErrorReport) -> anyhow::Result<bool> {
    terminal::install_quiet_log()?;
    let settings = RuleSettings::read(&args.origin.desired)?;
    let query = &single::query(args, &settings)?;
    let options = settings.api_options()?;
    let (mut named, mut not_ok) = (None, None::<BTreeSet<String>>);
    let agreement = snapshot::compare_rules(options, report, |snapshot| {
        let (rows, findings) = rows::rows(snapshot);
        if !matches!(named, Some(Ok(()))) {
            named = Some(rows::check(query, &rows, &findings));
        }
        let rows = rows::selected(rows, query);
        let problems = rows
            .iter()
            .filter(|row| row.status() != ServiceCondition::Ok);
        let problems = problems.map(|row| row.name.to_string()).collect();
        not_ok = Some(not_ok_on_all(not_ok.as_ref(), problems));
        let rows = rows.into_iter();
        rows.map(|row| (row.name.to_string(), of_row(&row)))
            .collect()
    })?;
    // Names that are unknown to all nodes.
    named.transpose()?;
    let disagreements = agreement.disagreements().into_iter();
    let lines: Vec<String> = disagreements
        .map(|(name, held)| line(name, &held))
        .collect();
    let (nodes, things) = (agreement.nodes(), agreement.things());
    let mut agreed = format!("{nodes} nodes agree on {}", counted(things, "service port"));
    // A Service may have the same problem on all nodes.
    if let Some(problems) = not_ok.filter(|names| !names.is_empty()) {
        agreed = format!(
            "{agreed}; not ok on all of them: {}",
            first_of(problems, MAX_NAMES)
        );
    }
    cluster::print_disagreements(&lines, &agreed)
}

/// Returns the names that are not ok on this node and on all before; `None`: it is the first one.
fn not_ok_on_all(
    before: Option<&BTreeSet<String>>,
    mut here: BTreeSet<String>,
) -> BTreeSet<String> {
    here.retain(|name| before.is_none_or(|names| names.contains(name)));
    here
}

fn of_row(row: &Row) -> Endpoints {
    let endpoints = row.views().flat_map(|(_, view)| &view.endpoints);
    let of_cluster = endpoints.filter(|endpoint| endpoint.cluster.is_some());
    of_cluster.map(|endpoint| endpoint.address).collect()
}

/// Renders a disagreement: `shop/web:http: 209 nodes have 3 endpoints; node17, node41 have 2`.
fn line(name: &str, held: &[Held<'_, Endpoints>]) -> String {
    let text = cluster::disagreement(held, |held, most| {
        let verb = if held.nodes.len() == 1 { "has" } else { "have" };
        format!(" {verb} {}", value_text(held.value, most))
    });
    format!("{name}: {text}")
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
            format!("{}, with {}", endpoints.len(), first_of(others, MAX_NAMES))
        }
        Some(_) => endpoints.len().to_string(),
        None if endpoints.len() == 1 => "1 endpoint".to_owned(),
        None => format!("{} endpoints", endpoints.len()),
    }
}

#[cfg(test)]
#[path = "tests/nodes.rs"]
mod tests;
