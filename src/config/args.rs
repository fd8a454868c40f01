//! What was typed: the commands and their flags.
//!
//! Apart from their meaning ([`resolve`](super::resolve)) because each flag can be checked alone
//! here, and flags that depend on each other cannot.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::duration;
use crate::host::BackendChoice;
use crate::render::PartialRestore;

/// A drop-in replacement for kube-proxy's iptables mode that restores only what changed.
#[derive(Debug, Parser)]
#[command(
    name = "deltaproxy",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(after_help = "Without a command but with flags, and when called `kube-proxy`, it runs.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keep this node's rules up to date: the daemon
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Print all rules as a payload for `iptables-restore --noflush`
    #[command(after_help = RENDER_EXAMPLES)]
    Render(Box<RenderArgs>),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page: of a command, or of the program
    Man {
        /// The command
        #[arg(value_parser = ["run", "render"])]
        command: Option<String>,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  Beside a cluster, as kube-proxy would be run:
    deltaproxy run --kubeconfig /var/lib/kube-proxy/kubeconfig.conf --cluster-cidr 10.244.0.0/16
  Without a cluster, following a folder of manifests:
    deltaproxy run --manifests ./services
  Only show what would be restored:
    deltaproxy run --manifests ./services --dry-run";

const RENDER_EXAMPLES: &str = "\
Examples:
  deltaproxy render --manifests ./services --cluster-cidr 10.244.0.0/16
  kubectl get services,endpointslices -A -o yaml | deltaproxy render --manifests - --family ipv6";

/// Where Services, EndpointSlices and the Node come from.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct SourceArgs {
    /// The API server's kubeconfig; without it and --master, the Pod's service account is used
    #[arg(long, value_name = "FILE", conflicts_with = "manifests",
          value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub kubeconfig: Option<PathBuf>,
    /// The API server's address, in place of the kubeconfig's
    #[arg(long, value_name = "URL", conflicts_with = "manifests")]
    pub master: Option<String>,
    /// Read objects from a file, a folder or `-` instead of a cluster
    #[arg(long, value_name = "PATH")]
    pub manifests: Option<PathBuf>,
    /// Where manifests' Services without a clusterIP get one from, one network for each family
    #[arg(
        long,
        value_name = "CIDR[,CIDR]",
        default_value = "10.96.0.0/12,fd00:10:96::/112"
    )]
    pub manifests_service_cidr: String,
    /// This node's name, in place of the host name
    #[arg(long, value_name = "NAME")]
    pub hostname_override: Option<String>,
}

/// What shapes the rules.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Rules")]
pub struct RulesArgs {
    /// The Pods' networks: traffic from elsewhere to a cluster IP is masqueraded
    #[arg(long, value_name = "CIDR[,CIDR]", default_value = "")]
    pub cluster_cidr: String,
    /// How traffic from this node's Pods is told apart
    #[arg(long, value_name = "MODE", value_enum, ignore_case = false)]
    pub detect_local_mode: Option<DetectLocalMode>,
    /// The bridge of mode BridgeInterface
    #[arg(long, value_name = "NAME", default_value = "")]
    pub pod_bridge_interface: String,
    /// The beginning of interface names of mode InterfaceNamePrefix
    #[arg(long, value_name = "PREFIX", default_value = "")]
    pub pod_interface_name_prefix: String,
    /// Masquerade all traffic to cluster IPs
    #[arg(long, value_name = "BOOL", default_value = "false", num_args = 0..=1,
          require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub masquerade_all: bool,
    /// The bit of the firewall mark that means: masquerade
    #[arg(long, value_name = "BIT", default_value = "14",
          value_parser = clap::value_parser!(u8).range(0..=31))]
    pub iptables_masquerade_bit: u8,
    /// The addresses NodePorts answer on: networks, or the word `primary`; without it, all
    #[arg(long, value_name = "CIDR[,CIDR]", value_delimiter = ',')]
    pub nodeport_addresses: Vec<String>,
    /// Let NodePorts answer on 127.0.0.1, too
    #[arg(long, value_name = "BOOL", default_value = "true", num_args = 0..=1,
          require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub iptables_localhost_nodeports: bool,
    /// This node's address, in place of the one the cluster knows
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub bind_address: String,
    /// Which iptables programs: `path` takes those in PATH, `auto` follows kubelet's hint
    #[arg(long, value_name = "BACKEND", value_enum, default_value = "path")]
    pub iptables_backend: BackendArg,
}

/// Flags of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Where objects come from.
    #[command(flatten)]
    pub source: SourceArgs,
    /// What shapes the rules.
    #[command(flatten)]
    pub rules: RulesArgs,
    /// When to sync.
    #[command(flatten)]
    pub sync: SyncArgs,
    /// What is served and logged.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// When and how to sync.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sync")]
pub struct SyncArgs {
    /// Print what would be restored instead of restoring it, and go on following the source
    #[arg(long)]
    pub dry_run: bool,
    /// The longest wait for a retry, and half of the time after which health turns red
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub iptables_sync_period: Duration,
    /// The gap between two syncs; without it, as long as the last one took, a second at most
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub iptables_min_sync_period: Option<Duration>,
    /// What partial restores name: only changed chains, or what KEP-3453 says
    #[arg(
        long,
        value_name = "SHAPE",
        value_enum,
        default_value = "changed-chains"
    )]
    pub partial_restore: PartialRestoreArg,
}

/// What is served and logged.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Observability")]
pub struct ServeArgs {
    /// Where Prometheus finds /metrics
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:10249")]
    pub metrics_bind_address: String,
    /// Where load balancers and probes find /healthz and /livez
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:10256")]
    pub healthz_bind_address: String,
    /// How much to log: 4 adds the text of partial restores
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0")]
    pub verbosity: u8,
    /// How to log
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub logging_format: LoggingFormat,
}

/// Flags of `render`.
#[derive(Debug, Clone, Args)]
pub struct RenderArgs {
    /// Where objects come from.
    #[command(flatten)]
    pub source: SourceArgs,
    /// What shapes the rules.
    #[command(flatten)]
    pub rules: RulesArgs,
    /// Whose rules
    #[arg(
        long,
        value_name = "FAMILY",
        value_enum,
        default_value = "ipv4",
        ignore_case = true
    )]
    pub family: FamilyArg,
}

/// `--detect-local-mode`, spelled as kube-proxy spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DetectLocalMode {
    /// By --cluster-cidr
    #[value(name = "ClusterCIDR")]
    ClusterCidr,
    /// By the Node's podCIDRs
    #[value(name = "NodeCIDR")]
    NodeCidr,
    /// By --pod-bridge-interface
    #[value(name = "BridgeInterface")]
    BridgeInterface,
    /// By --pod-interface-name-prefix
    #[value(name = "InterfaceNamePrefix")]
    InterfaceNamePrefix,
}

/// `--iptables-backend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackendArg {
    /// Plain names, through PATH
    Path,
    /// Where kubelet left its hint chains
    Auto,
    /// The -nft programs
    Nft,
    /// The -legacy programs
    Legacy,
}

impl From<BackendArg> for BackendChoice {
    fn from(choice: BackendArg) -> Self {
        match choice {
            BackendArg::Path => Self::Path,
            BackendArg::Auto => Self::Auto,
            BackendArg::Nft => Self::Nft,
            BackendArg::Legacy => Self::Legacy,
        }
    }
}

/// `--partial-restore`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PartialRestoreArg {
    /// Chains whose rules differ from the kernel's
    ChangedChains,
    /// All chains of changed Services, and every shared chain
    #[value(name = "kep-3453")]
    Kep3453,
}

impl From<PartialRestoreArg> for PartialRestore {
    fn from(shape: PartialRestoreArg) -> Self {
        match shape {
            PartialRestoreArg::ChangedChains => Self::ChangedChains,
            PartialRestoreArg::Kep3453 => Self::Kep3453,
        }
    }
}

/// `--logging-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LoggingFormat {
    /// For people
    Text,
    /// For machines
    Json,
}

/// `--family`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FamilyArg {
    /// For iptables-restore
    Ipv4,
    /// For ip6tables-restore
    Ipv6,
}

/// The command line as clap expects it: `run` where it goes without saying, and `-` for `_` in
/// the names of flags, both as kube-proxy has them.
pub fn normalize(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args = args.into_iter();
    let program = args.next().unwrap_or_else(|| "deltaproxy".into());
    let mut rest: Vec<OsString> = args.map(dashes).collect();
    let is_called_kube_proxy = std::path::Path::new(&program)
        .file_name()
        .is_some_and(|name| name == "kube-proxy");
    let first = rest
        .first()
        .and_then(|arg| arg.to_str())
        .unwrap_or_default();
    let is_flag = first.starts_with('-');
    let is_about_program = matches!(first, "-h" | "--help" | "-V" | "--version");
    if (is_called_kube_proxy && rest.is_empty()) || (is_flag && !is_about_program) {
        rest.insert(0, "run".into());
    }
    rest.insert(0, program);
    rest
}

fn dashes(arg: OsString) -> OsString {
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
