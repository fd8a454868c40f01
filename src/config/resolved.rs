//! Configuration of a command: validated values in the types of the modules that use them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::flags::Action;
use super::kube_proxy::KubeProxyConfiguration;
use crate::host::{BackendChoice, ConntrackSettings};
use crate::net::{IpNet, PerFamily};
use crate::render::PartialRestore;
use crate::sync::{NodeEnvironment, PacerOptions};
use crate::watch::api::ApiOptions;

/// Configuration file with its content at the time of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Path as given on the command line.
    pub path: PathBuf,
    /// Content, not decoded.
    pub text: String,
}

/// Source of Services, EndpointSlices and the Node.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// API server. Without kubeconfig and address, that of the Pod's service account.
    Cluster(ApiOptions),
    /// Manifests in files.
    Manifests {
        /// File, folder or `-` for stdin.
        path: PathBuf,
        /// Networks for the cluster IPs of Services that have none.
        service_cidrs: PerFamily<IpNet>,
    },
}

/// Settings that rules depend on, for every command that renders.
#[derive(Debug, Clone)]
pub struct RenderConfig {
    /// Source of objects.
    pub source: Source,
    /// Name of this node in lower case.
    pub node_name: String,
    /// Render options of each family, as far as flags and file decide them.
    pub environment: PerFamily<NodeEnvironment>,
    /// Variant of the iptables binaries.
    pub backend: BackendChoice,
}

/// Configuration of `run`.
#[derive(Debug, Clone)]
pub struct Config {
    /// Settings that rules depend on.
    pub rules: RenderConfig,
    /// Action to perform.
    pub action: Action,
    /// Print restore input instead of applying it.
    pub is_dry_run: bool,
    /// Chains that a partial restore contains.
    pub shape: PartialRestore,
    /// Timing of syncs.
    pub pacer: PacerOptions,
    /// Interval of checks for missing rules: `--iptables-sync-period`.
    pub sync_period: Duration,
    /// Interval of full rule verification: `--verify-interval`. `None` disables it.
    pub verify_interval: Option<Duration>,
    /// Directory for the input of failed restores: `--state-dir`.
    pub state_dir: Option<PathBuf>,
    /// Metrics and health servers.
    pub serving: Serving,
    /// Log verbosity: `-v`.
    pub verbosity: u8,
    /// Log format.
    pub logging: LoggingFormat,
    /// Kernel settings of the node.
    pub node: NodeSettings,
    /// File that this is from. The process exits when its content changes.
    pub file: Option<ConfigFile>,
    /// This configuration in the fields of kube-proxy.
    pub configuration: KubeProxyConfiguration,
    /// Values of all flags of the command line, including defaults.
    pub flags: BTreeMap<String, String>,
    /// Notes for the operator on ignored and deprecated settings, one line each.
    pub notes: Vec<String>,
}

/// Metrics and health servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serving {
    /// Metrics address; `None` disables the server.
    pub metrics: Option<SocketAddr>,
    /// Health address; `None` disables the server.
    pub healthz: Option<SocketAddr>,
    /// Action if an address is not available.
    pub bind_failure: BindFailure,
    /// Profiling pages on the metrics address.
    pub profiling: Profiling,
}

/// State of the pages that change the process or slow it down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profiling {
    /// Not served.
    Off,
    /// Served: `--profiling`.
    On,
}

/// Action if a server cannot listen on its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindFailure {
    /// Retry until the address is available.
    Retry,
    /// Exit: `--bind-address-hard-fail`.
    Exit,
}

/// Kernel settings of the node, written once at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeSettings {
    /// Conntrack settings.
    pub conntrack: ConntrackSettings,
    /// OOM score adjustment of this process, from -1000, never killed, to 1000, killed first.
    pub oom_score_adj: i16,
}

/// Value of `--logging-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggingFormat {
    /// Human-readable lines.
    Text,
    /// One JSON object for each line.
    Json,
}
