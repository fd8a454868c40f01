//! Differences between the applied and the rendered rules, collected Service by Service: changed
//! Service chains, and edits of dispatch chains.
//!
//! Kept separate from [`partial_payload`](super::partial_payload) because the order of lines in
//! the payload is not the order in which differences are found.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::ops::Range;

use hashbrown::HashSet;

use super::cost::{Declarations, DispatchOrder};
use crate::render::service::{DispatchKey, DispatchRule, ServiceRules, write_chain_declaration};
use crate::ruleset::{DispatchChain, ServiceChain};

/// Changed Service chains of a partial payload, in the order in which they were added.
#[derive(Default)]
pub(super) struct ChainChanges {
    filled: Vec<(ServiceChain, Range<usize>)>,
    /// Rules of the filled chains, whole lines.
    text: Vec<u8>,
    deleted: Vec<ServiceChain>,
}

impl ChainChanges {
    /// Adds a chain that gets these rules.
    pub(super) fn fill(&mut self, chain: ServiceChain, rules: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(rules);
        self.filled.push((chain, start..self.text.len()));
    }

    /// Adds stale chains.
    pub(super) fn delete(&mut self, chains: impl Iterator<Item = ServiceChain>) {
        self.deleted.extend(chains);
    }

    /// Drops stale chains that are filled as well. A chain is stale for each Service on its own,
    /// and one that was left over may be desired again.
    pub(super) fn keep_filled(&mut self) {
        if !self.deleted.is_empty() {
            let filled: HashSet<_> = self.filled.iter().map(|(chain, _)| *chain).collect();
            self.deleted.retain(|chain| !filled.contains(chain));
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.filled.len() + self.deleted.len()
    }

    /// Writes the filled chains. They come before all jumps to them. With
    /// [`Declarations::First`], the chains to delete are declared here as well, so that all
    /// declarations are sorted together.
    pub(super) fn write_filled(&self, buf: &mut Vec<u8>, declarations: Declarations) {
        match declarations {
            Declarations::Inline => {
                for (chain, rules) in &self.filled {
                    write_chain_declaration(buf, *chain);
                    buf.extend_from_slice(self.text.get(rules.clone()).unwrap_or_default());
                }
            }
            Declarations::First => {
                let filled = self.filled.iter().map(|(chain, _)| *chain);
                let mut chains: Vec<_> = filled.chain(self.deleted.iter().copied()).collect();
                chains.sort_by_cached_key(|chain| Reverse(chain.sort_key()));
                for chain in chains {
                    write_chain_declaration(buf, chain);
                }
                buf.extend_from_slice(&self.text);
            }
        }
    }

    /// Writes the deletion of stale chains, which comes when no rule of another chain references
    /// them anymore. They refer to each other, so all are emptied before the first is deleted.
    pub(super) fn write_deleted(&self, buf: &mut Vec<u8>, declarations: Declarations) {
        if declarations == Declarations::Inline {
            for chain in &self.deleted {
                write_chain_declaration(buf, *chain);
            }
        }
        for chain in &self.deleted {
            buf.extend_from_slice(b"-X ");
            chain.write(buf);
            buf.push(b'\n');
        }
    }
}

/// Edits of dispatch chains.
#[derive(Default)]
pub(super) struct DispatchChanges {
    by_chain: BTreeMap<DispatchChain, Edits>,
}

/// Edits of one dispatch chain: rules without the chain's name, with their newline.
#[derive(Default)]
pub(super) struct Edits {
    pub(super) removed: Vec<Box<[u8]>>,
    pub(super) added: Vec<Box<[u8]>>,
}

impl DispatchChanges {
    /// Adds the [fewest edits](fewest_edits) after which the rules of each group are in the
    /// rendered order.
    pub(super) fn add(&mut self, applied: &[DispatchRule], rules: &ServiceRules) {
        let applied = applied.iter().map(|rule| (rule.key, &*rule.text));
        if applied.clone().eq(rules.dispatch_rules()) {
            return;
        }
        let (applied, desired) = (by_key(applied), by_key(rules.dispatch_rules()));
        let (mut applied, mut desired) = (&*applied, &*desired);
        while let Some(key) = first_key(applied, desired) {
            let (removed, added) =
                fewest_edits(take_group(&mut applied, key), take_group(&mut desired, key));
            if !removed.is_empty() || !added.is_empty() {
                let of_chain = self.by_chain.entry(key.chain).or_default();
                let removed = removed.into_iter().map(|(_, rule)| rule.into());
                of_chain.removed.extend(removed);
                let added = added.into_iter().map(|(_, rule)| rule.into());
                of_chain.added.extend(added);
            }
        }
    }

    pub(super) fn edits(&self, dispatch: DispatchChain) -> Option<&Edits> {
        self.by_chain.get(&dispatch)
    }
}

/// Dispatch rule, rendered or applied.
type KeyedRule<'r> = (DispatchKey, &'r [u8]);

/// Returns rules sorted by key; those of one group in their order.
fn by_key<'r>(rules: impl Iterator<Item = KeyedRule<'r>>) -> Vec<KeyedRule<'r>> {
    let mut rules: Vec<_> = rules.collect();
    rules.sort_by_key(|(key, _)| *key);
    rules
}

fn first_key(applied: &[KeyedRule<'_>], desired: &[KeyedRule<'_>]) -> Option<DispatchKey> {
    let first = [applied.first(), desired.first()].into_iter().flatten();
    first.map(|(key, _)| *key).min()
}

/// Removes the group with this key from the front, and returns it.
fn take_group<'p, 'r>(rules: &mut &'p [KeyedRule<'r>], key: DispatchKey) -> &'p [KeyedRule<'r>] {
    let end = rules.partition_point(|(of, _)| *of <= key);
    let (taken, rest) = rules.split_at(end);
    *rules = rest;
    taken
}

/// Returns the rules to remove, and those to insert at the top, which turn `applied` into
/// `desired`. They are the fewest, unless equal rules require that all are removed (see below).
///
/// Flat chains get rules at the top only (`-I` without a number), so the rules that stay have to
/// be a suffix of the desired ones. Both lists are walked from the end: from `a b c` to `x a c`,
/// the rules `c` and `a` stay, `b` is removed and `x` inserted. From `b c` to `b a c`, only `c`
/// stays, as `a` cannot be inserted behind `b`. Linear in the number of rules: a Service may have
/// 90,000 external IPs.
///
/// `-D` deletes the first rule with the same text. If only one of two equal rules is to be
/// removed, the first might be the one to stay, so all rules are removed and inserted again.
fn fewest_edits<T: Eq + Hash + Copy>(applied: &[T], desired: &[T]) -> (Vec<T>, Vec<T>) {
    if applied == desired {
        return (Vec::new(), Vec::new());
    }
    let (mut removed, mut added) = (applied.to_vec(), desired.to_vec());
    // Applied rules behind one that stays, which the walk passed.
    let mut skipped = Vec::new();
    while let Some(last) = added.last() {
        let Some(at) = removed.iter().rposition(|rule| rule == last) else {
            break;
        };
        skipped.extend(removed.drain(at..).skip(1));
        added.pop();
    }
    removed.append(&mut skipped);
    let stays = desired.get(added.len()..).unwrap_or_default();
    if intersects(stays, &removed) {
        return (applied.to_vec(), desired.to_vec());
    }
    (removed, added)
}

/// Reports whether a rule is in both lists.
fn intersects<T: Eq + Hash>(one: &[T], other: &[T]) -> bool {
    if one.is_empty() || other.is_empty() {
        return false;
    }
    let one: HashSet<&T> = one.iter().collect();
    other.iter().any(|rule| one.contains(rule))
}

/// Returns rule groups in this order; the rules of each keep theirs.
pub(super) fn in_order<'r>(
    groups: impl Iterator<Item = &'r [DispatchRule]>,
    order: DispatchOrder,
) -> Vec<&'r [DispatchRule]> {
    let mut groups: Vec<_> = groups.collect();
    if order == DispatchOrder::ByTarget {
        groups.sort_by_key(|rules| Reverse(rules.first().map(|rule| target(&rule.text))));
    }
    groups
}

/// Returns the target of a rule: the last word, with the newline.
fn target(rule: &[u8]) -> &[u8] {
    rule.rsplit(|byte| *byte == b' ').next().unwrap_or_default()
}

/// Writes a command, such as `-A `, for each of these rules of one chain.
pub(super) fn write_commands<'r>(
    buf: &mut Vec<u8>,
    command: &str,
    chain: &str,
    rules: impl Iterator<Item = &'r [u8]>,
) {
    for rule in rules {
        buf.extend_from_slice(command.as_bytes());
        buf.extend_from_slice(chain.as_bytes());
        buf.extend_from_slice(rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies the edits; returns their number and the chain.
    fn edited(applied: &str, desired: &str) -> (usize, String) {
        let mut chain: Vec<char> = applied.chars().collect();
        let (removed, added) = fewest_edits(&chain, &desired.chars().collect::<Vec<_>>());
        for rule in &removed {
            let at = chain.iter().position(|applied| applied == rule).unwrap();
            chain.remove(at);
        }
        for rule in added.iter().rev() {
            chain.insert(0, *rule);
        }
        (removed.len() + added.len(), chain.into_iter().collect())
    }

    #[test]
    fn edits_end_in_the_wanted_order() {
        let lists = [
            "", "a", "b", "ab", "ba", "aba", "aab", "abc", "cab", "acba", "bb", "abcab",
        ];
        for applied in lists {
            for desired in lists {
                assert_eq!(
                    edited(applied, desired).1,
                    desired,
                    "{applied} -> {desired}"
                );
            }
        }
    }

    #[test]
    fn rules_that_can_stay_are_not_edited() {
        assert_eq!(edited("bc", "abc").0, 1);
        assert_eq!(edited("abc", "bc").0, 1);
        assert_eq!(edited("abc", "ac").0, 1);
        assert_eq!(edited("abc", "abc").0, 0);
        assert_eq!(edited("bc", "bac").0, 3);
    }
}
