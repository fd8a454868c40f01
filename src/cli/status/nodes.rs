//! `status --all-nodes`: a line for each node, those that are not well first.
//!
//! Only the line of each document is kept, as there may be thousands.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::Serialize;

use super::source::StatusPage;
use crate::cli::cluster::{self, NodeProblem};
use crate::cli::terminal;
use crate::config::{OutputArg, StatusArgs, environment};
use crate::status::StatusDocument;
use crate::watch::api::{PodRole, ProxyPod};

/// State of a node, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum NodeVerdict {
    /// The node does not do its work.
    Failure,
    /// The node did not answer.
    Unknown,
    /// Single Services or sources are concerned.
    Finding,
    /// The node runs another proxy.
    Other,
    /// Nothing is known to be wrong.
    Well,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeLine {
    node: String,
    state: NodeVerdict,
    /// Version of deltaproxy, and the backends of the families; empty if it did not answer.
    version: String,
    backend: String,
    /// Problems, the worst first.
    problems: Vec<String>,
    /// Next step for the first problem.
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

impl NodeLine {
    /// Returns the line of a node that gave this answer; `None` is that of kube-proxy.
    fn new(node: &str, answer: Result<Option<String>, NodeProblem>) -> Self {
        let line = |state, problem: String, hint: String| Self {
            node: node.to_owned(),
            state,
            version: String::new(),
            backend: String::new(),
            problems: vec![problem],
            hint,
        };
        match answer {
            Ok(Some(page)) => match StatusPage::parse(page) {
                Ok(page) => Self::of_document(node, page.document),
                Err(problem) => line(NodeVerdict::Unknown, problem.to_owned(), String::new()),
            },
            Ok(None) => line(
                NodeVerdict::Other,
                "kube-proxy, which has no status".to_owned(),
                String::new(),
            ),
            Err(NodeProblem { problem, hint }) => line(NodeVerdict::Unknown, problem, hint),
        }
    }

    fn of_document(node: &str, document: StatusDocument) -> Self {
        let is_failing = document.problems.iter().any(|problem| problem.is_failure);
        let state = if is_failing {
            NodeVerdict::Failure
        } else if document.is_well() {
            NodeVerdict::Well
        } else {
            NodeVerdict::Finding
        };
        let families = document.families.iter();
        let families = families.filter(|family| !family.is_disabled);
        let mut backends: Vec<&str> = families.map(|family| family.backend.as_str()).collect();
        backends.dedup();
        let version = document.version.split(',').next().unwrap_or_default();
        Self {
            node: node.to_owned(),
            state,
            version: version.to_owned(),
            backend: backends.join("+"),
            hint: document
                .problems
                .first()
                .map_or_else(String::new, |problem| problem.hint.clone()),
            problems: document
                .problems
                .into_iter()
                .map(|problem| problem.summary)
                .collect(),
        }
    }
}

/// Prints a line for each node. Returns whether all are well.
///
/// # Errors
///
/// Some nodes did not answer; the others are printed.
pub(super) fn all_nodes(args: &StatusArgs) -> anyhow::Result<bool> {
    let options = args.cluster.api_options(environment::kubeconfigs);
    let mut lines = cluster::block_on(options, async |cluster| {
        let pods = cluster.pods(PodRole::Proxy, None).await?;
        let mut lines = Vec::new();
        let ask = async |pod| cluster.document(pod, "/status").await;
        let answered = |pod: &ProxyPod, answer| lines.push(NodeLine::new(&pod.node, answer));
        cluster::for_each_bounded(&pods, ask, answered).await;
        Ok(lines)
    })?;
    sort(&mut lines);
    terminal::print(match args.output.format {
        OutputArg::Json => format!("{:#}\n", serde_json::json!({"nodes": lines})),
        OutputArg::Text => text(&lines),
    })?;
    let count = |state| lines.iter().filter(|line| line.state == state).count();
    let unknown = count(NodeVerdict::Unknown);
    if let Some(first) = lines.iter().find(|line| line.state == NodeVerdict::Unknown)
        && unknown > 0
    {
        let hint = match first.hint.as_str() {
            "" => String::new(),
            hint => format!("\nhint: {hint}"),
        };
        let total = lines.len();
        anyhow::bail!("the state of {unknown} of {total} nodes is unknown{hint}");
    }
    Ok(count(NodeVerdict::Failure) + count(NodeVerdict::Finding) == 0)
}

/// Sorts lines, the worst first.
fn sort(lines: &mut [NodeLine]) {
    lines.sort_by(|left, right| (left.state, &left.node).cmp(&(right.state, &right.node)));
}

/// Renders sorted lines: those of nodes that are not well, and one about all others.
fn text(lines: &[NodeLine]) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut text, lines);
    text
}

fn write(text: &mut String, lines: &[NodeLine]) -> fmt::Result {
    let (well, others): (Vec<_>, Vec<_>) = lines
        .iter()
        .partition(|line| line.state == NodeVerdict::Well);
    let names = others.iter().map(|line| line.node.chars().count());
    let width = names.max().unwrap_or_default().max("NODE".len());
    if !others.is_empty() {
        writeln!(text, "{:width$}   STATE     PROBLEM", "NODE")?;
    }
    for line in others {
        let state = match line.state {
            NodeVerdict::Failure => "FAILURE",
            NodeVerdict::Unknown => "unknown",
            NodeVerdict::Finding => "finding",
            NodeVerdict::Other => "other",
            NodeVerdict::Well => "well",
        };
        let first = line.problems.first().map_or("", String::as_str);
        write!(text, "{:width$}   {state:7}   {first}", line.node)?;
        match line.problems.len() {
            0 | 1 => writeln!(text)?,
            count => writeln!(text, " (and {} more)", count - 1)?,
        }
    }
    let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in &well {
        *kinds.entry((&line.version, &line.backend)).or_default() += 1;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    write!(text, "{} of {} nodes are well", well.len(), lines.len())?;
    for (index, ((version, backend), count)) in kinds.iter().enumerate() {
        let separator = if index == 0 { ":" } else { "," };
        write!(
            text,
            "{separator} {count} with deltaproxy {version}, {backend}"
        )?;
    }
    writeln!(text)
}

#[cfg(test)]
#[path = "tests/nodes.rs"]
mod tests;
