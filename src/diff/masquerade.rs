//! Whose traffic to a cluster IP gets this node's address as its source.
//!
//! Apart from the other [effects](super::effects) because it is a setting of the whole node that
//! each Service has a rule for: which one, only the rule tells.

use std::net::IpAddr;

use crate::catalog::{Kind, PortView};
use crate::rules::{Match, Network, Rule};

/// Whose traffic is masqueraded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clients {
    /// Everybody's.
    All,
    /// Of everybody with an address outside of this network.
    Outside(Network),
    /// What comes by any interface but this one, or those that begin so if there is a final `+`.
    NotBy(Box<str>),
}

/// The rules of one side that masquerade.
#[derive(Debug, Default)]
pub(super) struct Rules {
    clients: Vec<Clients>,
    others: Vec<Rule>,
}

impl Rules {
    /// Those of a service port that has these cluster IPs.
    pub(super) fn of(rules: Vec<Rule>, cluster_ips: &[IpAddr]) -> Self {
        let mut sorted = Self::default();
        for rule in rules {
            match clients(&rule, cluster_ips) {
                Some(clients) => sorted.clients.push(clients),
                None => sorted.others.push(rule),
            }
        }
        sorted
    }

    /// Whose traffic to a cluster IP is masqueraded here and there; `None` if that is the same, or
    /// said in more ways than one.
    pub(super) fn change(&self, after: &Self) -> Option<(Option<Clients>, Option<Clients>)> {
        let is_one = |all: &[Clients]| all.iter().all(|one| Some(one) == all.first());
        let (before, after) = (&self.clients, &after.clients);
        let is_told = is_one(before) && is_one(after) && before.first() != after.first();
        is_told.then(|| (before.first().cloned(), after.first().cloned()))
    }

    /// Whether other rules that masquerade differ, or these in a way that is not told.
    pub(super) fn differs_otherwise(mut self, mut after: Self) -> bool {
        let is_told = self.change(&after).is_some();
        for side in [&mut self, &mut after] {
            side.clients.sort_unstable();
            side.others.sort_unstable();
        }
        self.others != after.others || (!is_told && self.clients != after.clients)
    }
}

/// The cluster IPs of a service port.
pub(super) fn cluster_ips(view: &PortView) -> impl Iterator<Item = IpAddr> {
    let entrances = view.entrances.iter();
    let internal = entrances.filter(|entrance| entrance.kind == Kind::ClusterIp);
    internal.filter_map(|entrance| entrance.ip)
}

fn clients(rule: &Rule, cluster_ips: &[IpAddr]) -> Option<Clients> {
    let destination = rule.destination.filter(|to| !to.negated)?.value.host()?;
    let is_plain = |one: &Match| matches!(one, Match::Comment(_) | Match::Ports { .. });
    if !cluster_ips.contains(&destination) || !rule.matches.iter().all(is_plain) {
        return None;
    }
    match (rule.source, &rule.in_interface) {
        (None, None) => Some(Clients::All),
        (Some(source), None) if source.negated => Some(Clients::Outside(source.value)),
        (None, Some(name)) if name.negated => Some(Clients::NotBy(name.value.clone())),
        _ => None,
    }
}
