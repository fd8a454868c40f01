//! Reads a catalog from a ruleset: first the dispatch chains, then every chain they jump to.
//!
//! Source: `kube-proxy` 1.20 to 1.37. Until 1.23 external traffic under policy Local was sent to
//! `KUBE-XLB-*`, and packets were marked for masquerading in `KUBE-SERVICES` and `KUBE-NODEPORTS`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::thread;
use std::time::Duration;

use hashbrown::HashMap;

use super::Catalog;
use super::query::{PortName, UnknownRules};
use super::reach::{Owners, dispatch_rules, leads_to_endpoint, stale_chains, used_marks};
use super::view::{
    EndpointView, FrontendDisposition, FrontendKind, FrontendView, Policy, PortView, TrafficOrigin,
};
use crate::rules::{Chain, Match, Network, RecentAction, Rule, RuleSet, Share, Table, Target};
use crate::ruleset::{
    ChainKind, DispatchChain, KUBE_MARK_MASQ, KUBE_SERVICES, PortComment, is_service_chain,
};

impl Catalog {
    /// Reads the rules of one IP family. Those of dispatch trees count as rules of their dispatch
    /// chain.
    pub fn read(rules: &RuleSet) -> Self {
        let mut catalog = Self::default();
        let mut dispatch = DispatchReader::default();
        thread::scope(|scope| {
            // Looks at each rule, which takes as long as reading the dispatch chains.
            scope.spawn(|| {
                catalog.unknown = unknown_rules(rules);
                catalog.used_marks = used_marks(rules);
            });
            // In the order in which packets traverse the chains: the first owner of a frontend has
            // it.
            dispatch.read_virtual_ips(rules);
            dispatch.read_node_ports(rules);
            dispatch.read_filter_chains(rules);
        });
        let DispatchReader { mut ports, owners } = dispatch;
        // Only the names are sorted: to move a view takes ten times as long.
        let mut names: Vec<PortName> = ports.keys().cloned().collect();
        names.sort_unstable();
        let sorted = names.iter().filter_map(|name| ports.remove_entry(name));
        catalog.ports = sorted.collect();
        let mut views: Vec<&mut PortView> = catalog.ports.values_mut().collect();
        read_all_chains(&mut views, rules);
        catalog.shadowed = owners.into_shadowed();
        catalog.mark_shadowed();
        catalog.stale = stale_chains(&catalog, rules);
        catalog
    }

    /// Returns each chain of the nat table that belongs to a service port, with that service port.
    pub fn owners(&self) -> BTreeMap<&str, &PortName> {
        let ports = self.ports.iter();
        ports
            .flat_map(|(name, view)| view.chains.iter().map(move |chain| (&**chain, name)))
            .collect()
    }

    /// Marks the frontends as unreachable that another Service has.
    fn mark_shadowed(&mut self) {
        for conflict in &self.shadowed {
            let Some(view) = self.ports.get_mut(&conflict.loser) else {
                continue;
            };
            let is_meant = |frontend: &&mut FrontendView| {
                let key = (frontend.kind, frontend.ip, frontend.port);
                key == (conflict.kind, conflict.ip, conflict.port)
            };
            for frontend in view.frontends.iter_mut().filter(is_meant) {
                frontend.disposition = FrontendDisposition::Unreachable;
                frontend.unreachable_from = TrafficOrigin::ALL.into();
            }
        }
    }
}

/// Reader of dispatch chains: service ports with the frontends that were read, and the owners of
/// these. Each rule looks up its service port, in any order, so that they are not sorted yet.
#[derive(Default)]
struct DispatchReader {
    ports: HashMap<PortName, PortView>,
    owners: Owners,
}

impl DispatchReader {
    fn read_virtual_ips(&mut self, rules: &RuleSet) {
        for rule in dispatch_rules(rules, DispatchChain::NatServices) {
            let Some((name, comment)) = self.port_of(rule) else {
                continue;
            };
            let kind = match comment {
                Some(PortComment::ClusterIp) => FrontendKind::ClusterIp,
                Some(PortComment::ExternalIp) => FrontendKind::ExternalIp,
                Some(PortComment::LoadBalancerIp) => FrontendKind::LoadBalancer,
                _ => match rule.target_chain().and_then(ChainKind::of) {
                    Some(ChainKind::Cluster | ChainKind::Local) => FrontendKind::ClusterIp,
                    Some(ChainKind::External | ChainKind::RetiredExternal) => {
                        FrontendKind::External
                    }
                    Some(ChainKind::SourceRanges) => FrontendKind::LoadBalancer,
                    Some(ChainKind::Endpoint) | None => continue,
                },
            };
            self.add_served(name, rule, kind);
        }
    }

    fn read_node_ports(&mut self, rules: &RuleSet) {
        for rule in dispatch_rules(rules, DispatchChain::NatNodePorts) {
            // A rule with a destination only counts packets to loopback.
            if let Some((name, _)) = self.port_of(rule)
                && rule.destination.is_none()
            {
                self.add_served(name, rule, FrontendKind::NodePort);
            }
        }
    }

    /// Reads frontends that are dropped or rejected, and health check node ports.
    fn read_filter_chains(&mut self, rules: &RuleSet) {
        let chains = [
            (DispatchChain::FilterServices, FrontendKind::ClusterIp),
            (
                DispatchChain::FilterExternalServices,
                FrontendKind::External,
            ),
            (DispatchChain::FilterNodePorts, FrontendKind::HealthCheck),
            (
                DispatchChain::FilterProxyFirewall,
                FrontendKind::LoadBalancer,
            ),
        ];
        for (chain, kind) in chains {
            for rule in dispatch_rules(rules, chain) {
                let Some((name, comment)) = self.port_of(rule) else {
                    continue;
                };
                let is_block = matches!(
                    comment,
                    Some(PortComment::NoEndpoints | PortComment::NoLocalEndpoints)
                );
                let disposition = match kind {
                    FrontendKind::HealthCheck => FrontendDisposition::Served,
                    // Drops sources outside of the source ranges; all others are served.
                    FrontendKind::LoadBalancer => continue,
                    _ if !is_block => continue,
                    _ => disposition_of(rule).unwrap_or(FrontendDisposition::Rejected),
                };
                let (ip, Some(port)) = (destination_ip(rule), destination_port(rule)) else {
                    continue;
                };
                let kind = match (kind, ip) {
                    (FrontendKind::External, None) => FrontendKind::NodePort,
                    (kind, _) => kind,
                };
                let frontend = FrontendView {
                    kind,
                    ip,
                    port,
                    disposition,
                    unreachable_from: BTreeSet::new(),
                    chain: None,
                };
                self.owners.claim(&name, &frontend);
                add_unserved(self.ports.entry(name).or_default(), frontend);
            }
        }
    }

    /// Returns the service port that a rule of a dispatch chain is about, and its comment; counts
    /// the rule.
    fn port_of(&mut self, rule: &Rule) -> Option<(PortName, Option<PortComment>)> {
        let (name, comment) = PortName::of_dispatch_rule(rule)?;
        self.ports.entry(name.clone()).or_default().rules += 1;
        Some((name, comment))
    }

    /// Adds the frontend of a rule that jumps to a chain of the service port.
    fn add_served(&mut self, name: PortName, rule: &Rule, kind: FrontendKind) {
        let target = rule.target_chain();
        let (Some(chain), Some(port)) = (
            target.filter(|chain| *chain != KUBE_MARK_MASQ),
            destination_port(rule),
        ) else {
            return;
        };
        let frontend = FrontendView {
            kind,
            ip: destination_ip(rule),
            port,
            disposition: FrontendDisposition::Served,
            unreachable_from: BTreeSet::new(),
            chain: Some(chain.into()),
        };
        // A rule with more conditions leaves packets to the rules after it.
        if rule.source.is_none() && rule.in_interface.is_none() {
            self.owners.claim(&name, &frontend);
        }
        let view = self.ports.entry(name).or_default();
        view.frontends.push(frontend);
    }
}

/// Adds a frontend of the filter table. One that is dropped or rejected for clients outside may
/// have a chain already, to which clients of this node are sent.
fn add_unserved(view: &mut PortView, frontend: FrontendView) {
    let key = |frontend: &FrontendView| {
        let is_health_check = frontend.kind == FrontendKind::HealthCheck;
        (frontend.ip, frontend.port, is_health_check)
    };
    let wanted = key(&frontend);
    match view.frontends.iter_mut().find(|known| key(known) == wanted) {
        Some(known) => known.disposition = frontend.disposition,
        None => view.frontends.push(frontend),
    }
}

/// Returns the single address that a rule matches.
fn destination_ip(rule: &Rule) -> Option<IpAddr> {
    let destination = rule.destination.as_ref().filter(|to| !to.negated)?;
    Network::host(destination.value)
}

/// Returns the single destination port that a rule matches.
fn destination_port(rule: &Rule) -> Option<u16> {
    rule.matches.iter().find_map(|one| match one {
        Match::Ports {
            destination: Some(range),
            ..
        } if !range.negated && range.value.first == range.value.last => Some(range.value.first),
        _ => None,
    })
}

/// Returns the disposition that the target of a filter rule causes.
fn disposition_of(rule: &Rule) -> Option<FrontendDisposition> {
    match rule.target.as_ref()? {
        Target::Reject(_) => Some(FrontendDisposition::Rejected),
        Target::Drop => Some(FrontendDisposition::Dropped),
        _ => None,
    }
}

/// Service ports for which a thread is worth its start.
const MIN_OF_THREAD: usize = 512;

/// Reads the chains of service ports, on all cores if they are many.
fn read_all_chains(views: &mut [&mut PortView], rules: &RuleSet) {
    let read = |views: &mut [&mut PortView]| {
        for view in views {
            read_chains(view, rules);
            view.frontends.sort_unstable();
            view.frontends.dedup();
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = views.len().div_ceil(cores).max(MIN_OF_THREAD);
    let (first, rest) = views.split_at_mut(share.min(views.len()));
    thread::scope(|scope| {
        for views in rest.chunks_mut(share) {
            scope.spawn(|| read(views));
        }
        read(first);
    });
}

/// Follows the jumps from the frontends.
fn read_chains(view: &mut PortView, rules: &RuleSet) {
    let frontends = view.frontends.iter();
    let first = frontends.filter_map(|frontend| frontend.chain.as_deref());
    let mut waiting: Vec<&str> = first.collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        let Some(chain) = rules.chain(Table::Nat, name).filter(|_| seen.insert(name)) else {
            continue;
        };
        view.rules += chain.rules.len();
        let unreadable = chain.rules.iter().filter(|rule| rule.is_unparsed());
        view.unreadable_rules += unreadable.count();
        let targets = chain.rules.iter().filter_map(Rule::target_chain);
        waiting.extend(targets.filter(|target| is_service_chain(target)));
    }
    view.chains = seen.into_iter().map(Box::from).collect();
    read_empty_local_chains(view, rules);
    for frontend in &mut view.frontends {
        let Some(chain) = frontend.chain.as_deref() else {
            continue;
        };
        let is_served = frontend.disposition == FrontendDisposition::Served;
        let cut_off = TrafficOrigin::ALL.map(|origin| {
            // Without a local endpoint, policy Local has no rule for clients outside.
            let is_blocked = origin == TrafficOrigin::Outside && !is_served;
            (
                origin,
                !is_blocked && !leads_to_endpoint(rules, chain, origin),
            )
        });
        for (origin, _) in cut_off.into_iter().filter(|(_, is_cut_off)| *is_cut_off) {
            frontend.cut_off(origin);
        }
    }
    read_policies(view, rules);
    read_endpoints(view, rules);
    read_source_ranges(view, rules);
}

/// Until 1.23 a `KUBE-XLB-*` chain without a local endpoint dropped external traffic itself.
fn read_empty_local_chains(view: &mut PortView, rules: &RuleSet) {
    let drops_all = |name: &str| {
        let mut targets = rules
            .rules_of(Table::Nat, name)
            .iter()
            .filter_map(Rule::target_chain);
        is_kind(name, ChainKind::RetiredExternal) && !targets.any(is_endpoint_chain)
    };
    if view.chains.iter().any(|name| drops_all(name)) {
        let is_external = |frontend: &&mut FrontendView| {
            !matches!(
                frontend.kind,
                FrontendKind::ClusterIp | FrontendKind::HealthCheck
            )
        };
        for frontend in view.frontends.iter_mut().filter(is_external) {
            frontend.disposition = FrontendDisposition::Dropped;
        }
    }
}

fn read_policies(view: &mut PortView, rules: &RuleSet) {
    for frontend in &view.frontends {
        // Only policy Local drops.
        let is_dropped = frontend.disposition == FrontendDisposition::Dropped;
        let dropped = is_dropped.then_some(Policy::Local);
        match (frontend.kind, &frontend.chain) {
            // Only policy Local has health checks.
            (FrontendKind::HealthCheck, _) => view.external_policy = Some(Policy::Local),
            (FrontendKind::ClusterIp, Some(chain)) => {
                view.internal_policy = Some(Policy::of_chain(chain));
            }
            (FrontendKind::ClusterIp, None) => {
                view.internal_policy = view.internal_policy.or(dropped);
            }
            (_, Some(chain)) => {
                let policy = external_policy(chain, rules).or(dropped);
                view.external_policy = policy.or(view.external_policy);
            }
            (_, None) => view.external_policy = view.external_policy.or(dropped),
        }
    }
}

/// Returns the policy of external traffic that is sent to a chain. Only under policy Local does
/// such a chain have a rule of its own for clients of this node.
fn external_policy(name: &str, rules: &RuleSet) -> Option<Policy> {
    let mut name = name;
    // A firewall chain leads to an external chain, and that to a policy chain. A dump that was
    // edited by hand may have jumps in a circle.
    for _ in 0..2 {
        if !is_before_policy(name) {
            break;
        }
        let chain = rules.chain(Table::Nat, name)?;
        let routes_local_clients = |rule: &Rule| {
            let comment = rule.comment().and_then(PortComment::parse);
            comment.is_some_and(|(comment, _)| comment == PortComment::RouteNode)
        };
        if chain.rules.iter().any(routes_local_clients) {
            return Some(Policy::Local);
        }
        let mut targets = chain.rules.iter().filter_map(Rule::target_chain);
        // A firewall chain has one target only, however many source ranges it admits.
        name = targets.find(|target| is_service_chain(target))?;
    }
    (!is_before_policy(name)).then(|| Policy::of_chain(name))
}

fn is_kind(name: &str, kind: ChainKind) -> bool {
    ChainKind::of(name) == Some(kind)
}

/// Reports whether traffic traverses the chain before one that balances over endpoints.
fn is_before_policy(name: &str) -> bool {
    is_kind(name, ChainKind::External) || is_kind(name, ChainKind::SourceRanges)
}

fn read_source_ranges(view: &mut PortView, rules: &RuleSet) {
    let chains = view.chains.iter();
    for name in chains.filter(|name| is_kind(name, ChainKind::SourceRanges)) {
        let sources = rules
            .rules_of(Table::Nat, name)
            .iter()
            .filter_map(|rule| rule.source.as_ref());
        view.source_ranges
            .extend(sources.map(|source| source.value));
    }
}

fn read_endpoints(view: &mut PortView, rules: &RuleSet) {
    let mut endpoints: Vec<EndpointView> = Vec::new();
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    for name in view.chains.iter().filter(|name| !is_endpoint_chain(name)) {
        let Some(chain) = rules.chain(Table::Nat, name) else {
            continue;
        };
        view.affinity = view
            .affinity
            .or(chain.rules.iter().find_map(affinity_timeout));
        let policy = Policy::of_chain(name);
        for (target, share) in shares(chain) {
            let Some(address) = dnat_address(rules, target) else {
                continue;
            };
            let position = *positions.entry(target).or_insert_with(|| {
                endpoints.push(EndpointView {
                    address,
                    chain: target.into(),
                    cluster: None,
                    local: None,
                });
                endpoints.len() - 1
            });
            if let Some(endpoint) = endpoints.get_mut(position) {
                let total = match policy {
                    Policy::Local => &mut endpoint.local,
                    Policy::Cluster => &mut endpoint.cluster,
                };
                *total = Some(total.map_or(share, |known| known.plus(share)));
            }
        }
    }
    view.endpoints = endpoints;
}

/// Returns the endpoint chains that a chain balances over, each with its exact share: a rule takes
/// its probability of what the rules before it left over.
fn shares(chain: &Chain) -> Vec<(&str, Share)> {
    let mut remaining = Share::ALL;
    let mut shares = Vec::new();
    for rule in &chain.rules {
        let Some(target) = rule.target_chain().filter(|name| is_endpoint_chain(name)) else {
            continue;
        };
        // Clients with session affinity are sent there regardless of probabilities.
        if affinity_timeout(rule).is_some() {
            continue;
        }
        let (share, rest) = remaining.split(probability(rule));
        shares.push((target, share));
        remaining = rest;
    }
    shares
}

fn probability(rule: &Rule) -> Share {
    let probability = rule.matches.iter().find_map(|one| match one {
        Match::Random(chance) if !chance.negated => Some(Share::from_probability(chance.value)),
        _ => None,
    });
    probability.unwrap_or(Share::ALL)
}

/// Returns how long a rule sends a client to the endpoint it had before.
fn affinity_timeout(rule: &Rule) -> Option<Duration> {
    rule.matches.iter().find_map(|one| match one {
        Match::Recent(recent) if recent.action != RecentAction::Set => {
            let seconds = recent.seconds.unwrap_or_default();
            Some(Duration::from_secs(u64::from(seconds)))
        }
        _ => None,
    })
}

fn dnat_address(rules: &RuleSet, chain: &str) -> Option<SocketAddr> {
    let chain = rules.chain(Table::Nat, chain)?;
    chain.rules.iter().find_map(|rule| match &rule.target {
        Some(Target::Dnat { address, port }) => {
            Some(SocketAddr::new(*address, port.unwrap_or_default()))
        }
        _ => None,
    })
}

fn is_endpoint_chain(chain: &str) -> bool {
    is_kind(chain, ChainKind::Endpoint)
}

/// Counts the rules that cannot be read.
fn unknown_rules(rules: &RuleSet) -> UnknownRules {
    let dispatch = [
        DispatchChain::NatServices,
        DispatchChain::NatNodePorts,
        DispatchChain::FilterServices,
        DispatchChain::FilterExternalServices,
    ];
    let frontends = dispatch
        .into_iter()
        .flat_map(|chain| dispatch_rules(rules, chain));
    UnknownRules {
        unreadable: rules.unparsed_rules().count(),
        unreadable_frontends: frontends.filter(|rule| rule.is_unparsed()).count(),
        families_without_nat: usize::from(
            rules.chain(Table::Nat, KUBE_SERVICES).is_none()
                && [
                    DispatchChain::FilterServices,
                    DispatchChain::FilterExternalServices,
                ]
                .into_iter()
                .any(|chain| !dispatch_rules(rules, chain).is_empty()),
        ),
    }
}
