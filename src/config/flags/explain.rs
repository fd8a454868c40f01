//! Flags of `explain`.
//!
//! Apart because they say whose packets are followed, and nothing about rules.

use std::net::IpAddr;

use clap::{Args, ValueEnum};

use super::{NamesArgs, OriginArgs};
use crate::config::Unusable;
use crate::explain::{ClientKind, ClientSelection, Query};

/// Flags of `explain`.
#[derive(Debug, Clone, Args)]
pub struct ExplainArgs {
    /// What to explain: `ADDRESS:PORT[/PROTO]`, `ADDRESS`, `:NODEPORT`, or
    /// `[NAMESPACE/]SERVICE[:PORT[/PROTO]]`
    #[arg(
        value_name = "ADDRESS|SERVICE",
        required = true,
        conflicts_with = "only"
    )]
    pub question: Option<Query>,
    /// Only names.
    #[command(flatten)]
    pub names: NamesArgs,
    /// The namespace of the Service that is named
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Follow the packets of this client
    #[arg(long, value_name = "IP", conflicts_with = "from")]
    pub source: Option<IpAddr>,
    /// The interface that the client's packets come in by, where rules ask for it
    #[arg(long, value_name = "NAME", requires = "source")]
    pub interface: Option<Box<str>>,
    /// Follow the packets of clients of this kind only; without it, all that meet different things
    #[arg(
        long,
        value_name = "KIND",
        value_enum,
        value_delimiter = ',',
        ignore_case = true
    )]
    pub from: Vec<FromArg>,
    /// An address of the node, where a dump or manifests do not tell; several times for several
    #[arg(long, value_name = "IP")]
    pub node_ip: Vec<IpAddr>,
    /// Print the text of every rule, and every endpoint
    #[arg(short, long, conflicts_with_all = ["graph", "output"])]
    pub verbose: bool,
    /// Print the way as a tree, for Graphviz, or as a picture
    #[arg(long, value_name = "FORM", value_enum, conflicts_with = "output")]
    pub graph: Option<GraphArg>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub output: OutputArg,
    /// Which rules.
    #[command(flatten)]
    pub origin: OriginArgs,
}

/// `--from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FromArg {
    /// A pod that is no endpoint
    Pod,
    /// A program on the node
    Node,
    /// Anybody else
    Outside,
}

/// `--graph`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GraphArg {
    /// For a terminal
    Tree,
    /// For Graphviz
    Dot,
    /// For a browser
    Svg,
}

/// `--output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputArg {
    /// To read
    Text,
    /// For programs
    Json,
}

impl ExplainArgs {
    /// What is asked; nothing, if only names are.
    ///
    /// # Errors
    ///
    /// If the namespace contradicts it.
    pub fn asked(&self) -> Result<Option<Query>, Unusable> {
        match (&self.question, &self.namespace) {
            (Some(question), Some(namespace)) => {
                let within = question.within(namespace).map(Some);
                within.map_err(|error| Unusable::of_flag("namespace", error.to_string()))
            }
            (question, _) => Ok(question.clone()),
        }
    }

    /// Whose packets are followed.
    pub fn wanted(&self) -> ClientSelection {
        let kind = |from: &FromArg| match from {
            FromArg::Pod => ClientKind::Pod,
            FromArg::Node => ClientKind::Node,
            FromArg::Outside => ClientKind::Outside,
        };
        match self.source {
            Some(ip) => ClientSelection::Source {
                ip: ip.to_canonical(),
                in_interface: self.interface.clone(),
            },
            None if self.from.is_empty() => ClientSelection::All,
            None => ClientSelection::Kinds(self.from.iter().map(kind).collect()),
        }
    }
}
