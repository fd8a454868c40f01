//! Partial payload: only the chains that differ from the applied ones. With
//! [`PartialRestore::ChangedChains`], its size follows the change, not the cluster.
//!
//! # Order
//!
//! In nat: changed Service chains, each declaration before its rules; then changes of flat dispatch
//! chains and of trees; then the stale chains, all emptied before the first is deleted. On nft the
//! declarations of very many Service chains come first, and nat begins with `-S` if the payload is
//! a large part of the table: see [`cost`](super::cost).
//!
//! With `ChangedChains`, a table without changes is not in the payload. Without any change the
//! payload is empty, and no process need be started for it. With [`PartialRestore::Kep3453`], the
//! fixed and the dispatch chains are always in it.
//!
//! Differences are collected Service by Service, because the order of lines in the payload is not
//! the order in which they are found.
//!
//! KEP: kep.k8s.io/3453

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::ops::Range;

use hashbrown::HashSet;

use super::cost::{self, Declarations, DispatchOrder, NatSizes};
use crate::model::{ServiceName, Services};
use crate::render::applied::{AppliedService, AppliedState, PayloadStats};
use crate::render::fixed_chains;
use crate::render::options::{Comments, Options, PartialRestore};
use crate::render::service::{
    self, DispatchKey, DispatchRule, KeyedRule, ServiceRules, by_key, write_chain_declaration,
    write_chain_declarations, write_line,
};
use crate::render::tree::{TreeChanges, TreeExtent};
use crate::rules::{Backend, Table};
use crate::ruleset::{DispatchChain, FILTER_CHAINS, KUBE_FIREWALL, NAT_CHAINS, ServiceChain};

/// Partial payload. Held in memory as a whole: it is small, except if very many Services changed,
/// or after an adoption, where it may have half of the rules.
#[derive(Debug, Default)]
pub struct PartialPayload {
    /// Input of `iptables-restore --noflush`; empty if nothing has to be written.
    pub text: Vec<u8>,
    /// Size of the payload.
    pub stats: PayloadStats,
}

/// Renders the changes of the Services in `dirty`.
///
/// Updates `applied` in advance, as if the payload had been restored already. [`AppliedState`]
/// describes what to do with it after the restore; to be able to revert it, call
/// [`AppliedState::snapshot`] first.
pub fn partial_payload<'n>(
    applied: &mut AppliedState,
    services: &dyn Services,
    dirty: impl Iterator<Item = &'n ServiceName> + Clone,
    options: &Options,
    partial_restore: PartialRestore,
) -> PartialPayload {
    let comments = comments_after(applied, services, dirty.clone(), options);
    let nat_rule_count = applied.rule_counts().nat;
    let mut changes = Changes::default();
    let mut rules = ServiceRules::default();
    for name in dirty {
        match services.get(name) {
            Some(state) => service::render(&mut rules, name, state, options, comments),
            None => rules.clear(),
        }
        let before = applied.record(name, &rules);
        changes.add(&before, &rules, partial_restore);
    }
    for table in [Table::Filter, Table::Nat] {
        applied.reshape(table, options.tree_thresholds);
    }
    let jumps = fixed_chains::node_ports_jumps(options);
    let before = PreviousState {
        node_ports_jumps: std::mem::replace(&mut applied.node_ports_jumps, jumps),
        nat_rule_count,
        chains_to_rewrite: std::mem::take(&mut applied.chains_to_rewrite),
    };
    let context = WriteContext {
        before: &before,
        partial_restore,
        options,
    };
    changes.write(applied, &context)
}

/// Returns which rules have comments, given the endpoints that the dirty Services have now.
///
/// If the number of endpoints crosses the threshold, no rule is rewritten for that alone, as
/// upstream: comments do not change the effect of a rule. Rules in the kernel get or lose theirs
/// when their Service changes, or with the next full restore.
fn comments_after<'n>(
    applied: &AppliedState,
    services: &dyn Services,
    dirty: impl Iterator<Item = &'n ServiceName> + Clone,
    options: &Options,
) -> Comments {
    let (mut endpoints, mut upper_bound) = (applied.totals().endpoints, 0);
    for name in dirty.clone() {
        endpoints -= applied.endpoints_of(name);
        upper_bound += services.get(name).map_or(0, service::endpoints_upper_bound);
    }
    let mut comments = Comments::for_cluster(endpoints, options);
    // An exact count merges all slices, as rendering does again. It is needed only if the dirty
    // Services can change the answer: if the lower and the upper bound give different ones.
    if comments == Comments::for_cluster(endpoints + upper_bound, options) {
        return comments;
    }
    for name in dirty {
        endpoints += services.get(name).map_or(0, service::count_endpoints);
        comments = Comments::for_cluster(endpoints, options);
        if comments == Comments::NotOnEndpoints {
            break;
        }
    }
    comments
}

/// Changes of all dirty Services.
#[derive(Default)]
struct Changes {
    chains: ChainChanges,
    dispatch: DispatchChanges,
    stats: PayloadStats,
}

/// Values of the applied state that [`partial_payload`] has replaced.
struct PreviousState {
    /// Jumps to `KUBE-NODEPORTS`.
    node_ports_jumps: Vec<Box<[u8]>>,
    /// Number of rules of the proxy in nat.
    nat_rule_count: u64,
    /// Flat dispatch chains that have to be written whole, even without changes, including those
    /// that were trees before.
    chains_to_rewrite: BTreeSet<DispatchChain>,
}

/// Inputs of writing a payload besides the changes.
struct WriteContext<'a> {
    before: &'a PreviousState,
    partial_restore: PartialRestore,
    options: &'a Options,
}

/// Extent of a restore: the rules of one dispatch chain that it writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DispatchExtent {
    /// None.
    Unchanged,
    /// The rules that changed, with `-I` and `-D`.
    Edits,
    /// All, after the chain was emptied.
    Whole,
}

impl Changes {
    /// Adds the difference between the applied and the rendered rules of a Service.
    fn add(
        &mut self,
        before: &AppliedService,
        rules: &ServiceRules,
        partial_restore: PartialRestore,
    ) {
        for rendered in rules.chains() {
            let recorded = before.digest(rendered.chain);
            let is_same = recorded.is_some_and(|digest| digest.is_same(rendered.digest));
            if is_same && partial_restore != PartialRestore::Kep3453 {
                continue;
            }
            let rule_count = u64::from(rendered.rule_count);
            self.stats.rules.add(Table::Nat, rule_count);
            self.chains.fill(rendered.chain, rules.chain_text(rendered));
        }
        let desired: BTreeSet<_> = rules.chains().map(|rendered| rendered.chain).collect();
        let recorded = before.chains.iter().map(|recorded| recorded.chain);
        let is_stale = |chain: &ServiceChain| !desired.contains(chain);
        self.chains.delete(recorded.filter(is_stale));
        self.dispatch.add(&before.dispatch, rules);
    }

    /// Writes the payload. `applied` has the rendered Services already; the chains of trees are
    /// rendered and recorded here.
    fn write(mut self, applied: &mut AppliedState, context: &WriteContext<'_>) -> PartialPayload {
        self.chains.keep_filled();
        self.stats.chains = self.chains.len() as u64;
        let backend = context.options.backend;
        let mut text = Vec::new();
        for table in [Table::Filter, Table::Nat] {
            let chains_before = self.stats.chains;
            let mut body = self.write_table(table, applied, context);
            if !body.is_empty() {
                write_line(&mut text, &["*", table.as_str()]);
                let can_list = table == Table::Nat && applied.is_nat_printable;
                let sizes = self.nat_sizes(context.before, self.stats.chains - chains_before);
                if can_list && sizes.is_worth_listing(backend) {
                    write_line(&mut text, &["-S"]);
                }
                text.append(&mut body);
                write_line(&mut text, &["COMMIT"]);
            }
        }
        self.stats.bytes = text.len() as u64;
        PartialPayload {
            text,
            stats: self.stats,
        }
    }

    fn write_table(
        &mut self,
        table: Table,
        applied: &mut AppliedState,
        context: &WriteContext<'_>,
    ) -> Vec<u8> {
        let mut body = Vec::new();
        let backend = context.options.backend;
        let declarations = cost::partial_declarations(backend, self.chains.len());
        let mut unused = applied.take_unused_tree_chains(table);
        if context.partial_restore == PartialRestore::Kep3453 {
            self.reset_shared_chains(&mut body, table, context.options);
        }
        if table == Table::Nat {
            self.chains.write_filled(&mut body, declarations);
        }
        let tree_extent = match context.partial_restore {
            PartialRestore::Kep3453 => TreeExtent::AllChains,
            PartialRestore::WholeTreeChains => TreeExtent::ChangedChains,
            PartialRestore::ChangedChains => cost::tree_extent(backend),
        };
        let chains = DispatchChain::ALL.into_iter();
        for dispatch in chains.filter(|chain| chain.table() == table) {
            let extent = match applied.render_and_record_tree(dispatch, tree_extent) {
                Some(tree) => {
                    let extent = self.write_tree(&mut body, dispatch, &tree);
                    unused.extend(tree.deleted);
                    extent
                }
                None => self.write_flat_chain(&mut body, dispatch, applied, context),
            };
            if dispatch == DispatchChain::NatServices {
                let (old, new) = (&context.before.node_ports_jumps, &applied.node_ports_jumps);
                self.write_node_ports_jumps(&mut body, extent, old, new);
            }
        }
        if !unused.is_empty() {
            // A tree that was made just now may have a chain that was unused before.
            let used = applied.tree_chain_names(table);
            unused.retain(|name| !used.contains(&**name));
        }
        // All are emptied before the first chain is deleted: they jump to chains of Services.
        for name in &unused {
            write_chain_declarations(&mut body, &[name]);
        }
        if table == Table::Nat {
            self.chains.write_deleted(&mut body, declarations);
        }
        for name in &unused {
            write_line(&mut body, &["-X ", name]);
        }
        body
    }

    /// Writes the changed chains of a tree, and its root if that changed. Returns the extent of
    /// the root.
    fn write_tree(
        &mut self,
        buf: &mut Vec<u8>,
        dispatch: DispatchChain,
        tree: &TreeChanges,
    ) -> DispatchExtent {
        tree.write_chains(buf);
        self.stats.rules.add(dispatch.table(), tree.rule_count());
        self.stats.chains += tree.chain_count();
        match &tree.root {
            None => DispatchExtent::Unchanged,
            Some(rules) => {
                write_chain_declarations(buf, &[dispatch.name()]);
                buf.extend_from_slice(rules.as_bytes());
                DispatchExtent::Whole
            }
        }
    }

    /// Writes changes of a flat dispatch chain, after its declaration if it is written whole.
    /// Returns their extent.
    fn write_flat_chain(
        &mut self,
        buf: &mut Vec<u8>,
        dispatch: DispatchChain,
        applied: &AppliedState,
        context: &WriteContext<'_>,
    ) -> DispatchExtent {
        let backend = context.options.backend;
        if context.partial_restore == PartialRestore::Kep3453 {
            // As upstream at every sync. `reset_shared_chains` has emptied it already.
            self.write_all_rules(buf, dispatch, applied, DispatchOrder::ByService);
            return DispatchExtent::Whole;
        }
        let extent = if context.before.chains_to_rewrite.contains(&dispatch) {
            DispatchExtent::Whole
        } else {
            self.extent(dispatch, backend)
        };
        match extent {
            DispatchExtent::Unchanged => {}
            DispatchExtent::Edits => self.write_edits(buf, dispatch),
            DispatchExtent::Whole => {
                write_chain_declarations(buf, &[dispatch.name()]);
                self.write_all_rules(buf, dispatch, applied, cost::order(backend));
            }
        }
        extent
    }

    /// Declares, and so empties, the dispatch and fixed chains, and fills the fixed chains again,
    /// as every sync of upstream does.
    fn reset_shared_chains(&mut self, buf: &mut Vec<u8>, table: Table, options: &Options) {
        match table {
            Table::Filter => {
                write_chain_declarations(buf, &FILTER_CHAINS);
                if fixed_chains::fills_kube_firewall(options) {
                    write_chain_declarations(buf, &[KUBE_FIREWALL]);
                }
                fixed_chains::write_filter(buf, options);
                self.stats.rules.filter += fixed_chains::rule_counts(options).filter;
            }
            Table::Nat => {
                write_chain_declarations(buf, &NAT_CHAINS);
                fixed_chains::write_nat(buf, options);
                self.stats.rules.nat += fixed_chains::rule_counts(options).nat;
            }
            Table::Mangle => {}
        }
    }

    /// Returns the smallest extent that the changes need.
    fn extent(&self, dispatch: DispatchChain, backend: Backend) -> DispatchExtent {
        match self.dispatch.edits(dispatch) {
            None => DispatchExtent::Unchanged,
            Some(edits) if edits.removed.len() <= cost::max_deletions(backend) => {
                DispatchExtent::Edits
            }
            Some(_) => DispatchExtent::Whole,
        }
    }

    fn nat_sizes(&self, before: &PreviousState, tree_chains: u64) -> NatSizes {
        NatSizes {
            chains: self.chains.len() as u64 + tree_chains,
            rules: self.stats.rules.nat,
            applied_rules: before.nat_rule_count,
        }
    }

    /// Writes all rules of a flat dispatch chain.
    fn write_all_rules(
        &mut self,
        buf: &mut Vec<u8>,
        dispatch: DispatchChain,
        applied: &AppliedState,
        order: DispatchOrder,
    ) {
        let groups = in_order(applied.rule_groups(dispatch), order);
        let rules = groups.into_iter().flatten().map(|rule| &*rule.text);
        write_commands(buf, "-A ", dispatch.name(), rules);
        let rule_count = applied.dispatch_rule_count(dispatch);
        self.stats.rules.add(dispatch.table(), rule_count);
        self.stats.chains += 1;
    }

    /// Writes the edits of a flat dispatch chain. New rules are inserted at the top, in their
    /// order: that costs as little as at the end, and leaves the jumps to `KUBE-NODEPORTS` last.
    fn write_edits(&mut self, buf: &mut Vec<u8>, dispatch: DispatchChain) {
        let Some(edits) = self.dispatch.edits(dispatch) else {
            return;
        };
        let chain = dispatch.name();
        write_commands(buf, "-D ", chain, edits.removed.iter().map(|rule| &**rule));
        let added = edits.added.iter().rev().map(|rule| &**rule);
        write_commands(buf, "-I ", chain, added);
        let added = edits.added.len() as u64;
        self.stats.rules.add(dispatch.table(), added);
    }

    /// Writes changes of the jumps to `KUBE-NODEPORTS`. New ones are appended, so that the jumps
    /// stay last; all of them if they would not be in order otherwise.
    fn write_node_ports_jumps(
        &mut self,
        buf: &mut Vec<u8>,
        extent: DispatchExtent,
        old: &[Box<[u8]>],
        new: &[Box<[u8]>],
    ) {
        let (kept, mut removed): (Vec<_>, Vec<_>) = old.iter().partition(|rule| new.contains(rule));
        let mut stay = kept.len();
        if extent == DispatchExtent::Whole {
            (removed, stay) = (Vec::new(), 0);
        } else if !new.iter().take(stay).eq(kept) {
            (removed, stay) = (old.iter().collect(), 0);
        }
        let added = new.get(stay..).unwrap_or_default();
        self.stats.rules.add(Table::Nat, added.len() as u64);
        let chain = DispatchChain::NatServices.name();
        write_commands(buf, "-D ", chain, removed.iter().map(|rule| &***rule));
        write_commands(buf, "-A ", chain, added.iter().map(|rule| &**rule));
    }
}

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
        let applied = applied.iter().map(DispatchRule::keyed);
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
        groups.sort_by_key(|rules| Reverse(rules.first().map(DispatchRule::target)));
    }
    groups
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
