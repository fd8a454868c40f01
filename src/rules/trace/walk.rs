//! Follows a packet, the first of a connection, along all paths that random rules allow.
//!
//! Each path has its share of the packets. Paths that a random rule split often meet again: a
//! chain returns, or a rule only marks or logs. The path with the least progress is evaluated
//! first, so that the others wait for it; paths that meet are merged unless their packets differ.
//! Otherwise each random rule would double the number of paths. A rule that cannot be decided
//! forks a path like a random one.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/iptables/proxier_test.go`, `iptablesTracer` has the idea (v1.36)

use std::collections::BTreeMap;

use super::fork::{self, Forks};
use super::outcome::{Locality, Packet, TraceOutcome, Unclear, Verdict};
use super::path::TracePath;
use crate::rules::ruleset::RuleSet;

/// Traces the packet through the rules, and returns the outcomes in the order of the rules that
/// split them. Rules that cannot be decided are taken not to match; each outcome lists those of
/// them that could change it.
pub fn trace<'a>(
    rules: &'a RuleSet,
    packet: &Packet,
    locality: &Locality,
) -> Vec<TraceOutcome<'a>> {
    let first = TracePath::new(packet, locality);
    let (mut ended, mut forks) = (Vec::new(), Forks::default());
    let mut by_hook = BTreeMap::from([(first.hook(), vec![first])]);
    while let Some((_, paths)) = by_hook.pop_first() {
        let mut hypothetical = 0;
        for path in merged(paths) {
            hypothetical += usize::from(path.is_hypothetical());
            if path.is_hypothetical() && hypothetical > MAX_HYPOTHETICAL {
                ended.push((path, Verdict::Unclear(Unclear::TooManyPaths)));
                continue;
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
    outcomes(ended, &forks)
}

/// Maximum number of pending paths in one hook. Real rules stay far below.
const MAX_PENDING: usize = 1024;

/// Maximum number of hypothetical ones. They give way first, so that they do not end those of real
/// packets.
const MAX_HYPOTHETICAL: usize = MAX_PENDING / 2;

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
        let undecided = effects.get(&verdict).map(|known| forks.rules_of(known));
        path.end(verdict, undecided.unwrap_or_default())
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
        if pending.len() >= most {
            finished.push((path, Some(Verdict::Unclear(Unclear::TooManyPaths))));
            continue;
        }
        loop {
            let verdict = if forks.count_step() {
                path.step(rules, forks)
            } else {
                Some(Verdict::Unclear(Unclear::TooManyPaths))
            };
            for forked in forks.paths.drain(..) {
                enqueue(&mut pending, forked);
            }
            if verdict.is_some() || path.hook() != hook {
                finished.push((path, verdict));
                break;
            }
            let is_behind = |next: &TracePath<'_, '_>| path.progress(next).is_lt();
            if !pending.last().is_none_or(is_behind) {
                enqueue(&mut pending, path);
                break;
            }
        }
    }
    finished
}

/// Inserts a path by its progress, or merges it into a path at the same position.
fn enqueue<'a, 'q>(pending: &mut Vec<TracePath<'a, 'q>>, path: TracePath<'a, 'q>) {
    let position = pending.partition_point(|other| other.progress(&path).is_gt());
    let mut same_position = pending
        .iter_mut()
        .skip(position)
        .take_while(|other| other.progress(&path).is_eq());
    match same_position.find(|other| other.can_merge(&path)) {
        Some(other) => other.merge(path),
        None => pending.insert(position, path),
    }
}
