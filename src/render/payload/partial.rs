//! Partial payload: only the chains that differ from the applied ones. Its size follows the
//! change, not the cluster.
//!
//! # Order
//!
//! In nat: changed Service chains, each declaration before its rules; changes of the dispatch
//! chains, rule by rule or the whole chain; then the stale chains, all emptied before the first is
//! deleted. With very many chains all declarations come first; nat begins with `-S` if the payload
//! is large in relation to the table. [`cost`](super::cost) decides both.
//!
//! A table without changes is left out of the payload. Without any change the payload is empty, and
//! no process need be started for it.
//!
//! KEP: kep.k8s.io/3453

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::changes::{ChainChanges, DispatchChanges};
use super::cost::{self, DispatchOrder, NatSizes};
use crate::model::{ServiceName, Services};
use crate::render::applied::{AppliedService, AppliedState, DispatchRule, PayloadStats};
use crate::render::fixed_chains;
use crate::render::options::{Comments, Options, PartialRestore, RenderContext};
use crate::render::service::{self, ServiceRules, write_chain_declarations, write_line};
use crate::rules::{Backend, Table};
use crate::ruleset::{DispatchChain, FILTER_CHAINS, KUBE_FIREWALL, NAT_CHAINS, ServiceChain};

/// Partial payload. It is small, so it is simply text.
#[derive(Debug, Default)]
pub struct PartialPayload {
    /// Input of `iptables-restore --noflush`; empty if the kernel has all rules already.
    pub text: Vec<u8>,
    /// Size of the payload.
    pub stats: PayloadStats,
}

/// Renders the changes of the Services in `dirty`.
///
/// Updates `applied` in advance, as if the payload had been restored already. [`AppliedState`] says
/// what to do with it after the restore; to be able to revert it, call [`AppliedState::save`]
/// first.
pub fn partial<'n>(
    applied: &mut AppliedState,
    services: &dyn Services,
    dirty: impl Iterator<Item = &'n ServiceName> + Clone,
    context: RenderContext<'_>,
    partial_restore: PartialRestore,
) -> PartialPayload {
    let comments = comments_after(applied, services, dirty.clone(), context);
    let nat_rules = applied.rules().nat;
    let mut changes = Changes::default();
    let mut rules = ServiceRules::default();
    for name in dirty {
        match services.get(name) {
            Some(state) => service::render(&mut rules, name, state, context, comments),
            None => rules.clear(),
        }
        let before = applied.record(name, &rules);
        changes.add(&before, &rules, partial_restore);
    }
    let jumps = fixed_chains::node_ports_jumps(context.options);
    let before = PreviousState {
        node_ports_jumps: std::mem::replace(&mut applied.node_ports_jumps, jumps),
        nat_rules,
        chains_to_rewrite: std::mem::take(&mut applied.chains_to_rewrite),
    };
    changes.write(applied, &before, partial_restore, context.options)
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
    context: RenderContext<'_>,
) -> Comments {
    let (mut endpoints, mut upper_bound) = (applied.totals().endpoints, 0);
    for name in dirty.clone() {
        endpoints -= applied.endpoints_of(name);
        upper_bound += services.get(name).map_or(0, service::endpoints_upper_bound);
    }
    let mut comments = Comments::for_cluster(endpoints, context.options);
    // An exact count merges all slices, as rendering does again. It is needed only if the dirty
    // Services can change the answer: if the lower and the upper bound give different ones.
    if comments == Comments::for_cluster(endpoints + upper_bound, context.options) {
        return comments;
    }
    for name in dirty {
        endpoints += services.get(name).map_or(0, service::count_endpoints);
        comments = Comments::for_cluster(endpoints, context.options);
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

/// Values of the applied state from before [`partial`] updated it.
struct PreviousState {
    /// Jumps to `KUBE-NODEPORTS`.
    node_ports_jumps: Vec<Box<[u8]>>,
    /// Number of rules of the proxy in nat.
    nat_rules: u64,
    /// Dispatch chains that have to be written whole, even without changes.
    chains_to_rewrite: BTreeSet<DispatchChain>,
}

/// Extent to which a dispatch chain is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DispatchExtent {
    Unchanged,
    Edits,
    Whole(DispatchOrder),
}

impl Changes {
    /// Adds the difference between the applied and the rendered rules of a Service.
    fn add(
        &mut self,
        before: &AppliedService,
        rules: &ServiceRules,
        partial_restore: PartialRestore,
    ) {
        for entry in rules.chains() {
            let is_same = before.digest(entry.chain) == Some(entry.digest);
            if is_same && partial_restore == PartialRestore::ChangedChains {
                continue;
            }
            self.stats.rules.add(Table::Nat, u64::from(entry.rules));
            self.chains.fill(entry.chain, rules.chain_text(entry));
        }
        let wanted: BTreeSet<_> = rules.chains().map(|entry| entry.chain).collect();
        let recorded = before.chains.iter().map(|recorded| recorded.chain);
        let is_stale = |chain: &ServiceChain| !wanted.contains(chain);
        self.chains.delete(recorded.filter(is_stale));
        self.dispatch.add(&before.dispatch, rules);
    }

    /// Writes the payload. `applied` has been updated, `before` has the parts that it replaced.
    fn write(
        mut self,
        applied: &AppliedState,
        before: &PreviousState,
        partial_restore: PartialRestore,
        options: &Options,
    ) -> PartialPayload {
        self.stats.chains = self.chains.len() as u64;
        let declarations = cost::partial_declarations(options.backend, self.chains.len());
        let mut text = Vec::new();
        for table in [Table::Filter, Table::Nat] {
            let mut body = Vec::new();
            if partial_restore == PartialRestore::Kep3453 {
                self.write_fixed(&mut body, table, options);
            }
            if table == Table::Nat {
                self.chains.write_filled(&mut body, declarations);
            }
            let chains = DispatchChain::ALL.into_iter();
            for dispatch in chains.filter(|chain| chain.table() == table) {
                let needs_rewrite = before.chains_to_rewrite.contains(&dispatch);
                let extent = match partial_restore {
                    // Upstream writes it whole at every sync, whatever it costs. `write_fixed` has
                    // emptied it already.
                    PartialRestore::Kep3453 => DispatchExtent::Whole(DispatchOrder::ByService),
                    PartialRestore::ChangedChains if needs_rewrite => {
                        DispatchExtent::Whole(cost::order(options.backend))
                    }
                    PartialRestore::ChangedChains => self.extent(dispatch, options.backend),
                };
                let is_whole = matches!(extent, DispatchExtent::Whole(_));
                if partial_restore == PartialRestore::ChangedChains && is_whole {
                    write_chain_declarations(&mut body, &[dispatch.name()]);
                }
                self.write_dispatch(&mut body, dispatch, extent, applied);
                if dispatch == DispatchChain::NatServices {
                    let (old, new) = (&before.node_ports_jumps, &applied.node_ports_jumps);
                    self.write_node_ports_jumps(&mut body, extent, old, new);
                }
            }
            if table == Table::Nat {
                self.chains.write_deleted(&mut body, declarations);
            }
            if !body.is_empty() {
                write_line(&mut text, &["*", table.as_str()]);
                let can_list = table == Table::Nat && applied.can_list_nat;
                if can_list && self.nat_sizes(before).is_worth_listing(options.backend) {
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

    /// Declares, and so empties, the dispatch and fixed chains, and fills the fixed chains again,
    /// as every sync of upstream does.
    fn write_fixed(&mut self, buf: &mut Vec<u8>, table: Table, options: &Options) {
        match table {
            Table::Filter => {
                write_chain_declarations(buf, &FILTER_CHAINS);
                if fixed_chains::fills_firewall(options) {
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
            Some(edits) if edits.removed.len() <= cost::most_deletions(backend) => {
                DispatchExtent::Edits
            }
            Some(_) => DispatchExtent::Whole(cost::order(backend)),
        }
    }

    fn nat_sizes(&self, before: &PreviousState) -> NatSizes {
        NatSizes {
            chains: self.chains.len() as u64,
            rules: self.stats.rules.nat,
            applied_rules: before.nat_rules,
        }
    }

    /// Writes changes of a dispatch chain. Edits insert new rules at the top, which costs as little
    /// as at the end, and leaves the jumps to `KUBE-NODEPORTS` last. The new rules keep their
    /// order.
    fn write_dispatch(
        &mut self,
        buf: &mut Vec<u8>,
        dispatch: DispatchChain,
        extent: DispatchExtent,
        applied: &AppliedState,
    ) {
        let (chain, table) = (dispatch.name(), dispatch.table());
        match (extent, self.dispatch.edits(dispatch)) {
            (DispatchExtent::Whole(order), _) => {
                let groups = in_order(applied.dispatch_groups(dispatch), order);
                let whole = groups.into_iter().flatten().map(|(_, rule)| &**rule);
                write_rules(buf, "-A ", chain, whole);
                self.stats.rules.add(table, applied.dispatch_len(dispatch));
                self.stats.chains += 1;
            }
            (DispatchExtent::Edits, Some(edits)) => {
                write_rules(buf, "-D ", chain, edits.removed.iter().map(|rule| &**rule));
                let added = edits.added.iter().rev().map(|rule| &**rule);
                write_rules(buf, "-I ", chain, added);
                self.stats.rules.add(table, edits.added.len() as u64);
            }
            (DispatchExtent::Unchanged | DispatchExtent::Edits, _) => {}
        }
    }

    /// Writes changes of the jumps to `KUBE-NODEPORTS`. New ones are appended, so that the jumps
    /// stay last.
    fn write_node_ports_jumps(
        &mut self,
        buf: &mut Vec<u8>,
        extent: DispatchExtent,
        old: &[Box<[u8]>],
        new: &[Box<[u8]>],
    ) {
        let (mut removed, mut added): (Vec<&[u8]>, Vec<&[u8]>) = (Vec::new(), Vec::new());
        if matches!(extent, DispatchExtent::Whole(_)) {
            added.extend(new.iter().map(|rule| &**rule));
        } else {
            let gone = old.iter().filter(|rule| !new.contains(rule));
            removed.extend(gone.map(|rule| &**rule));
            let missing = new.iter().filter(|rule| !old.contains(rule));
            added.extend(missing.map(|rule| &**rule));
        }
        self.stats.rules.add(Table::Nat, added.len() as u64);
        let chain = DispatchChain::NatServices.name();
        write_rules(buf, "-D ", chain, removed.into_iter());
        write_rules(buf, "-A ", chain, added.into_iter());
    }
}

/// Returns groups of rules in this order; those of one group keep theirs.
fn in_order<'r>(
    groups: impl Iterator<Item = &'r [DispatchRule]>,
    order: DispatchOrder,
) -> Vec<&'r [DispatchRule]> {
    let mut groups: Vec<_> = groups.collect();
    if order == DispatchOrder::ByTarget {
        groups.sort_by_key(|rules| Reverse(rules.first().map(|(_, rule)| target(rule))));
    }
    groups
}

/// Returns the target of a rule: the last word, with the newline.
fn target(rule: &[u8]) -> &[u8] {
    rule.rsplit(|byte| *byte == b' ').next().unwrap_or_default()
}

fn write_rules<'r>(
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
