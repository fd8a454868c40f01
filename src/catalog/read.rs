//! Reads a catalog: the shared chains first, then along the jumps.
//!
//! Source: `kube-proxy` 1.20 to 1.36. Until 1.23 external traffic under policy Local entered by
//! `KUBE-XLB-*`, and the mark of masquerading was set in `KUBE-SERVICES` and `KUBE-NODEPORTS`.

use std::collections::{BTreeMap, BTreeSet};

use super::dead_end::is_dead_end;
use super::endpoints::{self, Endpoint, is_endpoint};
use super::entrance::{Entrance, Fate, Kind, destination_ip, destination_port, refusal};
use super::port::{Policy, PortName, PortView};
use super::{Catalog, stale};
use crate::rules::{Rule, RuleSet, Table};

impl Catalog {
    /// What the rules of one family say.
    pub fn read(rules: &RuleSet) -> Self {
        let mut catalog = Self::default();
        catalog.read_destinations(rules);
        catalog.read_node_ports(rules);
        catalog.read_refusals(rules);
        for view in catalog.ports.values_mut() {
            read_chains(view, rules);
            view.entrances.sort_unstable();
            view.entrances.dedup();
        }
        catalog.stale = stale::chains(&catalog, rules);
        catalog
    }

    fn read_destinations(&mut self, rules: &RuleSet) {
        for rule in shared(rules, Table::Nat, "KUBE-SERVICES") {
            let Some((view, what)) = self.port_of(rule) else {
                continue;
            };
            view.rules += 1;
            let kind = match what {
                "cluster IP" => Kind::ClusterIp,
                "external IP" => Kind::ExternalIp,
                "loadbalancer IP" => Kind::LoadBalancer,
                _ => continue,
            };
            enter(view, rule, kind);
        }
    }

    fn read_node_ports(&mut self, rules: &RuleSet) {
        for rule in shared(rules, Table::Nat, "KUBE-NODEPORTS") {
            if let Some((view, _)) = self.port_of(rule) {
                view.rules += 1;
                // The rule that only counts what comes from loopback is not another way in.
                if rule.destination.is_none() {
                    enter(view, rule, Kind::NodePort);
                }
            }
        }
    }

    fn read_refusals(&mut self, rules: &RuleSet) {
        let places = [
            ("KUBE-SERVICES", Kind::ClusterIp),
            ("KUBE-EXTERNAL-SERVICES", Kind::External),
            ("KUBE-NODEPORTS", Kind::HealthCheck),
            ("KUBE-PROXY-FIREWALL", Kind::LoadBalancer),
        ];
        for (chain, kind) in places {
            for rule in shared(rules, Table::Filter, chain) {
                let Some((view, what)) = self.port_of(rule) else {
                    continue;
                };
                view.rules += 1;
                let fate = match kind {
                    Kind::HealthCheck => Fate::Served,
                    // What no source range admits is dropped; the rest is served.
                    Kind::LoadBalancer => continue,
                    _ if !what.starts_with("has no") => continue,
                    _ => refusal(rule).unwrap_or(Fate::Rejected),
                };
                let (ip, Some(port)) = (destination_ip(rule), destination_port(rule)) else {
                    continue;
                };
                let kind = match (kind, ip) {
                    (Kind::External, None) => Kind::NodePort,
                    (kind, _) => kind,
                };
                refuse(
                    view,
                    Entrance {
                        kind,
                        ip,
                        port,
                        fate,
                        chain: None,
                    },
                );
            }
        }
    }

    /// The service port that a rule of a shared chain is about, and what the comment says of it.
    fn port_of<'r>(&mut self, rule: &'r Rule) -> Option<(&mut PortView, &'r str)> {
        let (key, what) = PortName::of_shared(rule)?;
        Some((self.ports.entry(key).or_default(), what))
    }
}

fn shared<'r>(rules: &'r RuleSet, table: Table, chain: &str) -> impl Iterator<Item = &'r Rule> {
    let chain = rules.chain(table, chain).into_iter();
    chain.flat_map(|chain| &chain.rules)
}

fn enter(view: &mut PortView, rule: &Rule, kind: Kind) {
    let Some(chain) = rule
        .target_chain()
        .filter(|chain| *chain != "KUBE-MARK-MASQ")
    else {
        return;
    };
    if let Some(port) = destination_port(rule) {
        view.entrances.push(Entrance {
            kind,
            ip: destination_ip(rule),
            port,
            fate: Fate::Served,
            chain: Some(chain.into()),
        });
    }
}

/// What is refused from outside may still have a chain, by which clients of this node enter.
fn refuse(view: &mut PortView, refused: Entrance) {
    let is_same = |known: &&mut Entrance| {
        let known_at = (known.ip, known.port, known.kind == Kind::HealthCheck);
        known_at == (refused.ip, refused.port, refused.kind == Kind::HealthCheck)
    };
    match view.entrances.iter_mut().find(is_same) {
        Some(known) => known.fate = refused.fate,
        None => view.entrances.push(refused),
    }
}

/// Follows the jumps from the entrances.
fn read_chains(view: &mut PortView, rules: &RuleSet) {
    let entered = view
        .entrances
        .iter()
        .filter_map(|entrance| entrance.chain.clone());
    let mut waiting: BTreeSet<Box<str>> = entered.collect();
    while let Some(name) = waiting.pop_first() {
        let Some(chain) = rules.chain(Table::Nat, &name) else {
            continue;
        };
        view.rules += chain.rules.len();
        let targets = chain.rules.iter().filter_map(Rule::target_chain);
        let unseen = targets
            .filter(|target| stale::is_service_chain(target) && !view.chains.contains(*target));
        waiting.extend(unseen.map(Box::from));
        view.chains.insert(name);
    }
    read_dead_ends(view, rules);
    for entrance in &mut view.entrances {
        let is_entered = entrance.fate == Fate::Served && entrance.kind != Kind::HealthCheck;
        if let Some(chain) = entrance.chain.as_deref().filter(|_| is_entered)
            && is_dead_end(rules, chain)
        {
            entrance.fate = Fate::Unreachable;
        }
    }
    read_policies(view, rules);
    read_endpoints(view, rules);
    read_source_ranges(view, rules);
}

/// Until 1.23 it was the chain of policy Local that dropped what found no endpoint on this node.
fn read_dead_ends(view: &mut PortView, rules: &RuleSet) {
    let is_dead_end = |name: &str| {
        let chain = rules.chain(Table::Nat, name).into_iter();
        let mut targets = chain
            .flat_map(|chain| &chain.rules)
            .filter_map(Rule::target_chain);
        name.starts_with("KUBE-XLB-") && !targets.any(is_endpoint)
    };
    if view.chains.iter().any(|name| is_dead_end(name)) {
        let outside = view
            .entrances
            .iter_mut()
            .filter(|entrance| !matches!(entrance.kind, Kind::ClusterIp | Kind::HealthCheck));
        for entrance in outside {
            entrance.fate = Fate::Dropped;
        }
    }
}

fn read_policies(view: &mut PortView, rules: &RuleSet) {
    for entrance in &view.entrances {
        let refused = (entrance.fate == Fate::Dropped).then_some(Policy::Local);
        match (entrance.kind, &entrance.chain) {
            (Kind::HealthCheck, _) => {}
            (Kind::ClusterIp, Some(chain)) => {
                view.internal_policy = Some(policy_of_chain(chain));
            }
            (Kind::ClusterIp, None) => view.internal_policy = view.internal_policy.or(refused),
            (_, Some(chain)) => {
                let found = external_policy(chain, rules).or(refused);
                view.external_policy = found.or(view.external_policy);
            }
            (_, None) => view.external_policy = view.external_policy.or(refused),
        }
    }
}

fn policy_of_chain(chain: &str) -> Policy {
    if chain.starts_with("KUBE-SVL-") || chain.starts_with("KUBE-XLB-") {
        Policy::Local
    } else {
        Policy::Cluster
    }
}

/// The policy of traffic that enters by a chain. Only a chain of external traffic under policy
/// Local treats clients of this node in a way of their own.
fn external_policy(name: &str, rules: &RuleSet) -> Option<Policy> {
    if !name.starts_with("KUBE-EXT-") && !name.starts_with("KUBE-FW-") {
        return Some(policy_of_chain(name));
    }
    let chain = rules.chain(Table::Nat, name)?;
    let routes_apart = |rule: &Rule| {
        let comment = rule.comment().unwrap_or_default();
        comment.starts_with("route LOCAL")
    };
    if chain.rules.iter().any(routes_apart) {
        return Some(Policy::Local);
    }
    let targets = chain.rules.iter().filter_map(Rule::target_chain);
    let mut next = targets.filter(|target| stale::is_service_chain(target));
    // A firewall leads to one chain only, however many networks it admits.
    let next = next.next()?;
    if next.starts_with("KUBE-EXT-") {
        return (next != name)
            .then(|| external_policy(next, rules))
            .flatten();
    }
    Some(policy_of_chain(next))
}

fn read_endpoints(view: &mut PortView, rules: &RuleSet) {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for name in view.chains.iter().filter(|name| !is_endpoint(name)) {
        let Some(chain) = rules.chain(Table::Nat, name) else {
            continue;
        };
        view.affinity = view.affinity.or(endpoints::affinity(chain));
        let is_local = policy_of_chain(name) == Policy::Local;
        for (target, share) in endpoints::shares(chain) {
            let Some(address) = endpoints::address(rules, target) else {
                continue;
            };
            let at = *places.entry(target).or_insert_with(|| {
                endpoints.push(Endpoint {
                    address,
                    chain: target.into(),
                    cluster: None,
                    local: None,
                });
                endpoints.len() - 1
            });
            if let Some(endpoint) = endpoints.get_mut(at) {
                let of = if is_local {
                    &mut endpoint.local
                } else {
                    &mut endpoint.cluster
                };
                *of = Some(of.map_or(share, |known| known.plus(share)));
            }
        }
    }
    view.endpoints = endpoints;
}

fn read_source_ranges(view: &mut PortView, rules: &RuleSet) {
    for name in view
        .chains
        .iter()
        .filter(|name| name.starts_with("KUBE-FW-"))
    {
        let chain = rules.chain(Table::Nat, name).into_iter();
        let sources = chain
            .flat_map(|chain| &chain.rules)
            .filter_map(|rule| rule.source.as_ref());
        view.source_ranges.extend(sources.map(|asked| asked.value));
    }
}
