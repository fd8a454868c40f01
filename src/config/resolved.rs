//! What a command starts from: values that fit together.
//!
//! Apart from how they come about, because most readers only want to know what there is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::flags::Action;
use super::kube_proxy::KubeProxyConfiguration;
use crate::host::{BackendChoice, ConntrackSettings};
use crate::net::{IpNet, PerFamily};
use crate::render::PartialRestore;
use crate::sync::{PacerOptions, Surroundings};
use crate::watch::api::ApiOptions;

/// A configuration file as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

/// Where objects come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// An API server. Neither file nor address: the Pod's service account.
    Cluster(ApiOptions),
    /// Files.
    Manifests {
        /// A file, a folder or `-`.
        path: PathBuf,
        /// Where cluster IPs are taken from.
        service_cidrs: PerFamily<IpNet>,
    },
}

/// What rules depend on, whatever the command.
#[derive(Debug, Clone)]
pub struct RenderConfig {
    /// Where objects come from.
    pub source: Source,
    /// This node's name, lower case.
    pub node_name: String,
    /// The options of both families, as far as flags decide them.
    pub surroundings: PerFamily<Surroundings>,
    /// Which programs.
    pub backend: BackendChoice,
}

/// Everything `run` has to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// What rules depend on.
    pub rules: RenderConfig,
    /// What is done.
    pub action: Action,
    /// Print instead of restoring.
    pub is_dry_run: bool,
    /// What partial restores name.
    pub shape: PartialRestore,
    /// When to sync.
    pub pacer: PacerOptions,
    /// `--iptables-sync-period`.
    pub sync_period: Duration,
    /// `--verify-interval`; `None`: never.
    pub verify_interval: Option<Duration>,
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
    /// Where things are served.
    pub serving: Serving,
    /// How much is logged.
    pub verbosity: u8,
    /// How it is logged.
    pub logging: LoggingFormat,
    /// What this machine is to be set to.
    pub node: NodeSettings,
    /// The file that all of this is from; the process ends when it says something else.
    pub file: Option<ConfigFile>,
    /// The same in kube-proxy's words.
    pub configuration: KubeProxyConfiguration,
    /// The flags of the command line and their values, given or not.
    pub flags: BTreeMap<String, String>,
    /// What the operator should know about flags and file, one line each.
    pub notes: Vec<String>,
}

/// Where pages are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serving {
    /// Metrics; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// Health; `None`: nowhere.
    pub healthz: Option<SocketAddr>,
    /// If an address is taken.
    pub taken: Taken,
    /// What is served beside metrics.
    pub profiling: Profiling,
}

/// Whether pages are served that change the process or slow it down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profiling {
    /// They are not.
    Off,
    /// `--profiling`.
    On,
}

/// What to do about an address that cannot be listened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Try again, for as long as it takes.
    Retried,
    /// End: `--bind-address-hard-fail`.
    Fatal,
}

/// What this machine is set to at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeSettings {
    /// The kernel's table of connections.
    pub conntrack: ConntrackSettings,
    /// From -1000, never killed for its memory, to 1000, always first.
    pub oom_score_adj: i16,
}

/// `--logging-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggingFormat {
    /// For people
    Text,
    /// For machines
    Json,
}
