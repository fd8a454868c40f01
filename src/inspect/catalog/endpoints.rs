//! Reads the endpoints of a service port: addresses, shares of the traffic, and session affinity.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::view::{EndpointView, Policy, PortView};
use crate::rules::{Chain, Match, RecentAction, Rule, RuleSet, Share, Table, Target};
use crate::ruleset::ChainKind;

/// Adds the endpoints that the chains of a service port lead to.
pub(super) fn read_endpoints(view: &mut PortView, rules: &RuleSet) {
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

/// Returns the address that an endpoint chain rewrites destinations to.
fn dnat_address(rules: &RuleSet, chain: &str) -> Option<SocketAddr> {
    let chain = rules.chain(Table::Nat, chain)?;
    chain.rules.iter().find_map(|rule| match &rule.target {
        Some(Target::Dnat { address, port }) => {
            Some(SocketAddr::new(*address, port.unwrap_or_default()))
        }
        _ => None,
    })
}

pub(super) fn is_endpoint_chain(chain: &str) -> bool {
    ChainKind::of(chain) == Some(ChainKind::Endpoint)
}
