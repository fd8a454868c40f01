//! Views of a service port, its frontends and its endpoints, as rules show them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::query::PortName;
use crate::rules::{Network, Share};
use crate::ruleset::ChainKind;

/// Everything that rules show of one service port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortView {
    /// Frontends, sorted and without duplicates.
    pub frontends: Vec<FrontendView>,
    /// Endpoints of both policies, in the order of the rules.
    pub endpoints: Vec<EndpointView>,
    /// Policy of the cluster IP; `None` if rules do not show it.
    pub internal_policy: Option<Policy>,
    /// Policy of all other frontends; `None` if rules do not show it.
    pub external_policy: Option<Policy>,
    /// Timeout of session affinity; `None` without affinity.
    pub affinity: Option<Duration>,
    /// Clients that the load balancer admits; empty: all.
    pub source_ranges: Vec<Network>,
    /// Chains of the nat table that belong to the service port.
    pub chains: BTreeSet<Box<str>>,
    /// Number of rules in these chains, and of the service port's rules in dispatch chains.
    pub rules: usize,
    /// Number of rules in these chains that cannot be read: each may be of an endpoint.
    pub unreadable_rules: usize,
}

impl PortView {
    /// Returns the port numbers of all frontends.
    pub fn numbers(&self) -> impl Iterator<Item = u16> + Clone {
        self.frontends.iter().map(|frontend| frontend.port)
    }

    /// Reports whether traffic to any frontend reaches an endpoint.
    pub fn is_served(&self) -> bool {
        let mut frontends = self.redirected();
        frontends.any(|frontend| frontend.disposition == FrontendDisposition::Served)
    }

    /// Returns the origins from which no frontend leads to an endpoint, although one has rules.
    pub fn unreachable_from(&self) -> BTreeSet<TrafficOrigin> {
        let with_chain = || self.redirected().filter(|one| one.chain.is_some());
        let is_cut_off = |origin: &TrafficOrigin| {
            with_chain().next().is_some()
                && with_chain().all(|one| one.unreachable_from.contains(origin))
        };
        TrafficOrigin::ALL.into_iter().filter(is_cut_off).collect()
    }

    /// Returns the frontends from which packets are sent to endpoints.
    fn redirected(&self) -> impl Iterator<Item = &FrontendView> {
        let frontends = self.frontends.iter();
        frontends.filter(|frontend| frontend.kind != FrontendKind::HealthCheck)
    }
}

/// Origin of traffic to a frontend, which decides by which built-in chain it enters the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TrafficOrigin {
    /// Other hosts, and Pods that have a network of their own: `PREROUTING`.
    Outside,
    /// Processes of the node: `OUTPUT`.
    Node,
}

impl TrafficOrigin {
    pub const ALL: [Self; 2] = [Self::Outside, Self::Node];
}

enum_of_words! {
    /// Traffic policy: the set of endpoints that traffic may go to.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Policy {
        /// All endpoints of the cluster.
        Cluster = "Cluster",
        /// Endpoints on this node only.
        Local = "Local",
    }
}

impl Policy {
    /// Returns the policy of a chain that balances over endpoints.
    pub(super) fn of_chain(chain: &str) -> Self {
        match ChainKind::of(chain) {
            Some(ChainKind::Local | ChainKind::RetiredExternal) => Self::Local,
            _ => Self::Cluster,
        }
    }
}

/// Address and port where a service port receives traffic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendView {
    /// Field of the Service that the frontend is from.
    pub kind: FrontendKind,
    /// Virtual IP; null for every address of the node that serves NodePorts.
    pub ip: Option<IpAddr>,
    pub port: u16,
    /// Treatment of traffic from outside of the cluster. `unreachableFrom` has the same for
    /// processes of the node.
    #[serde(rename = "fate")]
    pub disposition: FrontendDisposition,
    /// Origins of traffic that does not reach an endpoint, because a jump or a rule is missing or
    /// another Service has the frontend.
    pub unreachable_from: BTreeSet<TrafficOrigin>,
    /// Chain of the nat table that the frontend jumps to; null if there is none.
    pub chain: Option<Box<str>>,
}

impl FrontendView {
    /// Records that traffic of an origin does not reach the endpoints.
    pub(super) fn cut_off(&mut self, origin: TrafficOrigin) {
        self.unreachable_from.insert(origin);
        let is_served = self.disposition == FrontendDisposition::Served;
        if origin == TrafficOrigin::Outside && is_served {
            self.disposition = FrontendDisposition::Unreachable;
        }
    }
}

impl fmt::Display for FrontendView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some(ip @ IpAddr::V6(_)) => write!(f, "[{ip}]:{}", self.port),
            Some(ip) => write!(f, "{ip}:{}", self.port),
            None => write!(f, "*:{}", self.port),
        }
    }
}

enum_of_words! {
    all
    /// `spec.type` of a Service that can have rules, with its spelling there. Each has all
    /// frontends of the one before.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum ServiceType {
        ClusterIp = "ClusterIP",
        NodePort = "NodePort",
        LoadBalancer = "LoadBalancer",
    }
}

impl ServiceType {
    /// Parses the spelling in the specification of a Service. Manifests may leave out `ClusterIP`,
    /// which is the default.
    pub(crate) fn from_spec(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::ClusterIp);
        }
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    /// Returns the least type that has such frontends, as far as rules show them; `None` if every
    /// type may have them.
    pub(crate) fn least<'a>(frontends: impl Iterator<Item = &'a FrontendView>) -> Option<Self> {
        let types = frontends.map(|frontend| match frontend.kind {
            FrontendKind::LoadBalancer | FrontendKind::HealthCheck => Some(Self::LoadBalancer),
            FrontendKind::NodePort => Some(Self::NodePort),
            FrontendKind::ClusterIp => Some(Self::ClusterIp),
            FrontendKind::ExternalIp | FrontendKind::External => None,
        });
        types.max().flatten()
    }
}

enum_of_words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum FrontendKind {
        /// `spec.clusterIPs`.
        #[serde(rename = "ClusterIP")]
        ClusterIp = "cluster IP",
        /// `spec.externalIPs`.
        #[serde(rename = "ExternalIP")]
        ExternalIp = "external IP",
        /// `status.loadBalancer.ingress`.
        LoadBalancer = "load balancer",
        /// External IP or load balancer address: rules that drop or reject do not distinguish them.
        External = "external address",
        /// `spec.ports[].nodePort`, on every address of the node that serves NodePorts.
        NodePort = "node port",
        /// `spec.healthCheckNodePort`: load balancers ask there whether this node has endpoints.
        HealthCheck = "health check",
    }
}

/// Treatment of traffic from outside to a frontend. Under policy Local, clients on this node may
/// still be served; then the frontend has a chain as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum FrontendDisposition {
    Served,
    /// Dropped: the policy is Local, and no endpoint is on this node.
    Dropped,
    /// Rejected: there are no endpoints.
    Rejected,
    /// A jump on the path to an endpoint is missing, or another Service has the frontend.
    // Those before the frontend are known after `Catalog::mark_unreachable`.
    Unreachable,
}

/// A frontend that a service port requests but another Service has. A proxy writes rules for the
/// Service that comes first, so that most conflicts are known from the objects alone; rules of
/// both show one only if other programs or releases wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontendConflict {
    /// Service port that does not have the frontend.
    pub loser: PortName,
    /// Field of the Service that requests it.
    pub kind: FrontendKind,
    /// Virtual IP; `None` for ports of the node.
    pub ip: Option<IpAddr>,
    pub port: u16,
    /// `namespace/name` of the Service that has it.
    pub owner: Box<str>,
    pub rules: LoserRules,
}

enum_of_words! {
    /// Rules that a service port has for a frontend of another Service.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LoserRules {
        Absent = "has no rules for its",
        /// Rules that no packet reaches, because those of the other Service come first.
        Shadowed = "has rules that no packet reaches for its",
    }
}

impl fmt::Display for FrontendConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = &self.loser.protocol;
        match self.ip {
            Some(ip) => write!(f, "{}/{protocol}", SocketAddr::new(ip, self.port)),
            None => write!(f, "*:{}/{protocol}", self.port),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointView {
    /// Address that DNAT rewrites the destination to.
    pub address: SocketAddr,
    /// `KUBE-SEP-*` chain with the DNAT rule.
    pub chain: Box<str>,
    /// Share of new connections under policy Cluster; `None`: it gets none.
    pub cluster: Option<Share>,
    /// Share of new connections under policy Local; `None`: it gets none.
    pub local: Option<Share>,
}
