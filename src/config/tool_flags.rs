//! Flags of the commands that read rules or ask daemons, all but `run` and `cleanup`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::flags::{RulesArgs, RunArgs, SourceArgs};
use super::go::{GoDuration, InvalidDuration};
use super::problems::Unusable;
use super::settings::{FlagWord, PARTIAL_RESTORES, choices};
use crate::inspect::catalog::{NamePattern, PortQuery};
use crate::inspect::explain::{ClientKind, ClientSelection, Query};
use crate::net::IpFamily;
use crate::render::PartialRestore;
use crate::watch::api::{ApiOptions, ContextChoice};

/// Objects and settings that desired rules follow from, for every command that renders.
#[derive(Debug, Clone, Args)]
pub struct DesiredArgs {
    /// Source of Services, EndpointSlices and the Node.
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub context: ContextArgs,
    /// Time to wait for the API server.
    #[command(flatten)]
    pub request: RequestArgs,
    /// KubeProxyConfiguration to use instead of these flags
    ///
    /// Its kubeconfig and node name are used without the flags for them.
    #[arg(long, value_name = "FILE", help_heading = "Rules")]
    pub config: Option<PathBuf>,
    /// Settings that decide the content of rules.
    #[command(flatten)]
    pub rules: RulesArgs,
}

impl DesiredArgs {
    /// Reports whether flags name a source of objects.
    pub fn names_objects(&self) -> bool {
        self.source.names_objects() || self.context.is_given()
    }
}

/// Choice of a cluster and its credentials within the kubeconfig, as kubectl has it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct ContextArgs {
    /// Context of the kubeconfig to use
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub context: Option<String>,
    /// Cluster of the kubeconfig to use
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub cluster: Option<String>,
    /// User of the kubeconfig to use
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub user: Option<String>,
}

impl ContextArgs {
    /// Reports whether there is a choice.
    pub fn is_given(&self) -> bool {
        [&self.context, &self.cluster, &self.user]
            .iter()
            .any(|name| name.is_some())
    }

    /// Returns the choice; an empty name is as none, as in kubectl.
    pub(super) fn choice(&self) -> ContextChoice {
        let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        ContextChoice {
            context: named(&self.context),
            cluster: named(&self.cluster),
            user: named(&self.user),
        }
    }
}

/// Time for which a command waits for the API server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct RequestArgs {
    /// Maximum time to list the objects of a cluster; 0 for none
    ///
    /// Without a limit, a request still fails after 60 s without a response. The limit of each node
    /// is 10 s, or this one if it is shorter.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "60s",
        value_parser = not_negative,
        hide_short_help = true
    )]
    pub request_timeout: GoDuration,
}

impl RequestArgs {
    /// Returns the limit; `None` for none.
    pub(super) fn limit(&self) -> Option<Duration> {
        let limit = self.request_timeout.to_std();
        limit.filter(|limit| !limit.is_zero())
    }
}

/// Node that a command reads through the API server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct NodeArgs {
    /// Node to read through the API server instead of this one
    ///
    /// By port-forward to its deltaproxy, or by exec of iptables-save in its kube-proxy;
    /// --kubeconfig and --context select the cluster.
    #[arg(
        id = "node",
        long,
        value_name = "NAME",
        conflicts_with = "metrics_bind_address"
    )]
    pub name: Option<String>,
}

/// Cluster whose nodes `status` asks, as kubectl finds it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct ClusterArgs {
    /// Kubeconfig for the API server
    ///
    /// Without it, those of kubectl are used: KUBECONFIG, or ~/.kube/config.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub context: ContextArgs,
    /// Time to wait for the API server.
    #[command(flatten)]
    pub request: RequestArgs,
}

impl ClusterArgs {
    /// Returns the connection to the API server.
    pub(crate) fn api_options(&self, kubeconfigs: impl FnOnce() -> Vec<PathBuf>) -> ApiOptions {
        ApiOptions {
            kubeconfigs: match &self.kubeconfig {
                Some(file) => vec![file.clone()],
                None => kubeconfigs(),
            },
            context: self.context.choice(),
            list_timeout: self.request.limit(),
            ..ApiOptions::default()
        }
    }
}

/// Parses a duration as of kubectl's flag with this name.
fn not_negative(text: &str) -> Result<GoDuration, String> {
    let duration: GoDuration = text
        .parse()
        .map_err(|error: InvalidDuration| error.to_string())?;
    if duration < GoDuration::ZERO {
        return Err(format!("must not be negative, got {text}"));
    }
    Ok(duration)
}

/// Daemon on this node, which commands ask for its state.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct DaemonArgs {
    /// Metrics address of the daemon [default: that of --config, or 127.0.0.1:10249]
    ///
    /// As given to `run`.
    #[arg(long, value_name = "IP[:PORT]", hide_short_help = true)]
    pub metrics_bind_address: Option<String>,
}

/// Source of the rules that a command inspects: the daemon on this node, the kernel, a dump, or
/// objects to render.
///
/// Without a flag it is the daemon or else the kernel, so that these commands need no cluster.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct OriginArgs {
    /// Dump to read instead of this node
    ///
    /// FILE is the output of iptables-save or ip6tables-save, or `-` for stdin. Give the flag
    /// twice for both families.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["manifests", "kubeconfig", "master", "context", "cluster", "user", "node"]
    )]
    pub from_save: Vec<PathBuf>,
    /// Read the kernel instead of asking the daemon
    ///
    /// The daemon on this node has only the rules that it wrote.
    #[arg(
        long,
        conflicts_with_all = ["from_save", "manifests", "kubeconfig", "master", "context", "cluster", "user", "node"]
    )]
    pub kernel: bool,
    /// Rebuild the rules of a past moment from --state-dir
    ///
    /// TIME is a duration before now, as 30m, or a time in RFC 3339. The history has only the rules
    /// that the daemon wrote.
    #[arg(
        long,
        value_name = "TIME",
        requires = "state_dir",
        conflicts_with_all = ["from_save", "kernel", "metrics_bind_address", "manifests", "kubeconfig", "master", "context", "cluster", "user", "node"],
        hide_short_help = true
    )]
    pub at: Option<PastTime>,
    /// Folder of the records for --at
    #[arg(long, value_name = "DIR", requires = "at", hide_short_help = true)]
    pub state_dir: Option<PathBuf>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub node: NodeArgs,
    /// Objects whose rendered rules are inspected.
    #[command(flatten)]
    pub desired: DesiredArgs,
}

/// Selection of Services by name, by namespace or both.
#[derive(Debug, Clone, Args)]
pub struct SelectionArgs {
    /// Only these Services, as in web, shop/web:http or shop/dns:53/udp
    #[arg(value_name = "NAME")]
    pub names: Vec<NamePattern>,
    #[command(flatten)]
    pub namespace: NamespaceArgs,
}

/// Namespace of the Services that a command inspects.
#[derive(Debug, Clone, Args)]
pub struct NamespaceArgs {
    /// Only Services of this namespace
    #[arg(id = "namespace", short = 'n', long, value_name = "NAMESPACE")]
    pub name: Option<String>,
    /// Services of all namespaces, as without --namespace
    #[arg(
        short = 'A',
        long,
        conflicts_with = "namespace",
        hide_short_help = true
    )]
    pub all_namespaces: bool,
}

impl SelectionArgs {
    /// Combines names and namespace.
    ///
    /// # Errors
    ///
    /// A name is qualified with another namespace than `--namespace`.
    pub fn query(&self) -> Result<PortQuery, Unusable> {
        PortQuery::new(&self.names, self.namespace.name.as_deref())
            .map_err(|error| Unusable::of_flag("namespace", error.to_string()))
    }
}

/// Colors of the commands whose text people read.
#[derive(Debug, Clone, Copy, Args)]
pub struct ColorArgs {
    /// Colors on stdout: always, never, or auto
    ///
    /// With auto, a terminal gets colors unless NO_COLOR is set.
    #[arg(
        long = "color",
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub when: ColorWhen,
}

/// Value of `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless the environment says otherwise
    Auto,
    /// Also to a file or a pipe, such as that of a pager
    Always,
    /// No colors
    Never,
}

/// Flags of `services`.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag")]
pub struct ServicesArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Only Services with these labels, as in app=web
    ///
    /// The API server is asked for their names, because rules have no labels.
    #[arg(
        short = 'l',
        long = "selector",
        value_name = "SELECTOR",
        conflicts_with_all = ["names", "manifests"]
    )]
    pub labels: Option<String>,
    /// Print on which endpoints all nodes disagree
    #[arg(
        long,
        conflicts_with_all = ["output", "problems", "no_headers", "node", "from_save", "manifests", "kernel", "metrics_bind_address", "at"],
        help_heading = "Source"
    )]
    pub all_nodes: bool,
    /// Output format of service ports
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "table"
    )]
    pub output: ServicesOutput,
    /// List only what is not ok, and exit with 1 then
    #[arg(long)]
    pub problems: bool,
    /// Print the connections to each Service port
    ///
    /// The kernel counts the connections that matched a rule since it was written. With
    /// --output=wide there is a line for each endpoint, with its share of the connections and the
    /// share that its rule has. A dump needs the counters of `iptables-save -c`.
    #[arg(
        long,
        conflicts_with_all = ["problems", "all_nodes", "manifests", "kubeconfig", "master", "context", "cluster", "user", "node"]
    )]
    pub counters: bool,
    /// Omit the header line of the table
    #[arg(long)]
    pub no_headers: bool,
    #[command(flatten)]
    pub color: ColorArgs,
    #[command(flatten)]
    pub origin: OriginArgs,
}

/// Value of `--output` of `services`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ServicesOutput {
    /// One line for each service port
    Table,
    /// The table with types, policies, endpoint addresses and more
    Wide,
    /// service/NAME, as kubectl prints it
    Name,
    /// All fields, machine-readable
    Json,
    /// All fields, human-readable
    Yaml,
}

impl ServicesOutput {
    /// Reports whether it is for people, who read notes as well.
    pub(crate) const fn is_table(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

/// Flags of `explain`.
#[derive(Debug, Clone, Args)]
pub struct ExplainArgs {
    /// Address, Service, DNS name of a Service, URL or :NODEPORT
    ///
    /// ADDRESS[:PORT[/PROTO]], [NAMESPACE/]SERVICE[:PORT[/PROTO]] or
    /// SERVICE.NAMESPACE[.svc[.DOMAIN]][:PORT[/PROTO]], which is the cluster IP only. The scheme of
    /// a URL gives its port.
    #[arg(value_name = "DESTINATION")]
    pub destination: Query,
    /// Port of the destination, if that has none
    pub port: Option<String>,
    #[command(flatten)]
    pub namespace: NamespaceArgs,
    /// Trace packets from this client address
    #[arg(long, value_name = "IP", conflicts_with = "from")]
    pub source: Option<IpAddr>,
    /// Interface on which packets of --source arrive
    ///
    /// Needed where rules match the incoming interface.
    #[arg(long, value_name = "NAME", requires = "source")]
    pub interface: Option<Box<str>>,
    /// Kinds of clients whose packets are traced instead of all
    ///
    /// Without it, kinds of clients with the same outcome are traced once.
    #[arg(
        long,
        value_name = "KIND",
        value_parser = choices(CLIENTS),
        value_delimiter = ',',
        ignore_case = true
    )]
    pub from: Vec<ClientKind>,
    /// Address of the node, if the source lacks it
    ///
    /// Give the flag once for each address.
    #[arg(long, value_name = "IP")]
    pub node_ip: Vec<IpAddr>,
    /// Interface by which packets leave to endpoints
    ///
    /// For dumps and other nodes. On this node, the kernel is asked for the route of each packet.
    #[arg(long, value_name = "NAME", conflicts_with = "all_nodes")]
    pub route: Option<Box<str>>,
    /// Exit with code 1 unless all clients agree with this
    #[arg(long, value_name = "RESULT", value_enum)]
    pub expect: Option<ExpectArg>,
    /// Print all rules and endpoints, and count rules
    ///
    /// The count is of the rules that a packet traverses.
    #[arg(short, long, conflicts_with_all = ["graph", "output"])]
    pub verbose: bool,
    /// Print for which packets all nodes disagree
    #[arg(
        long,
        conflicts_with_all = ["output", "verbose", "graph", "expect", "node_ip", "node", "from_save", "manifests", "kernel", "metrics_bind_address", "at"],
        help_heading = "Source"
    )]
    pub all_nodes: bool,
    /// Print paths of packets as a graph
    #[arg(long, value_name = "FORM", value_enum, conflicts_with = "output")]
    pub graph: Option<GraphArg>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub color: ColorArgs,
    #[command(flatten)]
    pub origin: OriginArgs,
}

/// Words of `--from`.
const CLIENTS: &[FlagWord<ClientKind>] = &[
    (
        "pod",
        "Pod on this node that is not an endpoint",
        ClientKind::Pod,
    ),
    ("node", "Process on the node", ClientKind::Node),
    (
        "outside",
        "Client outside of the cluster",
        ClientKind::Outside,
    ),
];

/// Value of `--expect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExpectArg {
    /// All packets reach an endpoint and are answered
    Reachable,
    /// None does
    Unreachable,
}

/// Value of `--graph`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GraphArg {
    /// Text for a terminal
    Tree,
    /// Image for a browser
    Svg,
}

/// Format of commands that print a text or a document.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputArgs {
    /// Output format, text or json
    #[arg(
        id = "output",
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        value_enum,
        default_value = "text",
        hide_possible_values = true
    )]
    pub format: OutputArg,
}

/// Value of `--output` of these commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputArg {
    /// Human-readable
    Text,
    /// Machine-readable
    Json,
}

/// Flags of `shadow-report`.
#[derive(Debug, Clone, Args)]
pub struct ShadowReportArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    /// Metrics address of the shadow [default: 127.0.0.1:10349]
    ///
    /// As given to `run --shadow`.
    #[arg(
        long,
        value_name = "IP[:PORT]",
        help_heading = "Source",
        conflicts_with_all = ["node", "all_nodes"]
    )]
    pub metrics_bind_address: Option<String>,
    /// Node to ask through the API server instead of this one
    #[arg(long, value_name = "NAME", help_heading = "Source")]
    pub node: Option<String>,
    /// Add up all nodes of the cluster
    #[arg(long, conflicts_with = "node", help_heading = "Source")]
    pub all_nodes: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Flags of `status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    /// KubeProxyConfiguration of the daemon
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub node: NodeArgs,
    /// Print a line for each node, those not well first
    #[arg(
        long,
        conflicts_with_all = ["node", "metrics_bind_address", "config"],
        help_heading = "Source"
    )]
    pub all_nodes: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Flags of `check`.
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// Leave out the daemon, before an installation
    #[arg(long, help_heading = "Check")]
    pub pre: bool,
    #[command(flatten, next_help_heading = "Check")]
    pub output: OutputArgs,
    /// Configuration that the daemon has, or will have.
    #[command(flatten)]
    pub run: RunArgs,
}

impl ExplainArgs {
    /// Returns the destination with `PORT` and within `--namespace`.
    ///
    /// # Errors
    ///
    /// The destination has another port or namespace than these, or the port is invalid.
    pub fn query(&self) -> Result<Query, Unusable> {
        let destination = match &self.port {
            Some(port) => self.destination.with_port(port),
            None => Ok(self.destination.clone()),
        };
        let destination =
            destination.map_err(|error| Unusable::of_argument("PORT", error.to_string()))?;
        let Some(namespace) = &self.namespace.name else {
            return Ok(destination);
        };
        let within = destination.within(namespace);
        within.map_err(|error| Unusable::of_flag("namespace", error.to_string()))
    }

    /// Returns the clients whose packets are traced.
    pub fn client_selection(&self) -> ClientSelection {
        match self.source {
            Some(ip) => ClientSelection::Source {
                ip: ip.to_canonical(),
                in_interface: self.interface.clone(),
            },
            None if self.from.is_empty() => ClientSelection::All,
            None => ClientSelection::Kinds(self.from.clone()),
        }
    }
}

/// Flags of `render`.
#[derive(Debug, Clone, Args)]
pub struct RenderArgs {
    /// Services to render. A selection of them is printed for reading and cannot be restored.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// IP family, ipv4 or ipv6
    ///
    /// The output is input for iptables-restore or for ip6tables-restore.
    #[arg(
        long,
        value_name = "FAMILY",
        value_parser = choices(FAMILIES),
        default_value = "ipv4",
        hide_possible_values = true,
        ignore_case = true
    )]
    pub family: IpFamily,
    /// Print the partial restore since these manifests
    ///
    /// PATH is a file, a folder or `-`. Its rules are those in the kernel.
    #[arg(long, value_name = "PATH")]
    pub since: Vec<PathBuf>,
    /// Chains that the partial restore contains
    #[arg(
        long,
        value_name = "SHAPE",
        value_parser = choices(PARTIAL_RESTORES),
        default_value = "changed-chains",
        requires = "since",
        hide_short_help = true
    )]
    pub partial_restore: PartialRestore,
    #[command(flatten)]
    pub desired: DesiredArgs,
}

/// Words of `--family`.
const FAMILIES: &[FlagWord<IpFamily>] = &[
    ("ipv4", "Input for iptables-restore", IpFamily::V4),
    ("ipv6", "Input for ip6tables-restore", IpFamily::V6),
];

/// Flags of `diff`.
///
/// Objects always stand for the desired side here, unlike in [`OriginArgs`].
#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// Services to compare. Differences of other Services are only counted.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Dump to compare instead of the kernel
    ///
    /// FILE is the output of iptables-save or ip6tables-save, or `-` for stdin. Give the flag
    /// twice for both families.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "from_manifests",
        help_heading = "Live rules"
    )]
    pub from_save: Vec<PathBuf>,
    /// Manifests to compare instead of the kernel
    ///
    /// PATH is a file, a folder or `-` for stdin.
    #[arg(
        long,
        value_name = "PATH",
        requires = "manifests",
        help_heading = "Live rules"
    )]
    pub from_manifests: Vec<PathBuf>,
    /// Node to compare, read through the API server
    ///
    /// Its live rules are read as by services --node.
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["from_save", "from_manifests", "manifests", "hostname-override"],
        help_heading = "Live rules"
    )]
    pub node: Option<String>,
    /// Past moments to compare, from --state-dir
    ///
    /// Give the flag twice: the rules of the second moment replace the desired ones. TIME is a
    /// duration before now, as 30m, or in RFC 3339.
    #[arg(
        long,
        value_name = "TIME",
        requires = "state_dir",
        conflicts_with_all = ["from_save", "from_manifests", "node", "manifests", "kubeconfig", "master", "context", "cluster", "user"],
        help_heading = "Live rules",
        hide_short_help = true
    )]
    pub at: Vec<PastTime>,
    /// Folder of the records for --at
    #[arg(
        long,
        value_name = "DIR",
        requires = "at",
        help_heading = "Live rules",
        hide_short_help = true
    )]
    pub state_dir: Option<PathBuf>,
    /// Output format
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "text",
        ignore_case = true,
        help_heading = "Output"
    )]
    pub output: DiffFormat,
    /// Short for --output unified
    #[arg(long, conflicts_with = "output", help_heading = "Output")]
    pub unified: bool,
    /// Exit with code 1 for cosmetic differences as well
    #[arg(long, help_heading = "Output")]
    pub strict: bool,
    /// Colors of text and unified output.
    #[command(flatten)]
    pub color: ColorArgs,
    #[command(flatten)]
    pub desired: DesiredArgs,
}

/// Value of `--output` of `diff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// Effects on traffic, by service port
    Text,
    /// Rules as in diff -u
    Unified,
    /// Table and rules for a pull request or a ticket
    Markdown,
    /// Machine-readable
    Json,
}

/// Moment in the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastTime {
    Ago(Duration),
    /// Time in RFC 3339.
    At(Timestamp),
}

impl FromStr for PastTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(at) = text.parse() {
            return Ok(Self::At(at));
        }
        let duration: GoDuration = text.parse().map_err(|error: InvalidDuration| {
            format!("{error}\nhint: or give a time as in RFC 3339, like 2026-03-01T12:30:00Z")
        })?;
        let ago = duration.to_std();
        ago.map(Self::Ago)
            .ok_or_else(|| format!("must not be negative, got {text}"))
    }
}
