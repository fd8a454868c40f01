//! One service port as rules show it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use super::endpoints::Endpoint;
use super::entrance::{Entrance, Fate};
use crate::rules::{Network, Rule};

/// `namespace/name:port` and the protocol.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName {
    /// As in comments; without `:port` if the port has no name.
    pub name: Box<str>,
    /// Lower case.
    pub protocol: Box<str>,
}

impl PortName {
    /// The service port that a rule of a shared chain is about, and what its comment says of it;
    /// `None` for rules about none, whose comments are missing or `kubernetes ...`.
    pub fn of_shared(rule: &Rule) -> Option<(Self, &str)> {
        let comment = rule.comment()?;
        let (name, what) = comment.split_once(' ').unwrap_or((comment, ""));
        let protocol = rule.protocol.as_ref()?.value.as_ref();
        name.split_once('/')?;
        let key = Self {
            name: name.into(),
            protocol: protocol.into(),
        };
        Some((key, what))
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        self.name
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    /// The Service's name without its namespace.
    pub fn service(&self) -> &str {
        let (_, rest) = self.name.split_once('/').unwrap_or(("", &self.name));
        rest.split_once(':').map_or(rest, |(service, _)| service)
    }

    /// The port's name, empty if it has none.
    pub fn port(&self) -> &str {
        self.name.split_once(':').map_or("", |(_, port)| port)
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.protocol)
    }
}

/// Which endpoints traffic may go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// All of the cluster.
    Cluster,
    /// Those on this node.
    Local,
}

impl Policy {
    /// As in the specification of a Service.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Local => "Local",
        }
    }
}

/// Everything that rules say of one service port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortView {
    /// Where it is reached: sorted, each once.
    pub entrances: Vec<Entrance>,
    /// Who answers, in the order of the rules; those of both policies.
    pub endpoints: Vec<Endpoint>,
    /// The policy of the cluster IP, as far as it can be told.
    pub internal_policy: Option<Policy>,
    /// The policy of everything else, as far as it can be told.
    pub external_policy: Option<Policy>,
    /// How long clients stay with their endpoint.
    pub affinity: Option<Duration>,
    /// Whom the load balancer admits; empty: everybody.
    pub source_ranges: Vec<Network>,
    /// Its chains in the nat table.
    pub chains: BTreeSet<Box<str>>,
    /// The rules in them, and its rules in the chains that all Services share.
    pub rules: usize,
}

impl PortView {
    /// The numbers of the ports that it is reached at.
    pub fn numbers(&self) -> impl Iterator<Item = u16> + Clone {
        self.entrances.iter().map(|entrance| entrance.port)
    }

    /// Whether any traffic reaches an endpoint.
    pub fn is_served(&self) -> bool {
        let mut fates = self.entrances.iter().map(|entrance| entrance.fate);
        fates.any(|fate| fate == Fate::Served)
    }
}
