//! Flags of `run` and of `cleanup`, the commands that change the node.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgAction, Args};

use super::rules::BackendArg;
use super::{IpvsArgs, LogArgs, NodeArgs, RulesArgs, ServeArgs, SourceArgs, SyncArgs, UnusedArgs};
use crate::config::go;
use crate::config::kube_proxy::KubeProxyConfiguration;
use crate::host::BackendChoice;

/// Flags of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Print version
    #[arg(short = 'V', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set)]
    pub version: Option<VersionArg>,
    /// Configuration file to read or to write.
    #[command(flatten)]
    pub file: FileArgs,
    /// Actions that end the process when they are done.
    #[command(flatten)]
    pub action: ActionArgs,
    /// Source of Services, EndpointSlices and the Node.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Settings that decide the content of rules.
    #[command(flatten)]
    pub rules: RulesArgs,
    /// Timing and form of syncs.
    #[command(flatten)]
    pub sync: SyncArgs,
    /// Kernel settings of the node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Metrics and health servers.
    #[command(flatten)]
    pub serve: ServeArgs,
    /// Logging. The first flags without effect are among these.
    #[command(flatten)]
    pub log: LogArgs,
    /// Settings of proxy mode `ipvs`.
    #[command(flatten)]
    pub ipvs: IpvsArgs,
    /// Other flags without effect.
    #[command(flatten)]
    pub unused: UnusedArgs,
}

impl RunArgs {
    /// Returns kube-proxy's defaults with every flag applied that was given.
    pub(in crate::config) fn configuration(&self) -> KubeProxyConfiguration {
        let mut configuration = KubeProxyConfiguration::defaults();
        self.apply(&mut configuration);
        configuration
    }

    /// Sets the fields whose flags were given.
    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        self.source.apply(to);
        self.rules.apply(to);
        self.sync.apply(to);
        self.serve.apply(to);
        self.log.apply(to);
        self.node.apply(to);
        self.ipvs.apply(to);
        self.unused.apply(to);
    }
}

/// Flags for the configuration file.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "File")]
pub struct FileArgs {
    /// KubeProxyConfiguration to use instead of flags
    ///
    /// The file replaces all flags that have a field in it, except --hostname-override and those
    /// of logging. The process exits with code 1 when the file changes.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write the configuration to a file and exit
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub write_config_to: Option<PathBuf>,
}

/// Flags that replace the daemon by one action.
///
/// They have no field in the configuration file and are valid together with `--config`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "One-shot actions")]
pub struct ActionArgs {
    /// Do the privileged setup and exit [default: false]
    ///
    /// The setup consists of kernel settings and kernel modules.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool)]
    pub init_only: Option<bool>,
    /// Remove the Service rules and exit [default: false]
    ///
    /// The rules of every proxy are removed; see `deltaproxy cleanup`.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool)]
    pub cleanup: Option<bool>,
}

/// Action that `run` performs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Keep the rules up to date.
    Run,
    /// Set kernel settings, load modules and exit.
    Init,
    /// Remove all rules and exit.
    Cleanup,
}

impl ActionArgs {
    /// Returns the selected action; `None` if `--cleanup` and `--init-only` are both set.
    ///
    /// Upstream: `cmd/kube-proxy/app/options.go`, `Run` (v1.36)
    ///
    /// Differs from upstream: there, `--cleanup` wins over `--init-only`. `--cleanup` removes the
    /// rules that `--init-only` prepares the node for, so giving both is a mistake.
    pub(in crate::config) fn action(&self) -> Option<Action> {
        match (self.cleanup, self.init_only) {
            (Some(true), Some(true)) => None,
            (Some(true), _) => Some(Action::Cleanup),
            (_, Some(true)) => Some(Action::Init),
            _ => Some(Action::Run),
        }
    }
}

/// Value of `--version`.
///
/// Upstream: `staging/src/k8s.io/component-base/version/verflag/verflag.go` (v1.36)
///
/// Differs from upstream: only the version of this program is ever reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionArg {
    /// Print the version and exit.
    Print,
    /// `false`: run as if the flag were absent.
    No,
    /// Report the version of another kube-proxy of the same minor version; without effect.
    Other,
}

impl FromStr for VersionArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "raw" => Ok(Self::Print),
            version if version.starts_with("v1.36.") => Ok(Self::Other),
            version if version.starts_with('v') => Err(format!(
                "\"{version}\" is not a valid version: must be v1.36.x"
            )),
            other => go::bool(other).map(|is| if is { Self::Print } else { Self::No }),
        }
    }
}

/// Flags of `cleanup`, a command of its own because the settings that shape rules do not matter
/// for their removal.
#[derive(Debug, Clone, Args)]
pub struct CleanupArgs {
    /// Print the restore input instead of applying it
    #[arg(long)]
    pub dry_run: bool,
    /// Backend whose rules are removed, nft or legacy [default: both]
    #[arg(long, value_name = "BACKEND", value_enum)]
    pub iptables_backend: Option<BackendArg>,
}

impl CleanupArgs {
    /// Returns the iptables binaries to use. Only `nft` and `legacy` limit cleanup to one backend.
    pub fn backend(&self) -> BackendChoice {
        self.iptables_backend
            .map_or_else(BackendChoice::default, Into::into)
    }
}
