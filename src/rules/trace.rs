//! What happens to one packet, and which rules it met.
//!
//! Apart because here every choice is followed that rules make at random, each with its share. One
//! way through them is a [`traveller`](super::traveller)'s, and what a single rule makes of a
//! packet is in [`decide`](super::decide). The packet is the first of a connection.
//!
//! Ways that a choice parts may meet again: a chain returns, a rule only marks or logs. Whoever is
//! behind goes first, so that they meet; from there on they are one, unless they differ in what
//! they carry. Otherwise each choice would double the ways.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/iptables/proxier_test.go`, `iptablesTracer` has the idea (v1.36)

use std::collections::BTreeMap;

use super::outcome::{Outcome, Unclear, Verdict};
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

/// More ways through one hook are not followed at a time; nobody means as many.
const MOST: usize = 1024;

fn follow<'a>(rules: &'a RuleSet, first: Traveller<'a, '_>) -> Vec<Outcome<'a>> {
    let mut ended = Vec::new();
    let mut arrived = BTreeMap::from([(first.hook(), vec![first])]);
    while let Some((_, travellers)) = arrived.pop_first() {
        for traveller in merged(travellers) {
            for (number, (mut traveller, verdict)) in walk(rules, traveller).into_iter().enumerate()
            {
                traveller.number(number);
                match verdict {
                    Some(verdict) => ended.push((traveller, verdict)),
                    None => arrived.entry(traveller.hook()).or_default().push(traveller),
                }
            }
        }
    }
    ended.sort_by(|(left, _), (right, _)| left.order().cmp(right.order()));
    let outcomes = ended.into_iter();
    outcomes
        .map(|(traveller, verdict)| traveller.end(verdict))
        .collect()
}

/// Those that arrive at a hook, each state once, in the order of the first of it.
fn merged<'a, 'q>(travellers: Vec<Traveller<'a, 'q>>) -> Vec<Traveller<'a, 'q>> {
    let mut merged: Vec<Traveller<'a, 'q>> = Vec::new();
    let mut places = BTreeMap::new();
    for traveller in travellers {
        let place = *places.entry(traveller.state()).or_insert(merged.len());
        match merged.get_mut(place) {
            Some(known) => known.join(traveller),
            None => merged.push(traveller),
        }
    }
    merged
}

/// One who left a hook, or ended there.
type Left<'a, 'q> = (Traveller<'a, 'q>, Option<Verdict>);

/// The ways through a hook, in the order of the rules that part them.
fn walk<'a, 'q>(rules: &'a RuleSet, first: Traveller<'a, 'q>) -> Vec<Left<'a, 'q>> {
    let hook = first.hook();
    let (mut left, mut parted) = (Vec::new(), Vec::new());
    // Who is behind all others comes last.
    let mut pending = vec![first];
    while let Some(mut traveller) = pending.pop() {
        if pending.len() >= MOST {
            left.push((traveller, Some(Verdict::Unclear(Unclear::TooMany))));
            continue;
        }
        loop {
            let verdict = traveller.step(rules, &mut parted);
            for other in parted.drain(..) {
                line_up(&mut pending, other);
            }
            if verdict.is_some() || traveller.hook() != hook {
                left.push((traveller, verdict));
                break;
            }
            let is_behind = |next: &Traveller<'_, '_>| traveller.progress(next).is_lt();
            if !pending.last().is_none_or(is_behind) {
                line_up(&mut pending, traveller);
                break;
            }
        }
    }
    left
}

/// Takes the place among those who are pending, or joins one there who carries the same.
fn line_up<'a, 'q>(pending: &mut Vec<Traveller<'a, 'q>>, traveller: Traveller<'a, 'q>) {
    let place = pending.partition_point(|other| other.progress(&traveller).is_gt());
    let here = pending.iter_mut().skip(place);
    let mut here = here.take_while(|other| other.progress(&traveller).is_eq());
    match here.find(|other| other.is_like(&traveller)) {
        Some(other) => other.join(traveller),
        None => pending.insert(place, traveller),
    }
}
