//! A destination by which traffic enters a service port.

use std::fmt;
use std::net::IpAddr;

use crate::rules::{Match, Network, Rule, Target};

/// What sort of destination it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The Service's own address.
    ClusterIp,
    /// `spec.externalIPs`.
    ExternalIp,
    /// `status.loadBalancer.ingress`.
    LoadBalancer,
    /// An external IP or a load balancer's address: where it is refused, rules do not say which.
    External,
    /// A port of every address of the node that NodePorts answer on.
    NodePort,
    /// Where load balancers ask whether this node has endpoints.
    HealthCheck,
}

impl Kind {
    /// As in a table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIp => "cluster IP",
            Self::ExternalIp => "external IP",
            Self::LoadBalancer => "load balancer",
            Self::External => "external address",
            Self::NodePort => "node port",
            Self::HealthCheck => "health check",
        }
    }

    /// Every kind.
    const ALL: [Self; 6] = [
        Self::ClusterIp,
        Self::ExternalIp,
        Self::LoadBalancer,
        Self::External,
        Self::NodePort,
        Self::HealthCheck,
    ];

    /// Reads the form of documents for programs.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.id() == id)
    }

    /// As in documents for programs.
    pub const fn id(self) -> &'static str {
        match self {
            Self::ClusterIp => "ClusterIP",
            Self::ExternalIp => "ExternalIP",
            Self::LoadBalancer => "LoadBalancer",
            Self::External => "External",
            Self::NodePort => "NodePort",
            Self::HealthCheck => "HealthCheck",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What becomes of traffic that comes there from outside. Under policy Local, clients of this very
/// node may still be served: then there is a chain, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Sent to an endpoint.
    Served,
    /// Dropped: policy Local, and no endpoint is on this node.
    Dropped,
    /// Refused at once: there is no endpoint.
    Rejected,
    /// A jump is missing on the way to an endpoint: behind the entrance, or, of a catalog that
    /// [heeds gaps](super::Catalog::heed_gaps), on the way there.
    Unreachable,
}

impl Fate {
    /// As in documents for programs.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Served => "Served",
            Self::Dropped => "Dropped",
            Self::Rejected => "Rejected",
            Self::Unreachable => "Unreachable",
        }
    }
}

/// One destination of a service port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entrance {
    /// What sort it is.
    pub kind: Kind,
    /// The address; `None` for ports of the node.
    pub ip: Option<IpAddr>,
    /// The destination port.
    pub port: u16,
    /// What becomes of the traffic.
    pub fate: Fate,
    /// The chain of the nat table that it enters by, where it is served.
    pub chain: Option<Box<str>>,
}

impl fmt::Display for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some(ip @ IpAddr::V6(_)) => write!(f, "[{ip}]:{}", self.port),
            Some(ip) => write!(f, "{ip}:{}", self.port),
            None => write!(f, "*:{}", self.port),
        }
    }
}

/// The one address that a rule asks for.
pub(super) fn destination_ip(rule: &Rule) -> Option<IpAddr> {
    let destination = rule.destination.as_ref().filter(|asked| !asked.negated)?;
    Network::host(destination.value)
}

/// The one destination port that a rule asks for.
pub(super) fn destination_port(rule: &Rule) -> Option<u16> {
    rule.matches.iter().find_map(|one| match one {
        Match::Ports {
            destination: Some(range),
            ..
        } if !range.negated && range.value.first == range.value.last => Some(range.value.first),
        _ => None,
    })
}

/// How a rule of the filter table ends traffic.
pub(super) fn refusal(rule: &Rule) -> Option<Fate> {
    match rule.target.as_ref()? {
        Target::Reject(_) => Some(Fate::Rejected),
        Target::Drop => Some(Fate::Dropped),
        _ => None,
    }
}
