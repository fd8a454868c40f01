//! What happens to one packet, and which rules it met.
//!
//! Apart because here every choice is followed that rules make at random, each with its share. One
//! way through them is a [`traveller`](super::traveller)'s, and what a single rule makes of a packet
//! is in [`decide`](super::decide). The packet is the first of a connection.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/iptables/proxier_test.go`, `iptablesTracer` has the idea (v1.36)

use super::outcome::Outcome;
use super::packet::{Locality, Packet};
use super::ruleset::RuleSet;
use super::traveller::{Doubt, Traveller};

/// Follows the packet through the rules. Outcomes come in the order of the rules that made them.
/// A rule that cannot be decided is the end of a way.
pub fn trace<'a>(rules: &'a RuleSet, packet: &Packet, locality: &Locality) -> Vec<Outcome<'a>> {
    follow(rules, Traveller::new(packet, locality, Doubt::Stop))
}

/// The same, but rules that cannot be decided are passed by as if they did not match, and named in
/// [`Outcome::doubts`]. Most of these are exceptions that other programs make for some packets.
pub fn trace_past_doubts<'a>(
    rules: &'a RuleSet,
    packet: &Packet,
    locality: &Locality,
) -> Vec<Outcome<'a>> {
    follow(rules, Traveller::new(packet, locality, Doubt::PassBy))
}

fn follow<'a>(rules: &'a RuleSet, first: Traveller<'a, '_>) -> Vec<Outcome<'a>> {
    let mut outcomes = Vec::new();
    let mut travellers = vec![first];
    while let Some(mut traveller) = travellers.pop() {
        let verdict = loop {
            if let Some(verdict) = traveller.step(rules, &mut travellers) {
                break verdict;
            }
        };
        outcomes.push(traveller.end(verdict));
    }
    outcomes
}
