//! Reads the rules of all nodes of a cluster, and what a command compares of them.
//!
//! Most nodes have the same rules, byte for byte, and parsing them takes far longer than comparing
//! their text: what was found in some rules is found in the same ones again.

use super::RuleSnapshot;
use super::daemon::UnparsedRules;
use super::node::{of_answer, of_page, page_of_node};
use crate::cli::cluster::{self, Agreement, NodeAnswer, NodeProblem};
use crate::cli::exit::ErrorReport;
use crate::net::IpFamily;
use crate::watch::api::{ApiOptions, PodRole, ProxyPod};

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
        let answered = |pod: &ProxyPod, answer| match found.read(pod, answer, report, &mut read) {
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
struct KnownRules<T>(Vec<(Vec<(IpFamily, String)>, T)>);

impl<T> Default for KnownRules<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone> KnownRules<T> {
    /// Returns what is found in the rules of a node.
    fn read(
        &mut self,
        pod: &ProxyPod,
        answer: Result<NodeAnswer, NodeProblem>,
        report: &ErrorReport,
        read: impl FnOnce(&RuleSnapshot) -> T,
    ) -> anyhow::Result<T> {
        let node = &pod.node;
        let answer = answer.map_err(|problem| anyhow::anyhow!("node `{node}`: {problem}"))?;
        let (texts, snapshot) = match &answer {
            // Rules that other programs print have the time, and counters.
            NodeAnswer::Saved(_) => (None, of_answer(pod, answer, report)?),
            NodeAnswer::Page(text) => {
                let page = page_of_node(node, text);
                if let Some(page) = &page
                    && let Some((_, found)) = self.0.iter().find(|(known, _)| is_of(known, page))
                {
                    return Ok(found.clone());
                }
                let texts = page.as_ref().map(texts);
                (texts, of_page(node, page)?)
            }
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

/// Reports whether these are the rules on a page.
fn is_of(texts: &[(IpFamily, String)], page: &UnparsedRules<'_>) -> bool {
    let texts = texts.iter().map(|(family, text)| (*family, text.as_str()));
    texts.eq(page.texts().iter().copied())
}

fn texts(page: &UnparsedRules<'_>) -> Vec<(IpFamily, String)> {
    let texts = page.texts().iter();
    let texts = texts.map(|(family, text)| (*family, (*text).to_owned()));
    texts.collect()
}

#[cfg(test)]
#[path = "tests/all_nodes.rs"]
mod tests;
