//! The daemon: whether it can use its configuration, whether it answers on this node, and what it
//! reports.

use super::report::{CheckGroup, CheckResult, REPLACE};
use crate::cli::arguments;
use crate::cli::daemon::{self, loopback_of};
use crate::cli::status::StatusPage;
use crate::config::{self, CheckArgs, Config, ConfigNote, environment};

const FLAGS: &str = "deploy/docs/flags.md";
const STATUS_PAGE: &str = "deploy/docs/status-page.md";

/// Examines the flags and the file, and returns the configuration if it can be used.
pub(super) fn configuration(args: &CheckArgs) -> (CheckGroup, Option<Config>) {
    let file = arguments::read_file(args.run.config.as_deref());
    let resolved = file.and_then(|file| {
        let host_name = environment::host_name();
        config::run(&args.run, file.as_ref(), &host_name)
    });
    let (notes, resolved) = match resolved {
        Ok(config) => (config.notes.clone(), Ok(config)),
        Err(unusable) => (unusable.notes.clone(), Err(unusable)),
    };
    let mut checks = Vec::new();
    match &resolved {
        Ok(config) => checks.push(CheckResult::ok(usable(config))),
        Err(unusable) => {
            let problems = unusable.problems.iter();
            checks.extend(problems.map(|problem| CheckResult::error(&problem, FLAGS)));
        }
    }
    checks.extend(notes.iter().filter_map(|note| match note {
        ConfigNote::Warning(text) => Some(CheckResult::warning(
            text.clone(),
            "correct it, or remove it",
            FLAGS,
        )),
        ConfigNote::Note(_) => None,
    }));
    let config = resolved.ok();
    let has_no_mode = config
        .as_ref()
        .is_some_and(|config| config.empty_mode.is_some());
    checks.extend(has_no_mode.then(|| {
        CheckResult::warning(
            "proxy mode is not set: to kube-proxy 1.40 and later that means nftables",
            "set `mode: iptables` in the file, or --proxy-mode=iptables",
            REPLACE,
        )
    }));
    (CheckGroup::new("configuration", checks), config)
}

fn usable(config: &Config) -> String {
    match &config.file {
        Some(file) => format!("configuration `{}` can be used", file.path.display()),
        None => "configuration: that of the flags".to_owned(),
    }
}

pub(super) fn running(metrics: Option<std::net::SocketAddr>) -> CheckGroup {
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
