//! Partial payload: only the chains that differ from the applied ones. With
//! [`PartialRestore::ChangedChains`], its size follows the change, not the cluster.
//!
//! # Order
//!
//! Damaged fixed chains, then the differences of filter and nat, then missing entry jumps.
//!
//! In nat: changed Service chains, each declaration before its rules; then changed dispatch chains,
//! flat ones whole and trees chain by chain; then the stale chains, all emptied before the first is
//! deleted. On nft the declarations of very many Service chains come first, and nat begins with
//! `-S` if the payload is a large part of the table: see [`cost`](super::cost).
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
use std::collections::BTreeSet;
use std::ops::Range;

use super::cost::{self, Declarations, NatSizes};
use crate::model::{ServiceName, Services};
use crate::render::applied::{AppliedState, PayloadStats, RenderedChains};
use crate::render::fixed_chains;
use crate::render::options::{Comments, Options, PartialRestore};
use crate::render::service::{
    self, AppliedService, RecordedChain, ServiceRules, write_chain_declaration,
    write_chain_declarations, write_line,
};
use crate::rules::Table;
use crate::ruleset::{DispatchChain, FILTER_CHAINS, KUBE_FIREWALL, NAT_CHAINS, ServiceChain};

/// Partial payload. Held in memory as a whole: it is small, except if very many Services changed,
/// or after an adoption, where it may have half of the rules.
#[derive(Debug, Default)]
pub struct PartialPayload {
    /// Input of `iptables-restore --noflush`; empty if nothing has to be written.
    pub text: Vec<u8>,
    /// Size of the payload.
    pub stats: PayloadStats,
    /// Record of the rendered chains after the payload was written.
    pub rendered: RenderedChains,
}

/// Renders the difference between the record and these Services, those that are
/// [due](AppliedState::due) included. In `applied`, only the desired dispatch rules change; after
/// the restore, the caller notes its result there.
pub fn partial_payload<'n>(
    applied: &mut AppliedState,
    services: &dyn Services,
    dirty: impl Iterator<Item = &'n ServiceName>,
    options: &Options,
    partial_restore: PartialRestore,
) -> PartialPayload {
    let mut names: BTreeSet<ServiceName> = dirty.cloned().collect();
    names.extend(applied.due().cloned());
    let comments = comments_after(applied, services, names.iter(), options);
    let nat_rule_count = applied.rule_counts().nat;
    let mut payload = PayloadWriter {
        options,
        partial_restore,
        nat_rule_count,
        chains: ChainChanges::default(),
        stats: PayloadStats::default(),
        rendered: RenderedChains::default(),
    };
    let mut rules = ServiceRules::default();
    for name in names {
        match services.get(&name) {
            Some(state) => service::render(&mut rules, &name, state, options, comments),
            None => rules.clear(),
        }
        payload.add(applied, name, &rules);
    }
    for table in [Table::Filter, Table::Nat] {
        applied.reshape(table, options.tree_thresholds);
    }
    applied.set_node_ports_jumps(fixed_chains::node_ports_jumps(options));
    payload.write(applied)
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

/// Writer of a partial payload.
struct PayloadWriter<'a> {
    options: &'a Options,
    partial_restore: PartialRestore,
    /// Number of rules of the proxy in nat before the restore.
    nat_rule_count: u64,
    chains: ChainChanges,
    stats: PayloadStats,
    rendered: RenderedChains,
}

impl PayloadWriter<'_> {
    /// Adds the difference between the recorded and the rendered chains of a Service.
    fn add(&mut self, applied: &mut AppliedState, name: ServiceName, rules: &ServiceRules) {
        let none = AppliedService::default();
        let before = applied.service(&name).unwrap_or(&none);
        for (rendered, text) in rules.chains() {
            if before.holds(&rendered) && self.partial_restore != PartialRestore::Kep3453 {
                continue;
            }
            let rule_count = u64::from(rendered.rule_count);
            self.stats.rules.add(Table::Nat, rule_count);
            self.chains.fill(rendered.chain, text);
        }
        let desired: BTreeSet<_> = rules.chains().map(|(rendered, _)| rendered.chain).collect();
        let recorded = before.chains.iter().map(|recorded| recorded.chain);
        let is_stale = |chain: &ServiceChain| !desired.contains(chain);
        self.chains.deleted.extend(recorded.filter(is_stale));
        let service = AppliedService::rendered(rules);
        applied.set_dispatch(&name, &service.dispatch);
        self.rendered.services.push((name, service));
    }

    /// Writes the payload. `applied` has the desired dispatch rules already.
    fn write(mut self, applied: &AppliedState) -> PartialPayload {
        self.rendered.stale = applied.deletable_chains(&self.rendered);
        self.chains.deleted.extend(&self.rendered.stale);
        for chain in applied.chains_to_empty(&self.rendered) {
            self.chains.fill(chain, b"");
        }
        self.stats.chains = self.chains.len() as u64;
        let (fixed_chains, jumps) = applied.guarded_due();
        let mut text = fixed_chains::repair_payload(fixed_chains, &[], self.options);
        for table in [Table::Filter, Table::Nat] {
            let chains_before = self.stats.chains;
            let mut body = self.write_table(table, applied);
            if !body.is_empty() {
                write_line(&mut text, &["*", table.as_str()]);
                let can_list = table == Table::Nat && applied.is_nat_printable;
                let sizes = self.nat_sizes(self.stats.chains - chains_before);
                if can_list && sizes.is_worth_listing(self.options.backend) {
                    write_line(&mut text, &["-S"]);
                }
                text.append(&mut body);
                write_line(&mut text, &["COMMIT"]);
            }
        }
        // Last, because the chains that they jump to may be missing.
        text.extend(fixed_chains::repair_payload(
            &BTreeSet::new(),
            jumps,
            self.options,
        ));
        self.stats.bytes = text.len() as u64;
        PartialPayload {
            text,
            stats: self.stats,
            rendered: self.rendered,
        }
    }

    fn write_table(&mut self, table: Table, applied: &AppliedState) -> Vec<u8> {
        let mut body = Vec::new();
        let backend = self.options.backend;
        let declarations = cost::partial_declarations(backend, self.chains.len());
        let mut unused = applied.unused_chains(table);
        let mut used = BTreeSet::new();
        if self.partial_restore == PartialRestore::Kep3453 {
            self.reset_shared_chains(&mut body, table);
        }
        if table == Table::Nat {
            self.chains.write_filled(&mut body, declarations);
        }
        let tree_extent = cost::tree_extent(backend, self.partial_restore);
        let chains = DispatchChain::ALL.into_iter();
        for dispatch in chains.filter(|chain| chain.table() == table) {
            match applied.render_tree(dispatch, tree_extent) {
                Some((written, update)) => {
                    for chain in &written {
                        chain.write(&mut body);
                        let rules = chain.rules.lines().count();
                        self.stats.rules.add(table, rules as u64);
                    }
                    self.stats.chains += (written.len() + update.deleted.len()) as u64;
                    unused.extend(update.deleted.iter().cloned());
                    used.extend(update.chain_names().map(Box::<str>::from));
                    self.rendered.trees.push((dispatch, update));
                }
                None => self.write_flat_chain(&mut body, dispatch, applied),
            }
        }
        // A tree that is made just now may have a chain that was unused before.
        unused.retain(|name| !used.contains(name));
        let deleted = unused.iter().map(|name| (table, name.clone()));
        self.rendered.unused.extend(deleted);
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

    /// Writes a flat dispatch chain whole, if its rules changed or the kernel holds others. As
    /// upstream, [`PartialRestore::Kep3453`] writes it at every sync.
    fn write_flat_chain(
        &mut self,
        buf: &mut Vec<u8>,
        dispatch: DispatchChain,
        applied: &AppliedState,
    ) {
        let (rules, recorded) = if self.partial_restore == PartialRestore::Kep3453 {
            let rules = applied.flat_rules(dispatch);
            let recorded = RecordedChain::of_lines(&rules);
            (rules, recorded)
        } else {
            let Some(changed) = applied.changed_flat_chain(dispatch) else {
                return;
            };
            write_chain_declarations(buf, &[dispatch.name()]);
            changed
        };
        self.rendered.flat.push((dispatch, recorded));
        buf.extend_from_slice(rules.as_bytes());
        let rule_count = recorded.rule_count.into();
        self.stats.rules.add(dispatch.table(), rule_count);
        self.stats.chains += 1;
    }

    /// Declares, and so empties, the dispatch and fixed chains, and fills the fixed chains again,
    /// as every sync of upstream does.
    fn reset_shared_chains(&mut self, buf: &mut Vec<u8>, table: Table) {
        let counts = fixed_chains::rule_counts(self.options);
        match table {
            Table::Filter => {
                write_chain_declarations(buf, &FILTER_CHAINS);
                if fixed_chains::fills_kube_firewall(self.options) {
                    write_chain_declarations(buf, &[KUBE_FIREWALL]);
                }
                fixed_chains::write_filter(buf, self.options);
                self.stats.rules.filter += counts.filter;
            }
            Table::Nat => {
                write_chain_declarations(buf, &NAT_CHAINS);
                fixed_chains::write_nat(buf, self.options);
                self.stats.rules.nat += counts.nat;
            }
            Table::Mangle => {}
        }
    }

    fn nat_sizes(&self, tree_chains: u64) -> NatSizes {
        NatSizes {
            chains: self.chains.len() as u64 + tree_chains,
            rules: self.stats.rules.nat,
            applied_rules: self.nat_rule_count,
        }
    }
}

/// Changed Service chains of a partial payload, in the order in which they were added.
#[derive(Default)]
struct ChainChanges {
    filled: Vec<(ServiceChain, Range<usize>)>,
    /// Rules of the filled chains, whole lines.
    text: Vec<u8>,
    deleted: Vec<ServiceChain>,
}

impl ChainChanges {
    /// Adds a chain that gets these rules.
    fn fill(&mut self, chain: ServiceChain, rules: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(rules);
        self.filled.push((chain, start..self.text.len()));
    }

    const fn len(&self) -> usize {
        self.filled.len() + self.deleted.len()
    }

    /// Writes the filled chains. They come before all jumps to them. With
    /// [`Declarations::First`], the chains to delete are declared here as well, so that all
    /// declarations are sorted together.
    fn write_filled(&self, buf: &mut Vec<u8>, declarations: Declarations) {
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
    fn write_deleted(&self, buf: &mut Vec<u8>, declarations: Declarations) {
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
