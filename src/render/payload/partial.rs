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
//! KEP: kep.k8s.io/3453

use std::collections::BTreeSet;

use super::changes::{ChainChanges, DispatchChanges, in_order, write_commands};
use super::cost::{self, DispatchOrder, NatSizes};
use crate::model::{ServiceName, Services};
use crate::render::applied::{AppliedService, AppliedState, PayloadStats};
use crate::render::fixed_chains;
use crate::render::options::{Comments, Options, PartialRestore};
use crate::render::service::{self, ServiceRules, write_chain_declarations, write_line};
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
            let is_same = before.digest(rendered.chain) == Some(rendered.digest);
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
