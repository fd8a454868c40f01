//! Resolution of flags and file into the configuration of a command, or into all their problems.
//!
//! With a file, only flags without a field and those that override the file have an effect; notes
//! name the settings that are ignored.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `Complete` (v1.36)

use std::path::Path;
use std::time::Duration;

use super::flags::{Action, RulesArgs, RunArgs, SourceArgs};
use super::go::GoDuration;
use super::kube_proxy::{self, KubeProxyConfiguration, OFF, differing, quoted};
use super::problems::{ConfigProblems, Unusable};
use super::render_config::render_config;
use super::resolved::{BindFailure, Config, ConfigFile, NodeSettings};
use super::resolved::{Profiling, RenderConfig, Serving};
use super::settings::{self, PartialRestoreArg, Setting, VersionArg};
use super::{FULL_SYNC_PERIOD, addresses, validate};
use crate::render::PartialRestore;
use crate::sync::{CpuBudget, Gap, PacerOptions};

/// The only flag whose zero differs from that of its field.
const MIN_SYNC_PERIOD: &str = "iptables-min-sync-period";

/// Resolves the configuration of `run` from its flags and the file that they name.
///
/// # Errors
///
/// All problems of flags and file.
pub fn run(args: &RunArgs, file: Option<&ConfigFile>, host_name: &str) -> Result<Config, Unusable> {
    let mut problems = ConfigProblems::of(file.map(|file| file.path.as_path()));
    problems.extend(args.flags.problems());
    let (configuration, decoding) = match file {
        Some(file) => from_file(args, file, &mut problems)?,
        None => (from_flags(args), None),
    };
    let mut notes: Vec<String> = decoding.into_iter().collect();
    notes.extend(file.and_then(|_| ignored_flags(&configuration, |to| args.apply(to))));
    notes.extend(deprecated(args));
    notes.extend(without_effect(args, &configuration, file.is_some()));
    let config = check(args, configuration, host_name, &mut problems);
    problems.unless_any(config.map(|config| Config {
        file: file.cloned(),
        notes,
        ..config
    }))
}

/// Resolves the configuration of commands that render and do not run. A file replaces the flags
/// that decide the content of rules. Flags for the source of objects and for the node override the
/// file, because it may be from another node.
///
/// # Errors
///
/// All problems of flags and file.
pub fn desired(
    file: Option<&ConfigFile>,
    source: &SourceArgs,
    shape: &RulesArgs,
    host_name: &str,
) -> Result<RenderConfig, Unusable> {
    let mut problems = ConfigProblems::of(file.map(|file| file.path.as_path()));
    let mut configuration = match file.map(|file| kube_proxy::read(&file.text)) {
        None => {
            let mut configuration = KubeProxyConfiguration::defaults();
            shape.apply(&mut configuration);
            configuration
        }
        Some(Ok((configuration, _))) => configuration.with_defaults(),
        Some(Err(unreadable)) => {
            problems.add_file(unreadable);
            return problems.unless_any(None);
        }
    };
    source.flags.apply(&mut configuration);
    configuration.choose_modes();
    let config = render_config(&configuration, (source, shape), host_name, &mut problems);
    problems.unless_any(config)
}

/// Returns notes on ignored settings of commands that render and do not run: flags that a file
/// replaces, and fields of the file that are unknown or repeated.
pub fn ignored_settings(file: &ConfigFile, shape: &RulesArgs) -> Vec<String> {
    // `desired` reports a file that cannot be decoded.
    let Ok((configuration, unknown)) = kube_proxy::read(&file.text) else {
        return Vec::new();
    };
    let mut configuration = configuration.with_defaults();
    configuration.choose_modes();
    let decoding = unknown.map(|what| lenient_decoding(&file.path, &what));
    let ignored = ignored_flags(&configuration, |to| shape.apply(to));
    decoding.into_iter().chain(ignored).collect()
}

/// Returns a note on the flags that a file replaces. Flags with the same value as the file are not
/// in it.
fn ignored_flags(
    file: &KubeProxyConfiguration,
    apply: impl FnOnce(&mut KubeProxyConfiguration),
) -> Option<String> {
    let mut with_flags = file.clone();
    apply(&mut with_flags);
    with_flags.choose_modes();
    let overrides = |path: &&String| settings::of_path(path).is_some_and(Setting::overrides_file);
    let flags: Vec<String> = differing(file, &with_flags)
        .iter()
        .filter(|path| !overrides(path))
        .map(|path| flag_or_path(path))
        .collect();
    let list = quoted(&flags);
    (!flags.is_empty()).then(|| format!("flags ignored because --config is set: {list}"))
}

fn from_flags(args: &RunArgs) -> KubeProxyConfiguration {
    let mut configuration = args.configuration();
    configuration.choose_modes();
    configuration
}

/// Decodes the file and applies the flags that override it. Returns a note on lenient decoding.
fn from_file(
    args: &RunArgs,
    file: &ConfigFile,
    problems: &mut ConfigProblems,
) -> Result<(KubeProxyConfiguration, Option<String>), Unusable> {
    match kube_proxy::read(&file.text) {
        Ok((configuration, unknown)) => {
            let mut configuration = configuration.with_defaults();
            args.flags.apply_over_file(&mut configuration);
            configuration.choose_modes();
            let note = unknown.map(|what| lenient_decoding(&file.path, &what));
            Ok((configuration, note))
        }
        Err(unreadable) => {
            problems.add_file(unreadable);
            std::mem::take(problems).unless_any(None)
        }
    }
}

fn check(
    args: &RunArgs,
    configuration: KubeProxyConfiguration,
    host_name: &str,
    problems: &mut ConfigProblems,
) -> Option<Config> {
    let flags = (&args.source, &args.rules);
    let rules = render_config(&configuration, flags, host_name, problems);
    let action = action(args, problems);
    let periods = validate::periods(&configuration, problems);
    let serving = serving(&configuration, problems);
    let logging = validate::logging(&configuration, problems);
    let conntrack = validate::conntrack(&configuration, problems);
    let oom_score_adj = validate::oom_score_adj(&configuration, problems);
    validate::hidden_metrics(&configuration, problems);
    let (sync_period, gap) = periods?;
    let budget: Option<u8> = args.flags.get("sync-cpu-budget");
    let gap = match gap {
        // Zero in a file means the default.
        Gap::Budget(_) if !problems.is_of_file() && args.flags.is_given(MIN_SYNC_PERIOD) => {
            Gap::Fixed(Duration::ZERO)
        }
        Gap::Budget(_) => Gap::Budget(budget.map(CpuBudget::percent)),
        fixed @ Gap::Fixed(_) => fixed,
    };
    let shape: Option<PartialRestoreArg> = args.flags.get("partial-restore");
    let verify_interval = verify_interval(args, problems);
    let (format, verbosity) = logging?;
    Some(Config {
        rules: rules?,
        action: action?,
        is_dry_run: args.flags.get("dry-run").unwrap_or_default(),
        shape: shape.map_or(PartialRestore::ChangedChains, Into::into),
        pacer: PacerOptions {
            gap,
            longest_retry: sync_period,
            longest_idle: FULL_SYNC_PERIOD,
        },
        sync_period,
        verify_interval: verify_interval.ok()?,
        state_dir: args.flags.get("state-dir"),
        serving: serving?,
        verbosity,
        logging: format,
        node: NodeSettings {
            conntrack: conntrack?,
            oom_score_adj: oom_score_adj?,
        },
        file: None,
        configuration,
        flags: args.flags.flagz(&args.configuration()),
        notes: Vec::new(),
    })
}

fn action(args: &RunArgs, problems: &mut ConfigProblems) -> Option<Action> {
    let action = args.action();
    if action.is_none() {
        let hint = "remove --init-only to remove all rules, or --cleanup to prepare the node";
        problems.add_exclusive(["cleanup", "init-only"], hint);
    }
    action
}

/// Returns the verification interval; `None` disables verification.
fn verify_interval(args: &RunArgs, problems: &mut ConfigProblems) -> Result<Option<Duration>, ()> {
    let typed: GoDuration = args.flags.get("verify-interval").unwrap_or_default();
    let Some(interval) = typed.to_std() else {
        problems.add_flag("verify-interval", format!("must be 0 or more, got {typed}"));
        return Err(());
    };
    Ok(Some(interval).filter(|interval| !interval.is_zero()))
}

fn serving(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<Serving> {
    let mut at = |path, text: &str| match text {
        OFF => Some(None),
        text => addresses::serving_address(path, text, problems).map(Some),
    };
    let metrics = at("metricsBindAddress", &configuration.metrics_bind_address);
    let healthz = at("healthzBindAddress", &configuration.healthz_bind_address);
    Some(Serving {
        metrics: metrics?,
        healthz: healthz?,
        profiling: if configuration.enable_profiling {
            Profiling::On
        } else {
            Profiling::Off
        },
        bind_failure: if configuration.bind_address_hard_fail {
            BindFailure::Exit
        } else {
            BindFailure::Retry
        },
    })
}

fn lenient_decoding(file: &Path, ignored: &str) -> String {
    format!("lenient decoding of `{}`: {ignored}", file.display())
}

/// Returns a note on each deprecated flag that is set, as kube-proxy does.
///
/// Upstream: `cmd/kube-proxy/app/options.go`, `AddFlags`, "`MarkDeprecated`" (v1.36)
fn deprecated(args: &RunArgs) -> impl Iterator<Item = String> {
    let ports = ["healthz", "metrics"];
    let given = ports
        .into_iter()
        .filter(|name| args.flags.is_given(&format!("{name}-port")));
    given.map(|name| {
        format!(
            "--{name}-port is deprecated: it only completes an address without a port, and 0 \
             disables the server; use --{name}-bind-address=IP:PORT, or `off`"
        )
    })
}

/// Returns a note on the settings that differ from their default and have no effect.
fn without_effect(
    args: &RunArgs,
    configuration: &KubeProxyConfiguration,
    has_file: bool,
) -> Option<String> {
    let mut defaults = KubeProxyConfiguration::defaults();
    defaults.choose_modes();
    let set = differing(configuration, &defaults);
    let unused = settings::without_effect();
    let has_none = |path: &&String| unused.iter().any(|setting| setting.path == **path);
    let name = |path: &String| {
        if has_file {
            path.clone()
        } else {
            flag_or_path(path)
        }
    };
    let mut names: Vec<String> = set.iter().filter(has_none).map(name).collect();
    let version = (args.version == Some(VersionArg::Other)).then_some("version");
    let flags = args.flags.different(unused).chain(version);
    names.extend(flags.map(|flag| format!("--{flag}")));
    let list = quoted(&names);
    (!names.is_empty()).then(|| format!("set, but without effect in this version: {list}"))
}

fn flag_or_path(path: &str) -> String {
    match settings::of_path(path).map_or("", |setting| setting.flag) {
        "" => path.to_owned(),
        flag => format!("--{flag}"),
    }
}
