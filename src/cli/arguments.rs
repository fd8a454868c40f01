//! Reads the command line and kube-proxy's configuration file, and resolves what both ask for.
//!
//! [`config`](crate::config) reads no files. The file is read once for each command, because it
//! may be a pipe.

use std::ffi::OsString;
#[cfg(feature = "tools")]
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::builder::{Resettable, StyledStr};
use clap::error::ErrorKind;
use clap::{Command, CommandFactory};
#[cfg(feature = "tools")]
use jiff::Timestamp;

#[cfg(feature = "tools")]
use super::daemon;
use crate::clock;
use crate::config::{self, Cli, ConfigFile, ConfigNote, ProgramName, Unusable};
#[cfg(feature = "tools")]
use crate::config::{
    DaemonArgs, DesiredArgs, PastTime, RenderConfig, Source, SourceArgs, environment,
};
#[cfg(feature = "tools")]
use crate::watch::api::ApiOptions;
use crate::watch::bounded;

const AS_PLUGIN: &str = "kubectl deltaproxy";
const STANDALONE: &str = "deltaproxy";

/// Parses a command line, beginning with the program's name. Help and errors show the name by
/// which the program was started: `deltaproxy`, or `kubectl deltaproxy` for the plugin.
///
/// # Errors
///
/// As [`Cli::from_args`]; and a command about the node that it runs on was given to the plugin,
/// which works on a cluster from afar.
pub(super) fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    if args.first().map(|name| ProgramName::of(name)) != Some(ProgramName::KubectlPlugin) {
        return Cli::from_args(Cli::command(), args);
    }
    let mut program = Cli::command()
        .mut_subcommands(with_plugin_name)
        .bin_name(AS_PLUGIN)
        .after_help("The plugin works from afar: it has no run, cleanup, check or bundle.");
    for name in config::NODE_COMMANDS {
        program = program.mut_subcommand(name, |command| command.hide(true));
    }
    let cli = Cli::from_args(program.clone(), args)?;
    match cli.command {
        config::Command::Run(_) => Err(refused(program, "run")),
        config::Command::Cleanup(_) => Err(refused(program, "cleanup")),
        #[cfg(feature = "tools")]
        config::Command::Check(_) => Err(refused(program, "check")),
        #[cfg(feature = "tools")]
        config::Command::Bundle(_) => Err(refused(program, "bundle")),
        #[cfg(feature = "tools")]
        _ => Ok(cli),
    }
}

/// Shows examples of a command as users of the plugin type them.
fn with_plugin_name(command: Command) -> Command {
    let [from, to] = [STANDALONE, AS_PLUGIN].map(|name| format!(" {name} {}", command.get_name()));
    let named = |help: &StyledStr| StyledStr::from(help.to_string().replace(&from, &to));
    let short = command.get_after_help().map(named);
    let long = command.get_after_long_help().map(named);
    command
        .after_help(Resettable::from(short))
        .after_long_help(Resettable::from(long))
}

fn refused(mut program: Command, command: &str) -> clap::Error {
    let problem = format!(
        "the kubectl plugin has no {command}, which is about the machine that it runs on\n\
         hint: on the node, or by `kubectl exec` in its Pod, use `{STANDALONE}` with the same \
         arguments"
    );
    program.error(ErrorKind::InvalidSubcommand, problem)
}

/// Reads the configuration file, if one is given.
pub(super) fn read_file(path: Option<&Path>) -> Result<Option<ConfigFile>, Unusable> {
    let Some(path) = path.map(Path::to_owned) else {
        return Ok(None);
    };
    match bounded::read_to_string(&path, bounded::MAX_CONFIG_BYTES) {
        Ok(text) => Ok(Some(ConfigFile { path, text })),
        Err(error) => Err(Unusable::of_flag(
            "config",
            format!("cannot read `{}`: {error}", path.display()),
        )),
    }
}

pub(super) fn log_notes(notes: &[ConfigNote]) {
    for note in notes {
        match note {
            ConfigNote::Warning(text) => tracing::warn!("{text}"),
            ConfigNote::Note(text) => tracing::info!("{text}"),
        }
    }
}

/// Flags that shape desired rules, and the configuration file that may replace them.
#[cfg(feature = "tools")]
pub(super) struct RuleSettings<'a> {
    file: Option<ConfigFile>,
    args: &'a DesiredArgs,
}

#[cfg(feature = "tools")]
impl<'a> RuleSettings<'a> {
    /// Reads the file, if one is given.
    pub(super) fn read(args: &'a DesiredArgs) -> Result<Self, Unusable> {
        if args.context.is_given() && args.source.manifests.is_some() {
            return Err(Unusable::of_flag(
                "manifests",
                "needs no cluster: leave out --context, --cluster and --user".to_owned(),
            ));
        }
        let file = read_file(args.config.as_deref())?;
        Ok(Self { file, args })
    }

    /// Returns the address at which to ask the daemon on this node; `None` if it serves no metrics.
    pub(super) fn daemon(&self, args: &DaemonArgs) -> Result<Option<SocketAddr>, Unusable> {
        daemon_address(self.file.as_ref(), args)
    }

    /// Returns the connection to the API server that the flags select.
    pub(super) fn api_options(&self) -> Result<ApiOptions, Unusable> {
        let config = self.rendering()?.with_request_timeout(&self.args.request);
        match config.source {
            Source::Cluster(options) => Ok(options),
            Source::Manifests { .. } => Err(Unusable::of_flag(
                "manifests",
                "cannot be used with flags that need an API server".to_owned(),
            )),
        }
    }

    /// Returns the configuration that renders the objects of the source that the flags select.
    pub(super) fn rendering(&self) -> Result<RenderConfig, Unusable> {
        self.rendering_of(&self.args.source)
    }

    /// Returns the configuration that renders the objects of a source. Logs notes on flags, fields
    /// and feature gates; the log of a command writes each once.
    pub(super) fn rendering_of(&self, source: &SourceArgs) -> Result<RenderConfig, Unusable> {
        let host_name = environment::host_name();
        let rules = &self.args.rules;
        let (config, notes) = config::rendering(self.file.as_ref(), source, rules, &host_name)?;
        log_notes(&notes);
        Ok(config.with_context(&self.args.context, environment::kubeconfigs))
    }
}

/// Returns the time of a moment in the past.
#[cfg(feature = "tools")]
pub(super) fn moment(time: PastTime) -> Timestamp {
    let ago = match time {
        PastTime::At(at) => return at,
        PastTime::Ago(ago) => ago,
    };
    let moment = clock::wall().checked_sub(ago);
    let moment = moment.and_then(|moment| Timestamp::try_from(moment).ok());
    moment.unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the address at which to ask the daemon on this node, given its configuration file;
/// `None` if it serves no metrics.
#[cfg(feature = "tools")]
pub(super) fn daemon_address(
    file: Option<&ConfigFile>,
    args: &DaemonArgs,
) -> Result<Option<SocketAddr>, Unusable> {
    let bind = config::metrics_address(file, args.metrics_bind_address.as_deref())?;
    Ok(bind.map(daemon::loopback_of))
}

/// Checks that at most one of these flags reads stdin.
#[cfg(feature = "tools")]
pub(super) fn check_stdin<'p>(
    paths: impl IntoIterator<Item = (&'static str, &'p Path)>,
) -> Result<(), Unusable> {
    let mut readers = paths
        .into_iter()
        .filter(|(_, path)| path.as_os_str() == "-");
    match (readers.next(), readers.next()) {
        (Some((first, _)), Some((second, _))) => {
            let problem = format!("stdin can be read only once, and --{first} reads it");
            Err(Unusable::of_flag(second, problem))
        }
        _ => Ok(()),
    }
}

/// Returns the path of a flag. Other flags take the last value, but this one would silently ignore
/// a source of objects.
///
/// # Errors
///
/// The flag is given more than once.
#[cfg(feature = "tools")]
pub(super) fn given_once<'p>(
    flag: &str,
    paths: &'p [PathBuf],
) -> Result<Option<&'p Path>, Unusable> {
    match paths {
        [] => Ok(None),
        [path] => Ok(Some(path)),
        all => {
            let all: Vec<String> = all.iter().map(|path| path.display().to_string()).collect();
            let problem = format!("must be given once, got {}", all.join(" and "));
            Err(Unusable::of_flag(flag, problem))
        }
    }
}
