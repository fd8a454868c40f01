//! Reads the rules of another node, through the API server.

use super::daemon::UnparsedRules;
use super::recorded;
use super::{RuleOrigin, RuleSnapshot};
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
        let _progress = Progress::waiting_for(format!("waiting for node {node}"));
        let answer = cluster.rules(&pod).await;
        let answer = answer.map_err(|problem| anyhow::anyhow!("node `{node}`: {problem}"))?;
        Ok((pod, answer))
    })?;
    of_answer(&pod, answer, report)
}

/// Reads the rules in the answer of a node.
pub(super) fn of_answer(
    pod: &ProxyPod,
    answer: NodeAnswer,
    report: &ErrorReport,
) -> anyhow::Result<RuleSnapshot> {
    let node = &pod.node;
    match answer {
        NodeAnswer::Page(page) => of_page(node, page_of_node(node, &page)),
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

/// Reads the page of another node, and warns of rules of a proxy in the backend that deltaproxy
/// does not use there. `None` as for [`UnparsedRules::read`].
pub(super) fn page_of_node<'p>(node: &str, page: &'p str) -> Option<UnparsedRules<'p>> {
    let page = UnparsedRules::read(page, BackendChoice::Auto)?;
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
/// There is no page with all rules.
pub(super) fn of_page(node: &str, page: Option<UnparsedRules<'_>>) -> anyhow::Result<RuleSnapshot> {
    let snapshot = page.and_then(|page| page.parse(RuleOrigin::OtherDaemon));
    snapshot.ok_or_else(|| {
        anyhow::anyhow!(
            "node `{node}`: deltaproxy does not know all rules there, or has not written them yet\n\
             hint: see `deltaproxy status --node {node}`; on the node, --kernel reads them"
        )
    })
}
