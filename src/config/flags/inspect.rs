//! Flags of `services` and `explain`, the commands that inspect rules.

use std::net::IpAddr;

use clap::{Args, ValueEnum};

use super::{ColorArgs, NamespaceArgs, OriginArgs, SelectionArgs};
use crate::config::problems::Unusable;
use crate::config::settings::{FlagWord, choices};
use crate::inspect::explain::{ClientKind, ClientSelection, Query};

/// Flags of `services`.
#[derive(Debug, Clone, Args)]
pub struct ServicesArgs {
    /// Services to list.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Output format of service ports
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "table"
    )]
    pub output: ServicesOutput,
    /// Omit the header line of the table
    #[arg(long)]
    pub no_headers: bool,
    /// Colors of the table.
    #[command(flatten)]
    pub color: ColorArgs,
    /// Source of the rules.
    #[command(flatten)]
    pub origin: OriginArgs,
}

/// Value of `--output` of `services`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ServicesOutput {
    /// One line for each service port
    Table,
    /// The table with endpoint addresses, affinity and more
    Wide,
    /// All fields, machine-readable
    Json,
    /// All fields, human-readable
    Yaml,
}

/// Flags of `explain`.
#[derive(Debug, Clone, Args)]
pub struct ExplainArgs {
    /// Destination: ADDRESS[:PORT[/PROTO]], :NODEPORT or [NAMESPACE/]SERVICE[:PORT[/PROTO]]
    #[arg(value_name = "ADDRESS|SERVICE")]
    pub destination: Query,
    /// Namespace of the Service.
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
    /// Print all rules and endpoints, and count rules
    ///
    /// The count is of the rules that a packet traverses.
    #[arg(short, long, conflicts_with_all = ["graph", "output"])]
    pub verbose: bool,
    /// Print paths of packets as a graph
    #[arg(long, value_name = "FORM", value_enum, conflicts_with = "output")]
    pub graph: Option<GraphArg>,
    /// Output format, text or json
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "text",
        hide_possible_values = true
    )]
    pub output: OutputArg,
    /// Colors of the text.
    #[command(flatten)]
    pub color: ColorArgs,
    /// Source of the rules.
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

/// Value of `--graph`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GraphArg {
    /// Text for a terminal
    Tree,
    /// Image for a browser
    Svg,
}

/// Value of `--output` of `explain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputArg {
    /// Human-readable
    Text,
    /// Machine-readable
    Json,
}

impl ExplainArgs {
    /// Returns the destination within `--namespace`.
    ///
    /// # Errors
    ///
    /// The Service is qualified with another namespace than `--namespace`.
    pub fn query(&self) -> Result<Query, Unusable> {
        let Some(namespace) = &self.namespace.name else {
            return Ok(self.destination.clone());
        };
        let within = self.destination.within(namespace);
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
