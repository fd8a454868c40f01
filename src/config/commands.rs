//! Command line of the program: its commands, their help texts, and compatibility with the command
//! line of kube-proxy.

use std::ffi::OsString;
#[cfg(feature = "tools")]
use std::path::PathBuf;

#[cfg(feature = "tools")]
use clap::CommandFactory;
use clap::error::ErrorKind;
use clap::{FromArgMatches, Parser, Subcommand};

use super::environment::ProgramName;
use super::flags::{CleanupArgs, RunArgs};
use super::help;
#[cfg(feature = "tools")]
use super::history_flags::{BundleArgs, HistoryArgs};
use super::problems::in_standard_form;
#[cfg(feature = "tools")]
use super::tool_flags::{
    CheckArgs, ColorWhen, DiffArgs, ExplainArgs, RenderArgs, ServicesArgs, ShadowReportArgs,
    StatusArgs,
};
#[cfg(feature = "tools")]
use super::tool_help;

/// A drop-in replacement for kube-proxy's iptables mode that restores only changes
#[derive(Debug, Parser)]
#[command(
    name = "deltaproxy",
    version = VERSION,
    propagate_version = true,
    max_term_width = 100
)]
#[command(after_help = "With flags but no command, and under the name kube-proxy, run is implied.")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses a command line, which begins with the program's name, by the definition of a
    /// program.
    ///
    /// # Errors
    ///
    /// Invalid flags. Requests for help or the version are errors as well.
    pub fn from_args(mut program: clap::Command, args: &[OsString]) -> Result<Self, clap::Error> {
        let matches = program
            .try_get_matches_from_mut(args)
            .map_err(in_standard_form)?;
        Self::from_arg_matches(&matches).map_err(|error| match error.kind() {
            // Problems of values have their form already.
            ErrorKind::ValueValidation => error,
            _ => in_standard_form(error.format(&mut program)),
        })
    }
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keep the Service rules of this node up to date: the daemon
    #[command(
        after_help = RUN_MORE,
        after_long_help = help::RUN.after_flags(),
        args_override_self = true,
        disable_version_flag = true
    )]
    Run(Box<RunArgs>),
    /// Print rules as input for iptables-restore --noflush
    #[cfg(feature = "tools")]
    #[command(
        after_help = "More flags, examples and exit codes: deltaproxy render --help",
        after_long_help = tool_help::RENDER.after_flags(),
        args_override_self = true,
        mut_arg("names", excerpt)
    )]
    Render(Box<RenderArgs>),
    /// Show the state of the daemon on this node, the worst first
    #[cfg(feature = "tools")]
    #[command(after_help = tool_help::STATUS.after_flags(), args_override_self = true)]
    Status(Box<StatusArgs>),
    /// Show how the rules of kube-proxy differ from the desired ones
    #[cfg(feature = "tools")]
    #[command(after_help = tool_help::SHADOW_REPORT.after_flags(), args_override_self = true)]
    ShadowReport(Box<ShadowReportArgs>),
    /// Check whether this node and its cluster suit the daemon
    #[cfg(feature = "tools")]
    #[command(
        after_help = "Takes all flags of run; examples and exit codes: deltaproxy check --help",
        after_long_help = tool_help::CHECK.after_flags(),
        args_override_self = true,
        disable_version_flag = true,
        mut_args(of_check)
    )]
    Check(Box<CheckArgs>),
    /// Compare the live Service rules with the desired ones
    #[cfg(feature = "tools")]
    #[command(
        after_help = "More flags, examples and exit codes: deltaproxy diff --help",
        after_long_help = tool_help::DIFF.after_flags(),
        args_override_self = true
    )]
    Diff(Box<DiffArgs>),
    /// List Service ports programmed on this node and their endpoints
    #[cfg(feature = "tools")]
    #[command(
        after_help = "More flags, examples and exit codes: deltaproxy services --help",
        after_long_help = tool_help::SERVICES.after_flags(),
        args_override_self = true
    )]
    Services(Box<ServicesArgs>),
    /// Trace packets to an address or Service and explain the outcome
    #[cfg(feature = "tools")]
    #[command(
        after_help = "More flags, examples and exit codes: deltaproxy explain --help",
        after_long_help = tool_help::EXPLAIN.after_flags(),
        args_override_self = true
    )]
    Explain(Box<ExplainArgs>),
    /// Print past syncs from the folder of --state-dir, oldest first
    #[cfg(feature = "tools")]
    #[command(after_help = tool_help::HISTORY.after_flags(), args_override_self = true)]
    History(Box<HistoryArgs>),
    /// Pack the state of this node for a support case
    #[cfg(feature = "tools")]
    #[command(after_help = tool_help::BUNDLE.after_flags(), args_override_self = true)]
    Bundle(Box<BundleArgs>),
    /// Remove the Service rules of every proxy from this node
    #[command(
        after_help = "Examples, exit codes and removed chains: deltaproxy cleanup --help",
        after_long_help = help::CLEANUP.after_flags(),
        args_override_self = true
    )]
    Cleanup(CleanupArgs),
    /// Print a shell completion script
    #[cfg(feature = "tools")]
    #[command(after_help = tool_help::COMPLETIONS.after_flags())]
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Print or write the manual pages of the program and its commands
    #[cfg(feature = "tools")]
    #[command(after_help = tool_help::MAN.after_flags())]
    Man {
        /// Command to print the page of
        #[arg(value_parser = ["run", "render", "status", "shadow-report", "check", "diff", "services", "explain", "history", "bundle", "cleanup", "completions", "man"])]
        command: Option<String>,
        /// Write all pages to this folder instead of printing one
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        dir: Option<PathBuf>,
    },
}

#[cfg(feature = "tools")]
impl Command {
    /// Returns the choice of `--color`.
    pub(crate) fn color(&self) -> ColorWhen {
        match self {
            Self::Diff(args) => args.color.when,
            Self::Services(args) => args.color.when,
            Self::Explain(args) => args.color.when,
            _ => ColorWhen::Auto,
        }
    }
}

/// Hides most flags of `run` in the help of `check`, which takes all of them.
#[cfg(feature = "tools")]
fn of_check(flag: clap::Arg) -> clap::Arg {
    let is_shown = match flag.get_help_heading() {
        Some("Check") => true,
        Some("File" | "Source") => !flag.is_hide_short_help_set(),
        _ => false,
    };
    flag.hide(!is_shown)
}

/// Adds to the help of `render` that a selection of Services cannot be restored.
#[cfg(feature = "tools")]
fn excerpt(names: clap::Arg) -> clap::Arg {
    let help = names
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    names.help(format!(
        "{help}; prints an excerpt that iptables-restore rejects"
    ))
}

/// Commands about the machine that they run on, which the kubectl plugin does not have.
pub(crate) const NODE_COMMANDS: [&str; 4] = ["run", "cleanup", "check", "bundle"];

/// Returns the command line that clap expects: `run` is inserted where it is implied, and `_` in
/// the names of flags becomes `-`. kube-proxy has no commands and accepts both spellings of flags.
pub(crate) fn normalize(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args = args.into_iter();
    let program = args.next().unwrap_or_else(|| "deltaproxy".into());
    let mut rest: Vec<OsString> = args.map(with_dashes).collect();
    #[cfg(feature = "tools")]
    if ProgramName::of(&program) == ProgramName::KubectlPlugin {
        put_command_first(&mut rest);
    }
    #[cfg(feature = "tools")]
    if ProgramName::of(&program) == ProgramName::KubectlCompletion {
        // Words that are not complete yet.
        rest.insert(0, program);
        return rest;
    }
    if implies_run(ProgramName::of(&program), rest.first()) {
        rest.insert(0, "run".into());
    }
    rest.insert(0, program);
    rest
}

/// Reports whether the daemon is meant by a command line that begins with this word.
fn implies_run(program: ProgramName, first: Option<&OsString>) -> bool {
    let Some(first) = first else {
        return program == ProgramName::KubeProxy;
    };
    // The plugin has no daemon.
    if program == ProgramName::KubectlPlugin {
        return false;
    }
    let first = first.to_str().unwrap_or_default();
    let is_about_program = matches!(first, "-h" | "--help" | "-V" | "--version");
    first.starts_with('-') && !is_about_program
}

/// Moves the command before the flags that precede it. Users of kubectl type them in front, as in
/// `kubectl -n shop get services`.
#[cfg(feature = "tools")]
fn put_command_first(args: &mut [OsString]) {
    let program = Cli::command();
    let mut at = 0;
    while let Some(word) = args.get(at).and_then(|word| word.to_str())
        && word.starts_with('-')
    {
        at += 1 + usize::from(takes_next_word(&program, word));
    }
    if let Some(before) = args.get_mut(..=at) {
        before.rotate_right(1);
    }
}

/// Reports whether the value of a flag is the next word: it has one, which does not follow in the
/// same word. The flags are those of the plugin.
#[cfg(feature = "tools")]
fn takes_next_word(program: &clap::Command, word: &str) -> bool {
    let commands = program.get_subcommands();
    let mut flags = commands
        .filter(|command| !NODE_COMMANDS.contains(&command.get_name()))
        .flat_map(clap::Command::get_arguments);
    let flag = flags.find(|flag| is_flag(flag, word));
    flag.is_some_and(|flag| flag.get_action().takes_values())
}

/// Reports whether a word is the name of a flag, in either form.
#[cfg(feature = "tools")]
pub(crate) fn is_flag(flag: &clap::Arg, word: &str) -> bool {
    let long = flag.get_long().map(|long| format!("--{long}"));
    let short = flag.get_short().map(|short| format!("-{short}"));
    [long, short]
        .iter()
        .any(|name| name.as_deref() == Some(word))
}

fn with_dashes(arg: OsString) -> OsString {
    let Some(flag) = arg.to_str().and_then(|text| text.strip_prefix("--")) else {
        return arg;
    };
    let (name, value) = flag
        .split_once('=')
        .map_or((flag, None), |(n, v)| (n, Some(v)));
    let name = name.replace('_', "-");
    match value {
        Some(value) => format!("--{name}={value}").into(),
        None => format!("--{name}").into(),
    }
}

/// Version of this program and of the kube-proxy that it replaces.
pub(crate) const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    ", in place of kube-proxy v1.37.2"
);

const RUN_MORE: &str = "\
More flags, and examples: deltaproxy run --help; manual: deltaproxy man run
16 kube-proxy flags are accepted without effect: see the manual";
