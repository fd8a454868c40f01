//! Services, EndpointSlices and the Node in one family, their names, and changes of them.
//!
//! [`tracker`](crate::tracker) combines a Service with its slices;
//! [`select`](crate::select) chooses among the endpoints. The spelling of a service port's name is
//! an interface: names of chains are hashes of it, and it is in the comments of rules.

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
    /// Port on the endpoint.
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

/// Kind of the objects that are listed and watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1` Services.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlices.
    EndpointSlice,
    /// The `v1` Node of this proxy.
    Node,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Service, Self::EndpointSlice, Self::Node];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Node => "Node",
        }
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

#[cfg(feature = "testing")]
#[path = "tests/object.rs"]
mod testing;
