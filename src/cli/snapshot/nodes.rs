//! Reads the rules of other nodes of a cluster, through the API server: those of one, or what a
//! command compares of all.
//!
//! Most nodes have the same rules, byte for byte, and parsing them takes far longer than comparing
//! their text: what was found in some rules is found in the same ones again.

use std::iter;

use super::recorded;
use super::rules_page::DaemonRules;
use super::{RuleOrigin, RuleSnapshot};
use crate::cli::cluster::{self, Agreement, NodeAnswer, NodeProblem};
use crate::cli::exit::ErrorReport;
use crate::cli::terminal::{Progress, escaped};
use crate::host::BackendChoice;
use crate::net::IpFamily;
use crate::rules::RuleSet;
use crate::watch::api::{ApiOptions, PodRole, ProxyPod};

/// Reads the rules of a node.
///
/// # Errors
///
/// The node, its Pod or the way to it, with a hint.
pub(in crate::cli) fn of_node(options: ApiOptions, node: &str) -> anyhow::Result<RuleSnapshot> {
    let (pod, answer) = cluster::block_on(options, async |cluster| {
        let pod = cluster.pod(node).await?;
        let _progress = Progress::waiting_for(format!("waiting for node {node}"));
        let answer = cluster.rules(&pod).await;
        let answer = answer.map_err(|problem| anyhow::anyhow!("node `{node}`: {problem}"))?;
        Ok((pod, answer))
    })?;
    of_answer(&pod, answer)
}

/// Reads the rules in the answer of a node.
fn of_answer(pod: &ProxyPod, answer: NodeAnswer) -> anyhow::Result<RuleSnapshot> {
    let node = &pod.node;
    match answer {
        NodeAnswer::Page(page) => of_page(node, page_of_node(node, page)),
        NodeAnswer::Saved(texts) => {
            let origin = RuleOrigin::Exec {
                node: node.clone(),
                pod: pod.name.to_string(),
            };
            // A family without rules has no output.
            let texts = texts.into_iter().filter(|text| !text.trim().is_empty());
            let texts = texts.map(|text| Ok((node.clone(), escaped(&text).into_owned())));
            recorded::dumps(origin, texts)
        }
    }
}

/// Reads the page of another node, and warns of rules of a proxy in the backend that deltaproxy
/// does not use there. `None` as for [`DaemonRules::read`].
pub(super) fn page_of_node(node: &str, page: String) -> Option<DaemonRules<String>> {
    let page = DaemonRules::read(iter::once(page), BackendChoice::Auto, |_, rules| {
        Some(rules.collect::<String>())
    })?;
    for (family, backend) in page.other_backends() {
        tracing::warn!(
            "node `{node}`, {family}: backend {backend} has rules of a proxy as well, which are not \
             shown; packets traverse both"
        );
    }
    Some(page)
}

/// Parses the rules on the page of another node.
///
/// # Errors
///
/// The page lacks rules, or some of them cannot be parsed.
pub(super) fn of_page(
    node: &str,
    page: Option<DaemonRules<String>>,
) -> anyhow::Result<RuleSnapshot> {
    let parse = |text: String| RuleSet::parse(&text).ok();
    let snapshot = page.and_then(|page| page.snapshot(RuleOrigin::OtherDaemon, parse));
    snapshot.ok_or_else(|| {
        anyhow::anyhow!(
            "node `{node}`: deltaproxy does not know all rules there, or has not written them yet\n\
             hint: see `deltaproxy status --node {node}`; on the node, --kernel reads them"
        )
    })
}

/// Compares the rules of all nodes by what `read` finds in them. A node that does not answer, or
/// whose proxy has another mode, is an error in the report.
///
/// # Errors
///
/// The API server does not list nodes, or none of them has answered.
pub(in crate::cli) fn compare_rules<K: Ord + Clone, V: PartialEq + Clone>(
    options: ApiOptions,
    report: &ErrorReport,
    mut read: impl FnMut(&RuleSnapshot) -> Vec<(K, V)>,
) -> anyhow::Result<Agreement<K, V>> {
    let mut agreement = Agreement::default();
    let mut failed = Vec::new();
    let mut found = KnownRules::default();
    cluster::block_on(options, async |cluster| {
        let pods = cluster.pods(PodRole::Proxy, None).await?;
        let ask = async |pod| cluster.rules(pod).await;
        let answered = |pod: &ProxyPod, answer| match found.read(pod, answer, &mut read) {
            Ok(things) => agreement.add(&pod.node, things),
            Err(problem) => failed.push(problem.to_string()),
        };
        cluster::for_each_bounded(&pods, ask, answered).await;
        Ok(())
    })?;
    failed.sort();
    for problem in failed.iter().take(MAX_FAILED) {
        report.print_one(problem);
    }
    if failed.len() > MAX_FAILED {
        let more = failed.len() - MAX_FAILED;
        report.print_one(&format_args!("{more} more nodes were not read"));
    }
    anyhow::ensure!(agreement.nodes() > 0, "no node was read");
    Ok(agreement)
}

/// Maximum failures that are printed: a network that is down is the same one for all nodes.
const MAX_FAILED: usize = 10;

/// Maximum rulesets that are kept: one for each zone of a cluster, as hints make rules differ by
/// zone, and one of a node that is behind.
const MAX_KNOWN: usize = 4;

/// Rulesets that daemons have, and what was found in them. The last one is first.
#[derive(Default)]
struct KnownRules<T>(Vec<(Vec<(IpFamily, String)>, T)>);

impl<T: Clone> KnownRules<T> {
    /// Returns what is found in the rules of a node.
    fn read(
        &mut self,
        pod: &ProxyPod,
        answer: Result<NodeAnswer, NodeProblem>,
        read: impl FnOnce(&RuleSnapshot) -> T,
    ) -> anyhow::Result<T> {
        let node = &pod.node;
        let answer = answer.map_err(|problem| anyhow::anyhow!("node `{node}`: {problem}"))?;
        let (texts, snapshot) = match answer {
            NodeAnswer::Page(text) => {
                let page = page_of_node(node, text);
                if let Some(page) = &page
                    && let Some((_, found)) = self.0.iter().find(|(known, _)| *known == page.rules)
                {
                    return Ok(found.clone());
                }
                let texts = page.as_ref().map(|page| page.rules.clone());
                (texts, of_page(node, page)?)
            }
            // Rules that other programs print have the time, and counters.
            saved @ NodeAnswer::Saved(_) => (None, of_answer(pod, saved)?),
        };
        if let Some(absence) = snapshot.absence() {
            anyhow::bail!("node `{node}`: {absence}");
        }
        let found = read(&snapshot);
        if let Some(texts) = texts {
            self.0.insert(0, (texts, found.clone()));
            self.0.truncate(MAX_KNOWN);
        }
        Ok(found)
    }
}

#[cfg(test)]
#[path = "tests/nodes.rs"]
mod tests;
