//! Services, EndpointSlices and the Node, reduced to what rules depend on: plain data of one
//! family.
//!
//! Types of the API hold an object as it was written; these hold its effective values, with
//! defaults. [`ingest`](crate::ingest) rejects what is not valid, so every value here can be
//! rendered. [`tracker`](crate::tracker) combines a Service with its slices, decides conflicts over
//! frontends (the addresses and ports under which clients reach Services), and applies the limits
//! of namespaces; [`select`](crate::select) chooses among the endpoints. The spelling of a service
//! port's name is an interface: names of chains are hashes of it, and it is in the comments of
//! rules.
//!
//! # Source
//!
//! Upstream: pkg/proxy/serviceport.go, pkg/proxy/endpoint.go (v1.37)

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::net::{IpNet, Port, Protocol};

/// Endpoints that traffic is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrafficPolicy {
    /// All endpoints.
    #[default]
    Cluster,
    /// Endpoints on this node.
    Local,
}

/// Service with rules in this family: it is neither headless nor of type `ExternalName`, and has a
/// cluster IP of the family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Cluster IP of this family.
    pub cluster_ip: IpAddr,
    /// `spec.externalIPs` of this family, in the order of the object, for any Service type.
    pub external_ips: Box<[IpAddr]>,
    /// Load balancer addresses of this family that are the destination of packets on the node
    /// (`ipMode` is `VIP` or absent), for any Service type. KEP: kep.k8s.io/1860
    pub load_balancer_ips: Box<[IpAddr]>,
    /// `spec.loadBalancerSourceRanges`: clients that may use the load balancer addresses; empty
    /// allows all.
    pub source_ranges: Box<[IpNet]>,
    /// `internalTrafficPolicy`. KEP: kep.k8s.io/2086
    pub internal_policy: TrafficPolicy,
    /// `externalTrafficPolicy`, [`TrafficPolicy::Cluster`] for Services it does not apply to.
    pub external_policy: TrafficPolicy,
    /// Timeout of `sessionAffinity: ClientIP`.
    pub affinity: Option<Duration>,
    /// `spec.healthCheckNodePort`, for type `LoadBalancer` with external policy Local.
    pub health_check_node_port: Option<Port>,
    /// Ports, sorted by name and protocol, each pair once.
    pub ports: Box<[ServicePort]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// Name, empty without one; ports of slices have the same name.
    pub name: Arc<str>,
    /// Protocol; ports of slices have the same one.
    pub protocol: Protocol,
    /// Port on the cluster IP, the external IPs and the load balancer addresses.
    pub port: Port,
    /// Port on the addresses of the node, for any Service type.
    pub node_port: Option<Port>,
}

impl Service {
    /// Reports whether clients outside the cluster can reach `port`.
    ///
    /// Upstream: pkg/proxy/serviceport.go, `ExternallyAccessible` (v1.37)
    pub fn is_externally_accessible(&self, port: &ServicePort) -> bool {
        port.node_port.is_some()
            || !self.load_balancer_ips.is_empty()
            || !self.external_ips.is_empty()
    }

    /// Returns the number of rules of the Service without those of its endpoints, within a factor
    /// of three: each port has a few for each address and each source range.
    pub fn rules_without_endpoints(&self) -> usize {
        let addresses = 1 + self.external_ips.len() + self.load_balancer_ips.len();
        let each = addresses.saturating_add(self.source_ranges.len());
        self.ports.len().saturating_mul(each)
    }

    /// Returns the number of endpoints that a slice has for the ports of the Service, summed over
    /// the ports.
    pub fn endpoints_in(&self, slice: &Slice) -> usize {
        let is_own = |port: &&SlicePort| {
            let key = (&*port.name, port.protocol);
            let own = |own: &ServicePort| (&*own.name, own.protocol).cmp(&key);
            self.ports.binary_search_by(own).is_ok()
        };
        let ports = slice.ports.iter().filter(is_own).count();
        ports.saturating_mul(slice.endpoints.len())
    }

    /// Returns every frontend that the Service asks for, sorted, each once for a port with its
    /// lowest rank.
    pub fn frontends(&self, external_ips: ExternalIps) -> Vec<(PortFrontend, FrontendRank)> {
        let mut all = Vec::new();
        for (port_index, port) in (0..=u16::MAX).zip(&self.ports) {
            let of_port = self.frontends_of(port, external_ips);
            all.extend(of_port.map(|(frontend, rank)| {
                let of_port = PortFrontend {
                    port_index,
                    frontend,
                };
                (of_port, rank)
            }));
        }
        if let Some(number) = self
            .health_check_node_port
            .filter(|_| !self.ports.is_empty())
        {
            let frontend = Frontend::HealthCheck(number);
            all.push((
                PortFrontend {
                    port_index: 0,
                    frontend,
                },
                FrontendRank::Allocated,
            ));
        }
        all.sort_unstable();
        all.dedup_by_key(|(frontend, _)| *frontend);
        all
    }

    fn frontends_of(
        &self,
        port: &ServicePort,
        external_ips: ExternalIps,
    ) -> impl Iterator<Item = (Frontend, FrontendRank)> {
        let external: &[IpAddr] = match external_ips {
            ExternalIps::Served => &self.external_ips,
            ExternalIps::Ignored => &[],
        };
        let (number, protocol) = (port.port, port.protocol);
        let addresses = [
            (
                std::slice::from_ref(&self.cluster_ip),
                FrontendRank::Allocated,
            ),
            (&self.load_balancer_ips, FrontendRank::LoadBalancer),
            (external, FrontendRank::External),
        ];
        let addresses = addresses.into_iter().flat_map(move |(ips, rank)| {
            ips.iter()
                .map(move |ip| (Frontend::Address(*ip, number, protocol), rank))
        });
        let node_port = port.node_port.map(|number| {
            let frontend = Frontend::NodePort(number, protocol);
            (frontend, FrontendRank::Allocated)
        });
        addresses.chain(node_port)
    }
}

/// Endpoints of one Service in one family. A Service may have several slices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Service of the label `kubernetes.io/service-name`.
    pub service: ServiceName,
    /// Ports of every endpoint of the slice, in the order of the object.
    pub ports: Box<[SlicePort]>,
    /// Endpoints, in the order of the object.
    pub endpoints: Box<[Endpoint]>,
}

/// Port of a slice. It belongs to the Service port of the same name and protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlicePort {
    /// Name; empty without one.
    pub name: Arc<str>,
    pub protocol: Protocol,
    pub number: Port,
}

/// Address of a Pod or host that serves a Service.
///
/// The three conditions are independent, as in the object: `ready` accounts for
/// `publishNotReadyAddresses` already, and `serving` does not follow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "three conditions of the API and one fact"
)]
pub struct Endpoint {
    /// First address; the API allows more, without a meaning.
    pub ip: IpAddr,
    /// Condition `ready`; true if absent.
    pub is_ready: bool,
    /// Condition `serving`: true for a terminating endpoint that still answers; true if absent.
    pub is_serving: bool,
    /// Condition `terminating`. KEP: kep.k8s.io/1669
    pub is_terminating: bool,
    pub is_local: bool,
    /// Hint for this node. KEP: kep.k8s.io/3015
    pub node_hint: NodeHint,
    /// Zones of `hints.forZones`; empty without a hint. KEP: kep.k8s.io/2433
    pub zone_hints: Box<[Arc<str>]>,
}

/// `hints.forNodes`, as it concerns this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeHint {
    /// Without a hint.
    #[default]
    Absent,
    /// The hint names this node.
    Here,
    /// The hint names only other nodes.
    Elsewhere,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// Part of the cluster that the node is in.
    pub topology: Topology,
    /// Internal addresses in the order of the object, then external ones. The first is the primary
    /// address.
    pub addresses: Vec<IpAddr>,
    /// `spec.podCIDRs`, for local traffic detection in mode `NodeCIDR`.
    pub pod_cidrs: Vec<IpNet>,
    /// The Node is being deleted, or the cluster autoscaler is about to delete it: load balancers
    /// should stop sending.
    pub is_leaving: bool,
}

/// Part of the cluster that a node is in, which hints of endpoints are compared with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// Label `topology.kubernetes.io/zone`; `None` if it is absent or empty.
    pub zone: Option<Arc<str>>,
}

impl Topology {
    /// Returns the topology of a Node; without one, nothing is known of it.
    pub fn of(node: Option<&Node>) -> Self {
        node.map(|node| node.topology.clone()).unwrap_or_default()
    }
}

enum_of_words! {
    all
    /// Kind of the objects that are listed and watched.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Kind {
        /// `v1` Services.
        Service = "Service",
        /// `discovery.k8s.io/v1` EndpointSlices.
        EndpointSlice = "EndpointSlice",
        /// The `v1` Node of this proxy.
        Node = "Node",
    }
}

/// Change of one object, reduced to one family.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// New state of a Service; `None`: it is gone, or has no rules in this family.
    Service(ServiceName, Option<Box<Service>>),
    /// New state of a slice; `None`: it is gone. The time is its annotation
    /// `endpoints.kubernetes.io/last-change-trigger-time`.
    Slice(SliceName, Option<Box<Slice>>, Option<SystemTime>),
    /// New state of this node; `None`: the Node object is gone.
    Node(Option<Box<Node>>),
    /// The list of this kind is complete.
    Listed(Kind),
}

/// Message of a source: a [`Change`], the start of a list, or an object that is kept. A list leaves
/// out the objects that are gone; the queue of changes turns messages into [`Change`]s only, which
/// include their removals.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SourceChange {
    /// A list of this kind begins: the objects up to [`Change::Listed`] are all that exist.
    Listing(Kind),
    /// Change of an object, or the end of a list.
    Change(Change),
    /// The Service exists and cannot be decoded: its last known state is kept.
    ServiceKept(ServiceName),
    /// The slice exists and cannot be decoded: its last known state is kept.
    SliceKept(SliceName),
}

impl From<Change> for SourceChange {
    fn from(change: Change) -> Self {
        Self::Change(change)
    }
}

/// Namespace and name of a Service. Cheap to clone; ordered as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(Arc<str>);

impl ServiceName {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// Returns `namespace/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn namespace(&self) -> &str {
        self.0
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Service, port name and protocol: the owner of chains.
///
/// [`Display`](fmt::Display) writes `namespace/name:port`, or `namespace/name` without a port
/// name. The protocol is not part of it: a TCP and a UDP port can have the same spelling.
///
/// Upstream: pkg/proxy/types.go, `ServicePortName.String` (v1.37)
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServicePortName<'a> {
    pub service: &'a ServiceName,
    /// Name of the port; empty without one.
    pub port: &'a str,
    /// Distinguishes ports of the same name.
    pub protocol: Protocol,
}

impl fmt::Display for ServicePortName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.service.as_str())?;
        if !self.port.is_empty() {
            f.write_str(":")?;
            f.write_str(self.port)?;
        }
        Ok(())
    }
}

/// Namespace and name of an EndpointSlice. Cheap to clone; ordered as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceName(Arc<str>);

impl SliceName {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }
}

impl fmt::Display for SliceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SliceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Service, slices, or both: either may arrive first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceState {
    /// Service; `None` while only slices are known.
    pub service: Option<Arc<Service>>,
    /// Slices, sorted by name.
    pub slices: Vec<(SliceName, Arc<Slice>)>,
    /// Frontends that the Service asks for and another service port has: it has no rules for them.
    pub lost: BTreeSet<PortFrontend>,
    /// Part of the rules that the limits of the namespace allow.
    pub allowance: Allowance,
}

impl ServiceState {
    /// Adds a slice, or removes it if `slice` is `None`; returns the one before.
    ///
    /// A sorted vector is fast enough: moving 20,000 entries takes 20 us, less than decoding one
    /// object, and lists have the order of names, so that each slice is added last.
    pub fn replace_slice(
        &mut self,
        name: &SliceName,
        slice: Option<Arc<Slice>>,
    ) -> Option<Arc<Slice>> {
        let position = self.slices.binary_search_by(|(known, _)| known.cmp(name));
        match (position, slice) {
            (Ok(at), Some(slice)) => {
                let entry = self.slices.get_mut(at);
                entry.map(|(_, known)| std::mem::replace(known, slice))
            }
            (Ok(at), None) => Some(self.slices.remove(at).1),
            (Err(at), Some(slice)) => {
                self.slices.insert(at, (name.clone(), slice));
                None
            }
            (Err(_), None) => None,
        }
    }

    /// Reports whether nothing is known of the Service, as before its first change.
    pub fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty() && self.lost.is_empty()
    }

    /// Returns the health check node port, if the Service asks for one and has it.
    pub fn health_check(&self) -> Option<Port> {
        let service = self
            .service
            .as_ref()
            .filter(|service| !service.ports.is_empty())?;
        let number = service.health_check_node_port?;
        self.has(0, Frontend::HealthCheck(number)).then_some(number)
    }

    /// Reports whether the port at this position has a frontend that it asks for, and so its rules.
    pub fn has(&self, port_index: u16, frontend: Frontend) -> bool {
        self.allowance != Allowance::NoRules
            && !self.lost.contains(&PortFrontend {
                port_index,
                frontend,
            })
    }
}

/// All Services, sorted by name.
///
/// Implemented by the tracker, and by a view that replaces the states of some Services, to render
/// those whose last change the kernel has rejected as they were before.
pub trait Services {
    fn all(&self) -> Box<dyn Iterator<Item = (&ServiceName, &ServiceState)> + '_>;

    fn get(&self, name: &ServiceName) -> Option<&ServiceState>;
}

/// Maximum endpoints of one Service, summed over its ports: as many as the largest cluster of the
/// benchmarks has in all. An EndpointSlice can have 20,000 ports and 1,000 endpoints. Four such
/// objects need more chains than the memory of a node holds; the process would be killed, and all
/// Services would go without updates.
///
/// Differs from upstream: kube-proxy has no limit and runs out of memory.
pub(crate) const MOST_ENDPOINTS: usize = 250_000;

/// Maximum rules of one Service without those of its endpoints, within a factor of three: ports
/// times addresses and source ranges. A Service with one address may have every port of a
/// protocol. One object can have 20,000 ports and 20,000 external IPs, which are 400 million rules
/// and do not fit into the memory of a node.
///
/// Differs from upstream: kube-proxy has no limit and runs out of memory.
pub(crate) const MOST_RULES_WITHOUT_ENDPOINTS: usize = 90_000;

/// Limits of all Services of one namespace together, in one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceLimits {
    /// Endpoints, summed over the ports, as in [`MOST_ENDPOINTS`].
    pub endpoints: usize,
    /// Sum of [`Service::rules_without_endpoints`].
    pub rules_without_endpoints: usize,
}

impl NamespaceLimits {
    /// Limits of every namespace. A Service at its own limit fits into nine tenths of them, below
    /// which a namespace over a limit has to return.
    ///
    /// Endpoints: a restore has to end within five minutes, on a core that it shares, or
    /// everything in it fails. One that adds 250,000 endpoints takes iptables 1.8.9 44 s of CPU
    /// and 0.6 GB of memory on legacy, 142 s and 1.1 GB on nft. With 100,000 it is 9 and 21 s:
    /// time grows with the square, and half a million would take nft longer than there is.
    ///
    /// Rules without endpoints: every new connection of the node passes them one by one. A jump
    /// for each of 250,000 pairs of a port and an address, from objects of 52 KB, makes a
    /// connection to localhost take 28 ms on legacy and 7 ms on nft, where without them it takes
    /// 0.05 ms. A restore of them takes 3 s of CPU and 0.3 GB on legacy, 13 s and 0.6 GB on nft.
    ///
    /// Differs from upstream: kube-proxy has no limits.
    pub const DEFAULT: Self = Self {
        endpoints: 300_000,
        rules_without_endpoints: 100_000,
    };
}

impl Default for NamespaceLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Part of the rules of a Service that the limits of its namespace allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Allowance {
    #[default]
    Full,
    /// The rules of a Service without endpoints: clients get an immediate reject.
    NoEndpoints,
    NoRules,
}

/// Destination that belongs to one service port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Frontend {
    /// Port of a cluster IP, a load balancer address or an external IP.
    Address(IpAddr, Port, Protocol),
    /// Port of the addresses of the node.
    NodePort(Port, Protocol),
    /// Health check node port, which a load balancer probes.
    HealthCheck(Port),
}

/// Frontend that a port of a Service asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortFrontend {
    /// Position of the port among those of its Service; 0 for [`Frontend::HealthCheck`], which is
    /// the whole Service's.
    pub port_index: u16,
    pub frontend: Frontend,
}

/// Rank of a claim to a frontend; the lowest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrontendRank {
    /// Allocated by the cluster: a cluster IP, a NodePort, a health check node port.
    Allocated,
    /// Address in `status.loadBalancer`, which a controller writes.
    LoadBalancer,
    /// Address in `spec.externalIPs`, which the author of the Service writes.
    External,
    /// Frontend that the Service no longer asks for, and has until the change is applied.
    Former,
}

/// Frontend that a service port asks for and another Service has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostFrontend {
    /// Service that asks for it and has no rules for it.
    pub service: ServiceName,
    /// Name of its port; empty without one.
    pub port: Box<str>,
    pub frontend: Frontend,
    /// Rank of the claim that was lost.
    pub rank: FrontendRank,
    /// Service that has the frontend.
    pub owner: ServiceName,
}

impl LostFrontend {
    /// Returns the kind of frontend in the documents of `deltaproxy services`.
    pub const fn kind(&self) -> &'static str {
        Self::kind_of(self.frontend, self.rank)
    }

    /// Returns the kind of a frontend that was claimed with this rank.
    pub(crate) const fn kind_of(frontend: Frontend, rank: FrontendRank) -> &'static str {
        match (frontend, rank) {
            (Frontend::NodePort(..), _) => "NodePort",
            (Frontend::HealthCheck(_), _) => "HealthCheck",
            (Frontend::Address(..), FrontendRank::Allocated) => "ClusterIP",
            (Frontend::Address(..), FrontendRank::LoadBalancer) => "LoadBalancer",
            (Frontend::Address(..), FrontendRank::External) => "ExternalIP",
            (Frontend::Address(..), FrontendRank::Former) => "External",
        }
    }
}

/// Policy for `spec.externalIPs`, with which the author of a Service can claim any address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExternalIps {
    /// External IPs have rules.
    #[default]
    Served,
    /// External IPs have no rules. A port that only they make reachable still has its external
    /// chain, without a jump to it, as upstream.
    Ignored,
}

impl Frontend {
    /// Returns the address; `None` for ports of the node.
    pub const fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Address(ip, ..) => Some(ip),
            Self::NodePort(..) | Self::HealthCheck(_) => None,
        }
    }

    pub const fn port(self) -> Port {
        match self {
            Self::Address(_, port, _) | Self::NodePort(port, _) | Self::HealthCheck(port) => port,
        }
    }

    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Address(.., protocol) | Self::NodePort(_, protocol) => protocol,
            Self::HealthCheck(_) => Protocol::Tcp,
        }
    }
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(ip, port, protocol) => {
                let address = std::net::SocketAddr::new(*ip, port.get());
                write!(f, "{address}/{protocol}")
            }
            Self::NodePort(port, protocol) => write!(f, "NodePort {}/{protocol}", port.get()),
            Self::HealthCheck(port) => write!(f, "health check node port {}", port.get()),
        }
    }
}

#[cfg(feature = "testing")]
#[path = "tests/model.rs"]
mod testing;
