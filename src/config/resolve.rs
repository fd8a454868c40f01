//! Resolution of flags and file into the configuration of a command, or into all their problems,
//! and notes on settings that are unknown, ignored, deprecated or without effect.
//!
//! With a file, only flags without a field and those that override the file have an effect.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `Complete` (v1.37)

use std::collections::BTreeMap;
#[cfg(feature = "tools")]
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::flags::{Action, METRICS_OVERRIDE, RulesArgs, RunArgs, SourceArgs};
use super::go::GoDuration;
use super::kube_proxy::{self, ConfigFile, IgnoredFields, KubeProxyConfiguration, OFF, differing};
use super::kube_proxy::{HEALTHZ_PORT, METRICS_PORT, complete_address};
use super::problems::{ConfigNote, ConfigProblems, MOST_LISTED, Unusable, shortened};
use super::render_config::{RenderConfig, render_config};
use super::settings::{self, FlagValues, LogStyle, PARTIAL_RESTORES, Setting};
use super::validate::{self, LoggingFormat, NodeSettings, Serving};
use super::{FULL_SYNC_PERIOD, feature_gates};
use crate::ingest::yaml::RepeatedKey;
use crate::render::PartialRestore;
use crate::sync::{CpuBudget, Gap, PacerOptions, SyncMode};
use crate::telemetry::UnknownSettings;
use crate::text::{first_of, quoted};

/// The only flag whose zero differs from that of its field.
const MIN_SYNC_PERIOD: &str = "iptables-min-sync-period";

/// Configuration of `run`.
#[derive(Debug, Clone)]
pub struct Config {
    pub rules: RenderConfig,
    pub action: Action,
    /// Effect of syncs; `--dry-run` prints payloads.
    pub(crate) mode: SyncMode,
    /// Chains that a partial restore contains.
    pub partial_restore: PartialRestore,
    pub pacer: PacerOptions,
    /// Interval of checks for missing rules: `--iptables-sync-period`.
    pub sync_period: Duration,
    /// Interval of full rule verification: `--verify-interval`. `None` disables it.
    pub verify_interval: Option<Duration>,
    /// Connections to Services are exported: `--service-metrics`.
    pub has_service_metrics: bool,
    /// Directory for the history of syncs: `--state-dir`.
    pub state_dir: Option<PathBuf>,
    pub serving: Serving,
    /// Log verbosity: `-v`.
    pub verbosity: u8,
    pub logging: LoggingFormat,
    /// Style of log lines: `--log-style`.
    pub log_style: LogStyle,
    pub node: NodeSettings,
    pub file: Option<ConfigFile>,
    /// This configuration in the fields of kube-proxy.
    pub configuration: KubeProxyConfiguration,
    /// Values of all flags of the command line, including defaults.
    pub flags: BTreeMap<String, String>,
    /// Notes for the operator on unknown, ignored and deprecated settings.
    pub notes: Vec<ConfigNote>,
    /// Note on an empty proxy mode, for a daemon that has started.
    pub(crate) empty_mode: Option<ConfigNote>,
    /// Settings that this version does not know.
    pub(crate) unknown: UnknownSettings,
}

/// Resolves the configuration of `run` from its flags and the file that they name, or returns all
/// problems.
pub fn run(args: &RunArgs, file: Option<&ConfigFile>, host_name: &str) -> Result<Config, Unusable> {
    let mut problems = ConfigProblems::of(file.map(|file| file.path.as_path()));
    problems.extend(args.flags.problems());
    let (mut configuration, ignored) = read(file, &args.flags, &mut problems)?;
    choose_shadow_addresses(args, &mut configuration);
    override_metrics(args, &mut configuration, &mut problems);
    let empty_mode = empty_mode(&configuration);
    configuration.choose_modes();
    let gates = &configuration.feature_gates;
    // Addresses of a shadow are not those of the file.
    let effective = match mode(args) {
        SyncMode::Shadow => &SERVING_PATHS[..],
        SyncMode::Restore | SyncMode::DryRun => &[],
    };
    let mut notes = notes(file, (&args.flags, effective), &configuration, &ignored);
    notes.extend(deprecated(args));
    notes.extend(without_effect(args, &configuration, &problems));
    let unknown = UnknownSettings {
        feature_gates: feature_gates::unknown(gates)
            .map(|name| shortened(name))
            .collect(),
        fields: ignored
            .unknown
            .iter()
            .map(|one| shortened(&one.path))
            .collect(),
    };
    let config = check(args, configuration, host_name, &mut problems);
    match problems.unless_any(config) {
        Ok(config) => Ok(Config {
            file: file.cloned(),
            notes,
            empty_mode,
            unknown,
            ..config
        }),
        Err(unusable) => Err(Unusable { notes, ..unusable }),
    }
}

/// Resolves the configuration of commands that render and do not run, with notes on it. A file
/// replaces the flags that decide the content of rules. Flags for the source of objects and for
/// the node override the file, because it may be from another node.
#[cfg(feature = "tools")]
pub(crate) fn rendering(
    file: Option<&ConfigFile>,
    source: &SourceArgs,
    rules: &RulesArgs,
    host_name: &str,
) -> Result<(RenderConfig, Vec<ConfigNote>), Unusable> {
    let mut problems = ConfigProblems::of(file.map(|file| file.path.as_path()));
    let (mut configuration, ignored) = read(file, &rules.flags, &mut problems)?;
    source.flags.apply(&mut configuration);
    configuration.choose_modes();
    let notes = notes(file, (&rules.flags, &[]), &configuration, &ignored);
    let config = render_config(&configuration, (source, rules), host_name, &mut problems);
    Ok((problems.unless_any(config)?, notes))
}

/// Returns the metrics address of a daemon, for commands that ask it; `None` if it serves none. A
/// flag overrides the file.
#[cfg(feature = "tools")]
pub(crate) fn metrics_address(
    file: Option<&ConfigFile>,
    flag: Option<&str>,
) -> Result<Option<SocketAddr>, Unusable> {
    let file = file.filter(|_| flag.is_none());
    let mut problems = ConfigProblems::of(file.map(|file| file.path.as_path()));
    let mut text = match file {
        Some(file) => read_file(file, &mut problems)?.0.metrics_bind_address,
        None => KubeProxyConfiguration::defaults().metrics_bind_address,
    };
    if let Some(address) = flag {
        address.clone_into(&mut text);
        complete_address(&mut text, METRICS_PORT);
    }
    let address = match text.as_str() {
        OFF => Some(None),
        text => validate::serving_address("metricsBindAddress", text, &mut problems).map(Some),
    };
    problems.unless_any(address)
}

/// Reads the file, and sets the fields whose flags override it; without a file, reads the flags.
/// Modes may still be empty.
fn read(
    file: Option<&ConfigFile>,
    flags: &FlagValues,
    problems: &mut ConfigProblems,
) -> Result<(KubeProxyConfiguration, IgnoredFields), Unusable> {
    let Some(file) = file else {
        return Ok((flags.configuration(), IgnoredFields::default()));
    };
    let (mut configuration, ignored) = read_file(file, problems)?;
    flags.apply_over_file(&mut configuration);
    Ok((configuration, ignored))
}

/// Reads a file, and sets the defaults of its fields.
fn read_file(
    file: &ConfigFile,
    problems: &mut ConfigProblems,
) -> Result<(KubeProxyConfiguration, IgnoredFields), Unusable> {
    match kube_proxy::read(&file.text) {
        Ok((configuration, ignored)) => Ok((configuration.with_defaults(), ignored)),
        Err(unreadable) => {
            problems.add_file(unreadable);
            std::mem::take(problems).unless_any(None)
        }
    }
}

/// Returns notes on flags that a file replaces, on fields of the file that are unknown or repeated,
/// and on feature gates.
fn notes(
    file: Option<&ConfigFile>,
    flags: (&FlagValues, &[&str]),
    configuration: &KubeProxyConfiguration,
    ignored: &IgnoredFields,
) -> Vec<ConfigNote> {
    let mut notes = Vec::new();
    if let Some(file) = file {
        notes.extend(lenient_decoding(&file.path, ignored));
        notes.extend(ignored_flags(configuration, flags));
    }
    notes.extend(feature_gates::notes(&configuration.feature_gates));
    notes
}

/// Addresses of shadow mode: those of kube-proxy are in use, and have other ports.
pub(crate) const SHADOW_METRICS: &str = "127.0.0.1:10349";
const SHADOW_HEALTHZ: &str = "0.0.0.0:10356";

/// Fields with the addresses of the servers.
const SERVING_PATHS: [&str; 2] = ["metricsBindAddress", "healthzBindAddress"];

/// Replaces the addresses of the servers in shadow mode, except those of flags.
fn choose_shadow_addresses(args: &RunArgs, to: &mut KubeProxyConfiguration) {
    if mode(args) != SyncMode::Shadow {
        return;
    }
    let servers = [
        (
            "metrics-bind-address",
            METRICS_PORT,
            SHADOW_METRICS,
            &mut to.metrics_bind_address,
        ),
        (
            "healthz-bind-address",
            HEALTHZ_PORT,
            SHADOW_HEALTHZ,
            &mut to.healthz_bind_address,
        ),
    ];
    for (flag, port, default, address) in servers {
        // A file makes the flags of its fields ineffective, but not those of shadow mode.
        let given = args.flags.get(flag).filter(|_| args.flags.is_given(flag));
        *address = given.unwrap_or_else(|| default.to_owned());
        complete_address(address, port);
    }
}

fn mode(args: &RunArgs) -> SyncMode {
    match ["dry-run", "shadow"].map(|flag| args.flags.get(flag)) {
        [Some(true), _] => SyncMode::DryRun,
        [_, Some(true)] => SyncMode::Shadow,
        _ => SyncMode::Restore,
    }
}

/// Replaces the metrics address of the file or of its flag.
fn override_metrics(args: &RunArgs, to: &mut KubeProxyConfiguration, all: &mut ConfigProblems) {
    let Some(address) = args.metrics_override() else {
        return;
    };
    // Of no file, so that the problem names the flag.
    let mut problems = ConfigProblems::of(None);
    let place = format!("--{METRICS_OVERRIDE}");
    let is_valid =
        address == OFF || validate::serving_address(&place, &address, &mut problems).is_some();
    match problems.unless_any(Some(is_valid)) {
        Ok(_) => to.metrics_bind_address = address,
        Err(unusable) => all.extend(&unusable.problems),
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
    let verify_interval = duration(args, "verify-interval", problems);
    let has_status_page = args.flags.get("status-page").unwrap_or(true);
    let serving = validate::serving(&configuration, has_status_page, problems);
    let logging = validate::logging(&configuration, problems);
    let node = validate::node(&configuration, problems);
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
    let partial_restore = args.flags.choice("partial-restore", PARTIAL_RESTORES);
    let (format, verbosity) = logging?;
    Some(Config {
        rules: rules?,
        action: action?,
        mode: mode(args),
        partial_restore: partial_restore.unwrap_or_default(),
        pacer: PacerOptions {
            gap,
            longest_retry: sync_period,
            longest_idle: FULL_SYNC_PERIOD,
        },
        sync_period,
        verify_interval: verify_interval.map(|interval| {
            // Zero disables verification.
            Some(interval).filter(|interval| !interval.is_zero())
        })?,
        has_service_metrics: args.flags.get("service-metrics").unwrap_or(false),
        state_dir: args.flags.get("state-dir"),
        serving: serving?,
        verbosity,
        logging: format,
        log_style: args.log_style(),
        node: node?,
        file: None,
        configuration,
        flags: args.flags.flagz(),
        notes: Vec::new(),
        empty_mode: None,
        unknown: UnknownSettings::default(),
    })
}

fn action(args: &RunArgs, problems: &mut ConfigProblems) -> Option<Action> {
    if mode(args) == SyncMode::DryRun && args.flags.get("shadow") == Some(true) {
        let hint = "remove --dry-run to compare the rules of kube-proxy, or --shadow to print them";
        problems.add_exclusive(["dry-run", "shadow"], hint);
    }
    let action = args.action();
    if action.is_none() {
        let hint = "remove --init-only to remove all rules, or --cleanup to prepare the node";
        problems.add_exclusive(["cleanup", "init-only"], hint);
    }
    action
}

/// Returns the duration of a flag without a field.
fn duration(args: &RunArgs, flag: &str, problems: &mut ConfigProblems) -> Option<Duration> {
    let typed: GoDuration = args.flags.get(flag).unwrap_or_default();
    let duration = typed.to_std();
    if duration.is_none() {
        problems.add_flag(flag, format!("must be 0 or more, got {typed}"));
    }
    duration
}

/// Returns a warning of the flags that a file replaces. Flags with the same value as the file are
/// not in it, and those of the `effective` fields are not replaced.
fn ignored_flags(
    file: &KubeProxyConfiguration,
    (flags, effective): (&FlagValues, &[&str]),
) -> Option<ConfigNote> {
    let mut with_flags = file.clone();
    flags.apply(&mut with_flags);
    with_flags.choose_modes();
    let overrides = |path: &&String| {
        settings::of_path(path).is_some_and(Setting::overrides_file)
            || effective.contains(&path.as_str())
    };
    let flags: Vec<String> = differing(file, &with_flags)
        .iter()
        .filter(|path| !overrides(path))
        .map(|path| settings::flag_or_path(path))
        .collect();
    let list = quoted(&flags);
    (!flags.is_empty())
        .then(|| ConfigNote::Warning(format!("flags ignored because --config is set: {list}")))
}

/// Returns the warning of decoding that ignored parts of a file.
fn lenient_decoding(file: &Path, ignored: &IgnoredFields) -> Option<ConfigNote> {
    let mut parts = Vec::new();
    if !ignored.unknown.is_empty() {
        let names = ignored.unknown.iter().map(|one| {
            let hint = one
                .nearest
                .map(|known| format!(" (did you mean `{known}`?)"));
            format!("`{}`{}", shortened(&one.path), hint.unwrap_or_default())
        });
        let names = first_of(names, MOST_LISTED);
        parts.push(format!("unknown fields {names} ignored"));
    }
    if let Some(RepeatedKey { line, key }) = &ignored.repeated {
        let key = shortened(key);
        parts.push(format!(
            "line {line}: duplicate field `{key}`, last value used"
        ));
    }
    let file = file.display();
    (!parts.is_empty()).then(|| {
        let parts = parts.join("; ");
        ConfigNote::Warning(format!("lenient decoding of `{file}`: {parts}"))
    })
}

/// Returns the note on an empty proxy mode, which a later kube-proxy takes for another mode.
///
/// Upstream: cmd/kube-proxy/app/server_linux.go, `platformApplyDefaults` (v1.37)
/// KEP: kep.k8s.io/5343
fn empty_mode(configuration: &KubeProxyConfiguration) -> Option<ConfigNote> {
    configuration.mode.is_empty().then(|| {
        let text = "proxy mode is not set: using iptables. From 1.40 on, an empty mode means \
                    nftables to kube-proxy; set `mode: iptables`, or --proxy-mode=iptables, \
                    before a roll back to it";
        ConfigNote::Note(text.to_owned())
    })
}

/// Returns a warning of each deprecated flag that is set, as kube-proxy does.
///
/// Upstream: `cmd/kube-proxy/app/options.go`, `AddFlags`, "`MarkDeprecated`" (v1.37)
fn deprecated(args: &RunArgs) -> impl Iterator<Item = ConfigNote> {
    let ports = ["healthz", "metrics"];
    let given = ports
        .into_iter()
        .filter(|name| args.flags.is_given(&format!("{name}-port")));
    given.map(|name| {
        ConfigNote::Warning(format!(
            "--{name}-port is deprecated: it only completes an address without a port, and 0 \
             disables the server; use --{name}-bind-address=IP:PORT, or `off`"
        ))
    })
}

/// Returns a note on the settings that differ from their default and have no effect.
fn without_effect(
    args: &RunArgs,
    configuration: &KubeProxyConfiguration,
    problems: &ConfigProblems,
) -> Option<ConfigNote> {
    let mut defaults = KubeProxyConfiguration::defaults();
    defaults.choose_modes();
    let set = differing(configuration, &defaults);
    let unused = settings::without_effect();
    let has_none = |path: &&String| unused.iter().any(|setting| setting.path == **path);
    let set = set.iter().filter(has_none);
    let mut names: Vec<String> = set.map(|path| problems.name(path)).collect();
    let flags = args.flags.different(unused);
    names.extend(flags.map(|flag| format!("--{flag}")));
    let list = quoted(&names);
    (!names.is_empty())
        .then(|| ConfigNote::Note(format!("set, but without effect in this version: {list}")))
}
