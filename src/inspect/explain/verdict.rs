//! Verdicts on paths: whether the packets of a client are answered.

use super::explanation::Explanation;
use super::path::{PacketPath, PathResult};
use super::phrases;
use crate::inspect::catalog::FrontendKind;

/// Reports whether the packets of a path reach an endpoint, or the health check of the node, and
/// are answered; `None` if only some are, or the rules do not tell.
pub(super) fn is_reachable(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> Option<bool> {
    let is_unclear = phrases::unclear(path).is_some()
        || path.missing_table.is_some()
        || path.is_cut_off
        || !explanation.unread_tables.is_empty();
    if is_unclear {
        return None;
    }
    let mut results = path.branches.iter().map(|branch| match &branch.result {
        PathResult::Served { .. } => Some(true),
        PathResult::Unanswered { .. } | PathResult::Dropped(_) | PathResult::Rejected(_) => {
            Some(false)
        }
        PathResult::Passed { .. } if phrases::dead_end(explanation, path).is_some() => Some(false),
        PathResult::Passed { .. } => {
            let to = &explanation.to;
            let mut kinds = to.frontends.iter().map(|frontend| frontend.kind);
            let is_known = to.is_endpoint() || kinds.any(|kind| kind == FrontendKind::HealthCheck);
            is_known.then_some(true)
        }
        PathResult::Unclear(_) | PathResult::MissingTable(_) => None,
    });
    let first = results.next()??;
    results.all(|result| result == Some(first)).then_some(first)
}

/// Returns a line for each path whose packets are not as expected, reachable or unreachable, and
/// for pods that were not traced.
pub(crate) fn unexpected(explanations: &[Explanation<'_>], expected: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for explanation in explanations {
        let to = &explanation.to;
        for path in &explanation.paths {
            let word = match is_reachable(explanation, path) {
                Some(result) if result == expected => continue,
                Some(true) => "reachable",
                Some(false) => "unreachable",
                None => "unclear",
            };
            let clients = phrases::clients(&path.clients);
            lines.push(format!("{to} from {clients}: {word}"));
        }
        if explanation.lacks_pod_address {
            lines.push(format!("{to} from pods: not traced"));
        }
    }
    lines
}
