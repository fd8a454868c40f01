//! The node whose rules are explained, seen by the rules of one IP family.
//!
//! A dump does not list the node's addresses; unless NodePorts are limited to some, one is assumed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::inspect::catalog::{
    Catalog, FrontendConflict, FrontendKind, PortName, RulesetGap, RulesetSource,
};
use crate::net::IpFamily;
use crate::rules::{
    Backend, HostLookup, Network, RoutedPacket, Rule, RuleSet, SetElement, Table, TracedNode,
};
use crate::ruleset::{
    KUBE_MARK_MASQ, KUBE_NODEPORTS, KUBE_SERVICES, PortComment, is_service_chain,
};

/// Rules of one IP family and what they reveal of the node and its Services.
#[derive(Debug)]
pub struct NodeRules<'a> {
    pub(super) rules: &'a RuleSet,
    pub(super) catalog: Catalog,
    pub(super) index: PortIndex,
    pub(super) traced_node: TracedNode,
    pub(super) detector: PodDetector,
    pub(super) family: IpFamily,
    /// Source address of the node's own processes.
    pub(super) ip: IpAddr,
    /// One address that NodePorts are served on.
    pub(super) node_port_ip: IpAddr,
    /// Addresses that NodePorts are limited to; empty: all of the node's.
    pub(super) node_port_addresses: BTreeSet<IpAddr>,
    /// The node's addresses are not known, so that `ip` is assumed.
    pub(super) is_address_assumed: bool,
    /// Missing jumps and fixed chains, on which packets depend.
    pub(super) gaps: Vec<RulesetGap>,
    /// Tables that are not in the input.
    pub(super) missing_tables: BTreeSet<Table>,
    /// Frontends that several Services declare.
    pub(super) conflicts: Vec<FrontendConflict>,
    /// Backend whose rules are not `rules`, and its rules: packets traverse both.
    pub(super) other_backend: Option<(Backend, &'a RuleSet)>,
}

impl<'a> NodeRules<'a> {
    /// Reads the rules of a family; `addresses` are the node's, of any family, if known.
    pub fn new(rules: &'a RuleSet, family: IpFamily, addresses: &BTreeSet<IpAddr>) -> Self {
        let detector = PodDetector::read(rules);
        let node_port_addresses = node_port_addresses(rules);
        let is_own = |ip: &&IpAddr| IpFamily::of(**ip) == family;
        let mut own: BTreeSet<IpAddr> = addresses.iter().filter(is_own).copied().collect();
        if !own.iter().any(|ip| is_routable(*ip)) {
            own.extend(&node_port_addresses);
        }
        let is_address_assumed = !own.iter().any(|ip| is_routable(*ip));
        let catalog = Catalog::read(rules);
        let routable = || own.iter().copied().filter(|ip| is_routable(*ip));
        // The address of the pods' bridge would be taken for a pod's by the rules.
        let ip = routable().find(|ip| !detector.has(*ip));
        let ip = ip.or_else(|| routable().next());
        let ip = ip.unwrap_or_else(|| assumed_ip(family));
        own.insert(ip);
        let mut node_port_ips = node_port_addresses.iter().copied();
        let node_port_ip = node_port_ips.find(|ip| own.contains(ip)).unwrap_or(ip);
        Self {
            // A ruleset without entry jumps cannot be traced, even if it is a payload.
            gaps: catalog.gaps(rules, RulesetSource::Kernel),
            conflicts: catalog.shadowed.clone(),
            index: PortIndex::new(&catalog),
            catalog,
            traced_node: TracedNode {
                addresses: own,
                ..TracedNode::default()
            },
            rules,
            detector,
            family,
            ip,
            node_port_ip,
            node_port_addresses,
            is_address_assumed,
            missing_tables: BTreeSet::new(),
            other_backend: None,
        }
    }

    /// Adds frontends that several Services declare. A service port that has lost all of its
    /// frontends has no rules, and can still be queried by name.
    #[must_use]
    pub fn with_conflicts(mut self, conflicts: Vec<FrontendConflict>) -> Self {
        for conflict in &conflicts {
            let ports = &mut self.catalog.ports;
            ports.entry(conflict.loser.clone()).or_default();
        }
        self.conflicts.extend(conflicts);
        self
    }

    /// Returns the address of a conflict; for a port of the node, an address that serves it.
    pub(super) fn address_of(&self, conflict: &FrontendConflict) -> IpAddr {
        conflict
            .ip
            .unwrap_or_else(|| self.frontend_ip(conflict.kind))
    }

    /// Returns an address of the node that serves a kind of node-wide frontend.
    pub(super) const fn frontend_ip(&self, kind: FrontendKind) -> IpAddr {
        match kind {
            FrontendKind::HealthCheck => self.ip,
            _ => self.node_port_ip,
        }
    }

    /// Sets the network of the pods, unless rules show one. Rules of Services without endpoints do
    /// not mention it.
    #[must_use]
    pub fn with_pods(mut self, network: Option<Network>) -> Self {
        if self.detector.networks.is_empty() {
            self.detector.networks.extend(network);
        }
        self
    }

    /// Marks tables as missing in the input, so that their lack of rules proves nothing.
    #[must_use]
    pub fn without(self, missing_tables: BTreeSet<Table>) -> Self {
        Self {
            missing_tables,
            ..self
        }
    }

    /// Adds the rules of the other backend of the node.
    #[must_use]
    pub fn with_other_backend(self, other_backend: Option<(Backend, &'a RuleSet)>) -> Self {
        Self {
            other_backend,
            ..self
        }
    }

    /// Adds the routes and IP sets of the node.
    #[must_use]
    pub fn with_host(mut self, host: Arc<dyn HostLookup>) -> Self {
        self.traced_node.host = Some(host);
        self
    }

    /// Sets the interface by which packets leave to all endpoints.
    #[must_use]
    pub fn with_endpoint_interface(self, interface: &str) -> Self {
        let views = self.catalog.ports.values();
        let endpoints = views.flat_map(|view| view.endpoints.iter().map(|one| one.address.ip()));
        let host = EndpointRoutes {
            endpoints: endpoints.collect(),
            interface: interface.into(),
        };
        self.with_host(Arc::new(host))
    }

    /// Returns the interface by which packets from an address enter the node: that by which the
    /// node reaches the address, if that is known.
    pub(super) fn interface_to(&self, ip: IpAddr) -> Option<Box<str>> {
        let host = self.traced_node.host.as_ref()?;
        let found = host.out_interface(&RoutedPacket {
            source: self.ip,
            destination: ip,
            in_interface: None,
            mark: 0,
        });
        found.map(Box::from)
    }

    /// Returns the interface by which packets of a pod on this node enter, if an endpoint shows it:
    /// a pod that the node does not reach by the interface of other hosts.
    pub(super) fn interface_of_pods(&self, outside: IpAddr) -> Option<Box<str>> {
        let other = self.interface_to(outside);
        let views = self.catalog.ports.values();
        let endpoints = views.flat_map(|view| view.endpoints.iter().map(|one| one.address.ip()));
        let mut pods = endpoints
            .filter(|ip| self.detector.has(*ip))
            .take(MAX_ROUTED_PODS);
        pods.find_map(|ip| {
            self.interface_to(ip)
                .filter(|found| Some(found) != other.as_ref())
        })
    }

    /// Returns the address that is assumed to be the node's, if none is known.
    pub(super) fn assumed_ip(&self) -> Option<IpAddr> {
        self.is_address_assumed.then_some(self.ip)
    }

    /// Returns the origin of an address of the node. A destination that is local by itself, such
    /// as one of loopback, needs no evidence.
    pub(super) fn origin_of(&self, ip: IpAddr) -> AddressOrigin {
        if self.assumed_ip() == Some(ip) {
            AddressOrigin::Invented
        } else {
            AddressOrigin::Known
        }
    }

    pub(super) fn has_node_ports(&self, ip: IpAddr) -> bool {
        let is_selected =
            self.node_port_addresses.is_empty() || self.node_port_addresses.contains(&ip);
        is_selected && self.traced_node.is_local(ip)
    }
}

/// Endpoints whose routes are tried. Routes to pods of this node are among the first few, unless
/// a cluster has thousands of endpoints on other nodes.
const MAX_ROUTED_PODS: usize = 4096;

/// Routes of a node that is not there to ask: those to endpoints lead to one interface.
#[derive(Debug)]
struct EndpointRoutes {
    endpoints: BTreeSet<IpAddr>,
    interface: Box<str>,
}

impl HostLookup for EndpointRoutes {
    fn out_interface(&self, packet: &RoutedPacket<'_>) -> Option<&str> {
        let is_endpoint = self.endpoints.contains(&packet.destination);
        is_endpoint.then_some(&*self.interface)
    }

    fn is_in_set(&self, _: &str, _: &SetElement<'_>) -> Option<bool> {
        None
    }
}

fn is_routable(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    }
}

/// Returns an address of the benchmarking networks of RFC 2544 and RFC 5180, which hardly any rule
/// matches.
fn assumed_ip(family: IpFamily) -> IpAddr {
    match family {
        IpFamily::V4 => IpAddr::from([198, 18, 0, 1]),
        IpFamily::V6 => IpAddr::from([0x2001, 2, 0, 0, 0, 0, 0, 1]),
    }
}

/// Returns the addresses that NodePorts are limited to; none if they are on all.
fn node_port_addresses(rules: &RuleSet) -> BTreeSet<IpAddr> {
    let last = rules.rules_of(Table::Nat, KUBE_SERVICES).iter().rev();
    let last = last.take_while(|rule| rule.target_chain() == Some(KUBE_NODEPORTS));
    let hosts = last.filter_map(|rule| rule.destination.filter(|matched| !matched.negated));
    let hosts = hosts.filter_map(|matched| Network::host(matched.value));
    hosts.filter(|ip| is_routable(*ip)).collect()
}

/// Service ports by the port of their frontends and by endpoint, so that a Service with thousands
/// of ports, each a destination of its own, is explained without scanning all ports for each.
#[derive(Debug, Default)]
pub(super) struct PortIndex {
    by_frontend_port: BTreeMap<u16, BTreeSet<PortName>>,
    by_endpoint: BTreeMap<SocketAddr, BTreeSet<PortName>>,
}

impl PortIndex {
    fn new(catalog: &Catalog) -> Self {
        let mut index = Self::default();
        for (name, view) in &catalog.ports {
            for frontend in &view.frontends {
                let names = index.by_frontend_port.entry(frontend.port).or_default();
                names.insert(name.clone());
            }
            for endpoint in &view.endpoints {
                let names = index.by_endpoint.entry(endpoint.address).or_default();
                names.insert(name.clone());
            }
        }
        index
    }

    /// Returns the service ports that have a frontend with that port, sorted.
    pub(super) fn with_frontend_port(&self, port: u16) -> impl Iterator<Item = &PortName> {
        self.by_frontend_port.get(&port).into_iter().flatten()
    }

    pub(super) fn with_endpoint(&self, address: SocketAddr) -> impl Iterator<Item = &PortName> {
        self.by_endpoint.get(&address).into_iter().flatten()
    }

    pub(super) fn has_endpoint(&self, ip: IpAddr) -> bool {
        let ports = SocketAddr::new(ip, 0)..=SocketAddr::new(ip, u16::MAX);
        self.by_endpoint.range(ports).next().is_some()
    }
}

/// Criteria by which the rules recognize pods of this node or cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PodDetector {
    /// Networks of pod addresses.
    pub(super) networks: BTreeSet<Network>,
    /// Interface that pods are behind, perhaps a prefix with a final `+`.
    pub(super) interface: Option<Box<str>>,
}

impl PodDetector {
    /// Collects the criteria from the rules of one family.
    fn read(rules: &RuleSet) -> Self {
        let mut detector = Self::default();
        // Sorted: the first interface counts.
        let services = rules
            .chains(Table::Nat)
            .filter(|(name, _)| *name == KUBE_SERVICES || is_service_chain(name));
        for rule in services.flat_map(|(_, chain)| &chain.rules) {
            if detects_pods(rule) {
                let network = rule.source.map(|matched| matched.value);
                detector.networks.extend(network);
                let interface = rule.in_interface.as_ref();
                detector.interface = detector
                    .interface
                    .or_else(|| interface.map(|matched| matched.value.clone()));
            }
        }
        detector
    }

    /// Reports whether rules take that address for a pod's.
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(ip))
    }

    /// Returns an interface that no pod is behind, if rules match interfaces.
    pub(super) fn other_interface(&self) -> Option<Box<str>> {
        let interface = self.interface.as_deref()?;
        let prefix = interface.trim_end_matches('+');
        let mut names = ["eth0", "ens3"].into_iter();
        names.find(|name| !name.starts_with(prefix)).map(Box::from)
    }

    /// Returns an interface that pods are behind. If only a prefix is known, prefers one that a
    /// rule names, because that one exists.
    pub(super) fn pod_interface(&self, rules: &RuleSet) -> Option<Box<str>> {
        let interface = self.interface.as_deref()?;
        let Some(prefix) = interface.strip_suffix('+') else {
            return Some(interface.into());
        };
        // Sorted: the first name counts.
        let chains = rules
            .chains(Table::Filter)
            .flat_map(|(_, chain)| &chain.rules);
        let names = chains.filter_map(|rule| rule.in_interface.as_ref());
        let mut real = names.filter(|matched| !matched.negated && !matched.value.ends_with('+'));
        let found = real.find(|matched| matched.value.starts_with(prefix));
        Some(found.map_or_else(
            || format!("{prefix}0").into(),
            |matched| matched.value.clone(),
        ))
    }
}

/// Recognizes `! -s CIDR -j KUBE-MARK-MASQ` before the jump to endpoints, and the jump by which
/// pods bypass `externalTrafficPolicy: Local`.
fn detects_pods(rule: &Rule) -> bool {
    let negated = rule.source.is_some_and(|matched| matched.negated)
        || rule
            .in_interface
            .as_ref()
            .is_some_and(|matched| matched.negated);
    let is_bypass = || {
        let comment = rule.comment().and_then(PortComment::parse);
        comment.is_some_and(|(comment, _)| comment == PortComment::PodTraffic)
    };
    match rule.target_chain() {
        Some(KUBE_MARK_MASQ) => negated,
        Some(_) => is_bypass(),
        None => false,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressOrigin {
    /// Given, or an address of this node.
    Known,
    /// Invented: an example, or an assumption without any evidence.
    Invented,
}
