//! The daemon on this node: whether it answers, and what it reports.

use super::report::{CheckGroup, CheckResult};
use crate::cli::daemon::{self, loopback_of};
use crate::cli::status::StatusPage;

const STATUS_PAGE: &str = "deploy/docs/status-page.md";

/// Examines the daemon with this metrics address.
pub(super) fn examine(metrics: Option<std::net::SocketAddr>) -> CheckGroup {
    let checks = match metrics.map(loopback_of) {
        None => vec![CheckResult::skipped(
            "the metrics port of the daemon is disabled",
            "set --metrics-bind-address of `run` to an address",
        )],
        Some(address) => match daemon::get(address, "/status") {
            Err(reason) => vec![CheckResult::failed(
                format!("no daemon answers at {address}: {reason}"),
                "start deltaproxy, or use --pre before an installation",
                STATUS_PAGE,
            )],
            Ok(page) => answered(page),
        },
    };
    CheckGroup::new("daemon", checks)
}

fn answered(page: String) -> Vec<CheckResult> {
    let Ok(StatusPage { document, .. }) = StatusPage::parse(page) else {
        return vec![CheckResult::failed(
            "the program at the metrics port is not deltaproxy",
            "stop kube-proxy on this node, or set --metrics-bind-address",
            STATUS_PAGE,
        )];
    };
    let mut checks = vec![CheckResult::ok(format!(
        "deltaproxy {} runs as node {}",
        document.version, document.node
    ))];
    checks.extend(document.problems.iter().map(|problem| {
        if problem.is_failure {
            CheckResult::failed(problem.summary.clone(), &problem.hint, STATUS_PAGE)
        } else {
            CheckResult::warning(problem.summary.clone(), &problem.hint, STATUS_PAGE)
        }
    }));
    if document.problems.is_empty() {
        checks.push(CheckResult::ok("it reports no problem"));
    }
    checks
}
