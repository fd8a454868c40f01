//! Reads the rules of another node, through the API server.

use std::collections::BTreeSet;

use super::recorded;
use super::{RuleOrigin, RuleSnapshot, daemon};
use crate::cli::cluster::{self, NodeAnswer};
use crate::cli::exit::ErrorReport;
use crate::cli::terminal::{Progress, escaped};
use crate::host::BackendChoice;
use crate::watch::api::{ApiOptions, ProxyPod};

/// Reads the rules of a node.
///
/// # Errors
///
/// The node, its Pod or the way to it, with a hint.
pub(super) fn snapshot(
    options: ApiOptions,
    node: &str,
    report: &ErrorReport,
) -> anyhow::Result<RuleSnapshot> {
    let (pod, answer) = cluster::block_on(options, async |cluster| {
        let pod = cluster.pod(node).await?;
        let _progress = Progress::start(format!("waiting for node {node}"));
        let answer = cluster.ask(&pod, "/rules").await;
        let answer = answer.map_err(|problem| anyhow::anyhow!("node `{node}`: {problem}"))?;
        Ok((pod, answer))
    })?;
    of_answer(&pod, answer, report)
}

/// Reads the rules of all nodes, each as it answers. A node that does not, or whose proxy has
/// another mode, is an error in the report.
///
/// # Errors
///
/// The API server does not list nodes, or none of them has answered.
pub(in crate::cli) fn of_all_nodes(
    options: ApiOptions,
    report: &ErrorReport,
    mut take: impl FnMut(&str, RuleSnapshot),
) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    let asked = cluster::block_on(options, async |cluster| {
        let pods = cluster.pods(None).await?;
        let ask = cluster.ask_all(&pods, "/rules", |pod, answer| {
            let read = answer
                .map_err(|problem| anyhow::anyhow!("node `{}`: {problem}", pod.node))
                .and_then(|answer| of_answer(pod, answer, report));
            match read.map(|snapshot| (snapshot.absence(), snapshot)) {
                Ok((None, snapshot)) => take(&pod.node, snapshot),
                Ok((Some(absence), _)) => failed.push(format!("node `{}`: {absence}", pod.node)),
                Err(problem) => failed.push(problem.to_string()),
            }
        });
        ask.await;
        Ok(pods.len())
    })?;
    failed.sort();
    for problem in failed.iter().take(MAX_FAILED) {
        report.print_one(problem);
    }
    if failed.len() > MAX_FAILED {
        let more = failed.len() - MAX_FAILED;
        report.print_one(&format_args!("{more} more nodes were not read"));
    }
    anyhow::ensure!(failed.len() < asked, "no node was read");
    Ok(())
}

/// Maximum failures that are printed: a network that is down is the same one for all nodes.
const MAX_FAILED: usize = 10;

/// Reads the rules in the answer of a node.
fn of_answer(
    pod: &ProxyPod,
    answer: NodeAnswer,
    report: &ErrorReport,
) -> anyhow::Result<RuleSnapshot> {
    let node = &pod.node;
    match answer {
        NodeAnswer::Page(page) => {
            let read = daemon::read(&escaped(&page), BackendChoice::Auto, BTreeSet::new());
            read.ok_or_else(|| {
                anyhow::anyhow!(
                    "node `{node}`: deltaproxy does not know all rules there, or has not written \
                     them yet\n\
                     hint: see `deltaproxy status --node {node}`; on the node, --kernel reads them"
                )
            })
        }
        NodeAnswer::Saved(texts) => {
            let origin = RuleOrigin::Exec {
                node: node.clone(),
                pod: pod.name.to_string(),
            };
            // A family without rules has no output.
            let texts = texts.into_iter().filter(|text| !text.trim().is_empty());
            let texts = texts.map(|text| Ok((node.clone(), escaped(&text).into_owned())));
            recorded::dumps(origin, texts, report)
        }
    }
}
