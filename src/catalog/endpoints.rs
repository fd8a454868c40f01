//! Who answers, and with what share of the traffic.

use std::net::SocketAddr;
use std::time::Duration;

use crate::rules::{Chain, Match, RecentAction, Rule, RuleSet, Share, Table, Target};

/// One endpoint of a service port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Where its traffic goes.
    pub address: SocketAddr,
    /// The chain that sends it there.
    pub chain: Box<str>,
    /// Its share of new connections under policy Cluster, if it has any.
    pub cluster: Option<Share>,
    /// Its share under policy Local, if it has any.
    pub local: Option<Share>,
}

/// The chains that a policy chain chooses from, each with its exact share: every rule takes its
/// part of what those before it have left.
pub(super) fn shares(chain: &Chain) -> Vec<(&str, Share)> {
    let mut left = Share::ALL;
    let mut shares = Vec::new();
    for rule in &chain.rules {
        let Some(target) = rule.target_chain().filter(|name| is_endpoint(name)) else {
            continue;
        };
        // Who was remembered is sent there whatever the dice say.
        if remembers(rule).is_some() {
            continue;
        }
        let (share, rest) = left.split(chance(rule));
        shares.push((target, share));
        left = rest;
    }
    shares
}

fn chance(rule: &Rule) -> Share {
    let chance = rule.matches.iter().find_map(|one| match one {
        Match::Random(chance) if !chance.negated => Some(Share::from_probability(chance.value)),
        _ => None,
    });
    chance.unwrap_or(Share::ALL)
}

/// For how long a policy chain sends a client to the endpoint it had.
pub(super) fn affinity(chain: &Chain) -> Option<Duration> {
    chain.rules.iter().find_map(remembers)
}

fn remembers(rule: &Rule) -> Option<Duration> {
    rule.matches.iter().find_map(|one| match one {
        Match::Recent(recent) if recent.action != RecentAction::Set => {
            let seconds = recent.seconds.unwrap_or_default();
            Some(Duration::from_secs(u64::from(seconds)))
        }
        _ => None,
    })
}

/// Where an endpoint's chain sends traffic.
pub(super) fn address(rules: &RuleSet, chain: &str) -> Option<SocketAddr> {
    let chain = rules.chain(Table::Nat, chain)?;
    chain.rules.iter().find_map(|rule| match &rule.target {
        Some(Target::Dnat { address, port }) => {
            Some(SocketAddr::new(*address, port.unwrap_or_default()))
        }
        _ => None,
    })
}

pub(super) fn is_endpoint(chain: &str) -> bool {
    chain.starts_with("KUBE-SEP-")
}
