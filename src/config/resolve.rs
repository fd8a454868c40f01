//! From flags and file to values that fit together, or to all that is wrong with them.
//!
//! Apart from the [validation](super::validate) of single fields so that it can be seen in one
//! place what counts: the file, where there is one, instead of kube-proxy's flags.
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `Complete` (v1.36)

use super::FULL_SYNC_PERIOD;
use super::flags::{RulesArgs, RunArgs, SourceArgs};
use super::flagz;
use super::kube_proxy::{self, KubeProxyConfiguration, OFF};
use super::notes;
use super::render_config::render_config;
use super::resolved::{Config, ConfigFile, NodeSettings, Profiling, RenderConfig, Serving, Taken};
use super::validate::{self, Problems, Unusable};
use crate::sync::{CpuBudget, Gap, PacerOptions};
use std::time::Duration;

/// The meaning of `run`'s flags, and of the file that they name.
pub fn run(args: &RunArgs, file: Option<&ConfigFile>, host_name: &str) -> Result<Config, Unusable> {
    let mut problems = Problems::of(file.map(|file| file.path.as_path()));
    let (configuration, lenient) = match file {
        Some(file) => from_file(args, file, &mut problems)?,
        None => (from_flags(args), None),
    };
    let mut notes: Vec<String> = lenient.into_iter().collect();
    notes.extend(file.and_then(|_| in_vain_beside(&configuration, |to| args.apply(to))));
    notes.extend(notes::deprecated(args));
    notes.extend(notes::unused(args, &configuration, file.is_some()));
    let config = check(args, configuration, host_name, &mut problems);
    problems.unless_any(config.map(|config| Config {
        file: file.cloned(),
        notes,
        ..config
    }))
}

/// The meaning of the flags of commands that render and do not run, perhaps with a file in place of
/// the flags that shape rules, as `run` has it. Where objects come from, and whose rules they
/// become, flags say first: the file may be another machine's.
pub fn desired(
    file: Option<&ConfigFile>,
    source: &SourceArgs,
    shape: &RulesArgs,
    host_name: &str,
) -> Result<RenderConfig, Unusable> {
    let mut problems = Problems::of(file.map(|file| file.path.as_path()));
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
    source.apply(&mut configuration);
    configuration.choose_modes();
    let config = render_config(&configuration, (source, shape), host_name, &mut problems);
    problems.unless_any(config)
}

/// What is said in vain where a file shapes the rules: by flags that it takes the place of, and by
/// itself.
pub fn in_vain(file: &ConfigFile, shape: &RulesArgs) -> Vec<String> {
    // An unreadable one is told by whoever asks what it says.
    let Ok((configuration, overlooked)) = kube_proxy::read(&file.text) else {
        return Vec::new();
    };
    let mut configuration = configuration.with_defaults();
    configuration.choose_modes();
    let lenient = overlooked.map(|what| notes::lenient(&file.path, &what));
    let ignored = in_vain_beside(&configuration, |to| shape.apply(to));
    lenient.into_iter().chain(ignored).collect()
}

/// The flags that would change what a file says, if they counted.
fn in_vain_beside(
    file: &KubeProxyConfiguration,
    apply: impl FnOnce(&mut KubeProxyConfiguration),
) -> Option<String> {
    let mut with_flags = file.clone();
    apply(&mut with_flags);
    with_flags.choose_modes();
    notes::ignored(file, &with_flags)
}

fn from_flags(args: &RunArgs) -> KubeProxyConfiguration {
    let mut configuration = args.configuration();
    configuration.choose_modes();
    configuration
}

/// The file, but for the few flags that count beside it.
fn from_file(
    args: &RunArgs,
    file: &ConfigFile,
    problems: &mut Problems,
) -> Result<(KubeProxyConfiguration, Option<String>), Unusable> {
    match kube_proxy::read(&file.text) {
        Ok((configuration, overlooked)) => {
            let mut configuration = configuration.with_defaults();
            args.source.apply_beside_file(&mut configuration);
            args.log.apply(&mut configuration);
            configuration.choose_modes();
            let note = overlooked.map(|what| notes::lenient(&file.path, &what));
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
    problems: &mut Problems,
) -> Option<Config> {
    let typed = (&args.source, &args.rules);
    let rules = render_config(&configuration, typed, host_name, problems);
    let action = args.action.action();
    let action = action.map_err(|problem| problems.add_flag("init-only", problem));
    let periods = validate::periods(&configuration, problems);
    let serving = serving(&configuration, problems);
    let logging = validate::logging(&configuration, problems);
    let conntrack = validate::conntrack(&configuration, problems);
    let oom_score_adj = validate::oom_score_adj(&configuration, problems);
    validate::hidden_metrics(&configuration, problems);
    let (sync_period, gap) = periods?;
    let gap = match gap {
        Gap::Budget(_) => Gap::Budget(args.sync.sync_cpu_budget.map(CpuBudget::percent)),
        fixed @ Gap::Fixed(_) => fixed,
    };
    let verify_interval = verify_interval(args, problems);
    let (format, verbosity) = logging?;
    Some(Config {
        rules: rules?,
        action: action.ok()?,
        is_dry_run: args.sync.dry_run,
        shape: args.sync.partial_restore.into(),
        pacer: PacerOptions {
            gap,
            longest_retry: sync_period,
            longest_idle: FULL_SYNC_PERIOD,
        },
        sync_period,
        verify_interval: verify_interval.ok()?,
        state_dir: args.sync.state_dir.clone(),
        serving: serving?,
        verbosity,
        logging: format,
        node: NodeSettings {
            conntrack: conntrack?,
            oom_score_adj: oom_score_adj?,
        },
        file: None,
        configuration,
        flags: flagz::values(args),
        notes: Vec::new(),
    })
}

/// `--verify-interval`, five minutes by default: a rule that was changed unnoticed stays so for
/// that long at most.
fn verify_interval(args: &RunArgs, problems: &mut Problems) -> Result<Option<Duration>, ()> {
    const DEFAULT: Duration = Duration::from_secs(300);

    let Some(typed) = args.sync.verify_interval else {
        return Ok(Some(DEFAULT));
    };
    let Some(interval) = typed.to_std() else {
        problems.add_flag("verify-interval", format!("{typed} is negative"));
        return Err(());
    };
    Ok(Some(interval).filter(|interval| !interval.is_zero()))
}

fn serving(configuration: &KubeProxyConfiguration, problems: &mut Problems) -> Option<Serving> {
    let mut at = |path, text: &str| match text {
        OFF => Some(None),
        text => validate::serving_address(path, text, problems).map(Some),
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
        taken: if configuration.bind_address_hard_fail {
            Taken::Fatal
        } else {
            Taken::Retried
        },
    })
}
