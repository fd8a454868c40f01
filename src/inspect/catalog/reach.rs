//! Finds what packets do not reach: follows jumps from the built-in chains to frontends and from
//! frontends to endpoints, and finds frontends that another Service has.
//!
//! A rule that cannot be read may be the one that leads on: nothing is reported as missing if such
//! a rule is on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use hashbrown::{HashMap, HashSet};

use super::Catalog;
use super::query::PortName;
use super::view::{
    FrontendConflict, FrontendDisposition, FrontendKind, FrontendView, LoserRules, TrafficOrigin,
};
use crate::rules::{Chain, Match, Rule, RuleSet, Table, Target};
use crate::ruleset::{ChainKind, DispatchChain, is_service_chain, tree_of};

/// Reports whether jumps lead from one chain to another, directly or through third-party chains.
pub(super) fn has_path(rules: &RuleSet, from: &str, to: &str) -> bool {
    let mut waiting = vec![from];
    let mut seen = BTreeSet::from([from]);
    while let Some(name) = waiting.pop() {
        if name == to {
            return true;
        }
        let own = rules.rules_of(Table::Nat, name);
        if own.iter().any(Rule::is_unparsed) {
            return true;
        }
        let targets = own.iter().filter_map(Rule::target_chain);
        // Chains of a service port never lead back to a dispatch chain.
        let next = targets.filter(|target| !is_service_chain(target));
        waiting.extend(next.filter(|target| seen.insert(target)));
    }
    false
}

/// Reports whether packets of an origin that enter `chain` of the nat table can reach a DNAT rule.
/// Without recursion: third-party chains may be nested ten thousand deep.
pub(super) fn leads_to_endpoint(nat: &NatChains<'_>, chain: &str, origin: TrafficOrigin) -> bool {
    let mut waiting = vec![chain];
    let mut seen = BTreeSet::from([chain]);
    while let Some(name) = waiting.pop() {
        let is_external = matches!(
            ChainKind::of(name),
            Some(ChainKind::External | ChainKind::RetiredExternal)
        );
        for rule in nat.rules_of(name) {
            if is_external && is_for_others(rule, origin) {
                continue;
            }
            match &rule.target {
                _ if rule.is_unparsed() => return true,
                Some(Target::Dnat { .. }) => return true,
                Some(Target::Other(target)) if &*target.name == "DNAT" => return true,
                Some(Target::Jump(next) | Target::Goto(next)) if seen.insert(next) => {
                    waiting.push(next);
                }
                _ => {}
            }
            if is_final(rule) {
                break;
            }
        }
    }
    false
}

/// Reports whether a rule of a chain for external traffic is for other clients than those of an
/// origin. Policy Local has rules for Pods and for this node, to which it does not apply.
fn is_for_others(rule: &Rule, origin: TrafficOrigin) -> bool {
    let matches_node = |one: &Match| {
        matches!(
            one,
            Match::AddressType {
                source: Some(_),
                ..
            }
        )
    };
    rule.source.is_some()
        || rule.in_interface.is_some()
        || (origin == TrafficOrigin::Outside && rule.matches.iter().any(matches_node))
}

/// Reports whether no packet gets past a rule.
fn is_final(rule: &Rule) -> bool {
    let is_terminating = matches!(
        rule.target,
        Some(Target::Return | Target::Accept | Target::Drop | Target::Reject(_) | Target::Goto(_))
    );
    is_terminating && is_unconditional(rule)
}

fn is_unconditional(rule: &Rule) -> bool {
    let Rule {
        source,
        destination,
        in_interface,
        out_interface,
        protocol,
        matches,
        target: _,
    } = rule;
    let mut matches = matches.iter();
    source.is_none()
        && destination.is_none()
        && in_interface.is_none()
        && out_interface.is_none()
        && protocol.is_none()
        && matches.all(|one| matches!(one, Match::Comment(_)))
}

/// Returns the rules of a dispatch chain, and those of the chains of its tree in place of the first
/// jump to each.
pub(super) fn dispatch_rules(rules: &RuleSet, chain: DispatchChain) -> Vec<&Rule> {
    let table = chain.table();
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut waiting = vec![rules.rules_of(table, chain.name()).iter()];
    while let Some(current) = waiting.last_mut() {
        let Some(rule) = current.next() else {
            waiting.pop();
            continue;
        };
        let inner = rule.target_chain();
        match inner.filter(|name| tree_of(table, name).is_some()) {
            Some(inner) if seen.insert(inner) => waiting.push(rules.rules_of(table, inner).iter()),
            _ => found.push(rule),
        }
    }
    found
}

/// Chains of the nat table by name: those of a service port are looked up a dozen times.
pub(super) struct NatChains<'r>(HashMap<&'r str, &'r Chain>);

impl<'r> NatChains<'r> {
    pub(super) fn of(rules: &'r RuleSet) -> Self {
        Self(rules.chains(Table::Nat).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&'r Chain> {
        self.0.get(name).copied()
    }

    /// Returns the rules of a chain; none if it does not exist.
    pub(super) fn rules_of(&self, name: &str) -> &'r [Rule] {
        self.get(name).map_or(&[], |chain| &chain.rules)
    }
}

/// Returns the service chains that no service port has and no other chain leads to. A rule that
/// cannot be read may lead to any of them, and a rule without a name in its comment leads to some.
pub(super) fn stale_chains(
    catalog: &Catalog,
    rules: &RuleSet,
    nat: &NatChains<'_>,
) -> Vec<Box<str>> {
    let mut unreadable = rules.unparsed_rules();
    if catalog.unknown.unreadable > 0 && unreadable.any(|(table, ..)| table == Table::Nat) {
        return Vec::new();
    }
    let views = catalog.ports.values();
    let owned: HashSet<&str> = views
        .flat_map(|view| view.chains.iter().map(|name| &**name))
        .collect();
    let reached = reached_chains(rules, nat);
    let names = rules.chains(Table::Nat).map(|(name, _)| name);
    let stale = names.filter(|name| is_service_chain(name) && !owned.contains(name));
    let stale = stale.filter(|name| !reached.contains(name));
    stale.map(Box::from).collect()
}

/// Returns the chains of the nat table that are reached from chains of no service port.
fn reached_chains<'r>(rules: &'r RuleSet, nat: &NatChains<'r>) -> HashSet<&'r str> {
    let mut reached = HashSet::new();
    let others = rules.chains(Table::Nat);
    let mut next: Vec<&str> = others
        .map(|(name, _)| name)
        .filter(|name| !is_service_chain(name))
        .collect();
    while let Some(name) = next.pop() {
        let targets = nat.rules_of(name).iter();
        let targets = targets.filter_map(Rule::target_chain);
        next.extend(targets.filter(|target| reached.insert(*target)));
    }
    reached
}

/// Packets of a frontend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ClaimedFrontend {
    ip: Option<IpAddr>,
    port: u16,
    protocol: Box<str>,
    /// Health checks have ports of their own, without DNAT.
    is_health_check: bool,
}

/// First owner of each frontend.
#[derive(Debug, Default)]
pub(super) struct Owners {
    first: BTreeMap<ClaimedFrontend, PortName>,
    shadowed: Vec<FrontendConflict>,
}

impl Owners {
    /// Adds a frontend of a service port, in the order in which packets meet the rules.
    pub(super) fn claim(&mut self, name: &PortName, frontend: &FrontendView) {
        let key = ClaimedFrontend {
            ip: frontend.ip,
            port: frontend.port,
            protocol: name.protocol.clone(),
            is_health_check: frontend.kind == FrontendKind::HealthCheck,
        };
        let owner = self.first.entry(key).or_insert_with(|| name.clone());
        let is_same = owner.namespace() == name.namespace() && owner.service() == name.service();
        if !is_same {
            let conflict = FrontendConflict {
                loser: name.clone(),
                kind: frontend.kind,
                ip: frontend.ip,
                port: frontend.port,
                owner: format!("{}/{}", owner.namespace(), owner.service()).into(),
                rules: LoserRules::Shadowed,
            };
            if !self.shadowed.contains(&conflict) {
                self.shadowed.push(conflict);
            }
        }
    }

    /// Returns the frontends that other Services have, in the order of the rules.
    pub(super) fn into_shadowed(self) -> Vec<FrontendConflict> {
        self.shadowed
    }
}

impl Catalog {
    /// Marks the frontends as unreachable that another Service has.
    pub(super) fn mark_shadowed(&mut self) {
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
