//! The configuration: whether the daemon can use it, and what it does not know.

use super::report::{CheckGroup, CheckResult};
use crate::cli::arguments;
use crate::config::{self, CheckArgs, Config, ConfigNote, environment};

const FLAGS: &str = "deploy/docs/flags.md";
const REPLACE: &str = "deploy/docs/replace.md";

/// Examines the flags and the file, and returns the configuration if it can be used.
pub(super) fn examine(args: &CheckArgs) -> (CheckGroup, Option<Config>) {
    let file = args.run.config.as_deref().map(arguments::read_file);
    let resolved = file.transpose().and_then(|file| {
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
