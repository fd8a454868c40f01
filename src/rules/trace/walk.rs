//! Follows a packet, the first of a connection, along all paths that random rules allow, and the
//! reply of its receiver back to the client.
//!
//! Each path has its share of the packets. Paths that a random rule split often meet again: a
//! chain returns, or a rule only marks or logs. The path with the least progress is evaluated
//! first, so that the others wait for it; paths that meet are merged unless their packets differ.
//! Otherwise each random rule would double the number of paths. A rule that cannot be decided
//! forks a path like a random one.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/iptables/proxier_test.go`, `iptablesTracer` has the idea (v1.37)

use std::collections::BTreeMap;

use super::fork::{self, Forks};
use super::outcome::{Packet, TraceOutcome, TracedNode, Unclear, Verdict};
use super::path::TracePath;
use crate::rules::ruleset::RuleSet;

/// Traces the packet through the rules, and returns the outcomes in the order of the rules that
/// split them. Rules that cannot be decided are taken not to match; each outcome lists those of
/// them that could change it.
pub fn trace<'a>(
    rules: &'a RuleSet,
    packet: &Packet,
    traced_node: &TracedNode,
) -> Vec<TraceOutcome<'a>> {
    trace_counted(rules, packet, traced_node).0
}

/// Traces the packet, and returns how much was evaluated for it: rules of all paths, and shares of
/// undecided rules. The tests bound it.
pub(in crate::rules) fn trace_counted<'a>(
    rules: &'a RuleSet,
    packet: &Packet,
    traced_node: &TracedNode,
) -> (Vec<TraceOutcome<'a>>, usize) {
    let first = TracePath::new(packet, traced_node);
    let (mut ended, mut forks) = (Vec::new(), Forks::default());
    let mut by_hook = BTreeMap::from([(first.hook(), vec![first])]);
    while let Some((_, paths)) = by_hook.pop_first() {
        let mut hypothetical = 0;
        for path in merged(paths) {
            hypothetical += usize::from(path.is_hypothetical());
            if path.is_hypothetical() && hypothetical > MAX_HYPOTHETICAL {
                forks.exhaust();
            }
            let finished = walk_hook(rules, path, &mut forks);
            for (index, (mut path, verdict)) in finished.into_iter().enumerate() {
                path.push_branch(index);
                match verdict {
                    Some(verdict) => ended.push((path, verdict)),
                    None => by_hook.entry(path.hook()).or_default().push(path),
                }
            }
        }
    }
    let evaluated = forks.evaluated();
    (outcomes(ended, &forks), evaluated)
}

/// Maximum number of pending paths in one hook. Real rules stay far below.
const MAX_PENDING: usize = 1024;

/// Maximum number of hypothetical ones. They give way first, so that they do not end those of real
/// packets.
const MAX_HYPOTHETICAL: usize = MAX_PENDING / 2;

/// Maximum number of paths at one rule, whose packets differ in marks or lists only. Random rules
/// that mark packets for load balancing have a few dozen.
const MAX_STATES: usize = 64;

/// Maximum number of hypothetical ones: four independent marks. Each hook may multiply them.
const MAX_HYPOTHETICAL_STATES: usize = 16;

/// Returns the outcomes of packets that no undecided rule matches.
fn outcomes<'a, 'q>(
    mut ended: Vec<(TracePath<'a, 'q>, Verdict)>,
    forks: &Forks<'a, TracePath<'a, 'q>>,
) -> Vec<TraceOutcome<'a>> {
    let shifts = ended.iter().map(|(path, verdict)| (path.shifts(), verdict));
    let effects = fork::effects(shifts);
    ended.retain(|(path, _)| !path.is_hypothetical());
    ended.sort_by(|(left, _), (right, _)| left.branches().cmp(right.branches()));
    let outcomes = ended.into_iter().map(|(path, verdict)| {
        let undecided = forks.rules_of(effects.get(&verdict));
        let depends = !undecided.is_empty() || verdict == Verdict::Unclear(Unclear::TooManyPaths);
        path.end(verdict, undecided, depends && forks.is_exhausted())
    });
    outcomes.collect()
}

/// Merges the paths that enter a hook with equal keys, in the order of the first of each.
fn merged<'a, 'q>(paths: Vec<TracePath<'a, 'q>>) -> Vec<TracePath<'a, 'q>> {
    let mut merged: Vec<TracePath<'a, 'q>> = Vec::new();
    let mut positions = BTreeMap::new();
    for path in paths {
        let position = *positions.entry(path.merge_key()).or_insert(merged.len());
        match merged.get_mut(position) {
            Some(known) => known.merge(path),
            None => merged.push(path),
        }
    }
    merged
}

/// Path that left a hook, with the verdict if it ended there.
type FinishedPath<'a, 'q> = (TracePath<'a, 'q>, Option<Verdict>);

/// Evaluates one hook, and returns the paths in the order of the rules that split them.
fn walk_hook<'a, 'q>(
    rules: &'a RuleSet,
    first: TracePath<'a, 'q>,
    forks: &mut Forks<'a, TracePath<'a, 'q>>,
) -> Vec<FinishedPath<'a, 'q>> {
    let hook = first.hook();
    let mut finished = Vec::new();
    // Sorted by progress; the path with the least is the last.
    let mut pending = vec![first];
    while let Some(mut path) = pending.pop() {
        if path.is_unreached() {
            continue;
        }
        let most = if path.is_hypothetical() {
            MAX_HYPOTHETICAL
        } else {
            MAX_PENDING
        };
        if pending.len() >= most || (path.is_hypothetical() && forks.is_exhausted()) {
            give_up(&mut finished, path, forks);
            continue;
        }
        loop {
            let verdict = if forks.count_step(path.is_hypothetical()) {
                path.step(rules, forks)
            } else {
                Some(Verdict::Unclear(Unclear::TooManyPaths))
            };
            for forked in std::mem::take(&mut forks.paths) {
                if let Some(surplus) = enqueue(&mut pending, forked) {
                    give_up(&mut finished, surplus, forks);
                }
            }
            if verdict.is_none() && path.is_hypothetical() && forks.is_exhausted() {
                give_up(&mut finished, path, forks);
                break;
            }
            if verdict.is_some() || path.hook() != hook {
                finished.push((path, verdict));
                break;
            }
            let is_behind = |next: &TracePath<'_, '_>| path.progress(next).is_lt();
            if !pending.last().is_none_or(is_behind) {
                if let Some(surplus) = enqueue(&mut pending, path) {
                    give_up(&mut finished, surplus, forks);
                }
                break;
            }
        }
    }
    finished
}

/// Inserts a path by its progress, or merges it into a path at the same position. Returns the path
/// if too many are there already.
fn enqueue<'a, 'q>(
    pending: &mut Vec<TracePath<'a, 'q>>,
    path: TracePath<'a, 'q>,
) -> Option<TracePath<'a, 'q>> {
    let position = pending.partition_point(|other| other.progress(&path).is_gt());
    let is_hypothetical = path.is_hypothetical();
    let mut alike = 0;
    for other in pending.iter_mut().skip(position) {
        if other.progress(&path).is_ne() {
            break;
        }
        if other.can_merge(&path) {
            other.merge(path);
            return None;
        }
        alike += usize::from(other.is_hypothetical() == is_hypothetical);
    }
    let most = if is_hypothetical {
        MAX_HYPOTHETICAL_STATES
    } else {
        MAX_STATES
    };
    if alike >= most {
        return Some(path);
    }
    pending.insert(position, path);
    None
}

/// Ends a path that is one too many: its verdict is unclear. From then on hypothetical paths are
/// not followed, and the undecided rules of all outcomes say so.
fn give_up<'a, 'q>(
    finished: &mut Vec<FinishedPath<'a, 'q>>,
    path: TracePath<'a, 'q>,
    forks: &mut Forks<'a, TracePath<'a, 'q>>,
) {
    forks.exhaust();
    let unclear = Verdict::Unclear(Unclear::TooManyPaths);
    let known = finished.iter_mut().find(|(known, verdict)| {
        known.is_hypothetical() == path.is_hypothetical() && verdict.as_ref() == Some(&unclear)
    });
    match known {
        Some((known, _)) => known.merge(path),
        None => finished.push((path, Some(unclear))),
    }
}
