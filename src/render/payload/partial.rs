//! Partial payload: only the chains that differ from the applied ones. With
//! [`PartialRestore::ChangedChains`], its size follows the change, not the cluster.
//!
//! # Order
//!
//! Damaged fixed chains, then the differences of filter and nat, then missing entry jumps.
//!
//! In nat, as in a full payload: changed Service chains, each declaration before its rules; then
//! changed dispatch chains, flat ones whole and trees chain by chain; then the stale chains, all
//! emptied before the first is deleted. On nft a large part for nat is written in
//! [blocks](super::cost::NatBlocks).
//!
//! With `ChangedChains`, a table without changes is not in the payload. Without any change the
//! payload is empty, and no process need be started for it. With [`PartialRestore::Kep3453`], the
//! fixed and the dispatch chains are always in it.
//!
//! Differences are collected Service by Service, because the order of lines in the payload is not
//! the order in which they are found.
//!
//! KEP: kep.k8s.io/3453

use std::collections::BTreeSet;

use super::cost::{self, NatBlocks, PayloadStats, write_deleted};
use crate::model::{ServiceName, Services};
use crate::render::applied_state::{AppliedState, RenderedChains};
use crate::render::fixed_chains;
use crate::render::options::{Comments, Options, PartialRestore};
use crate::render::service::{
    self, AppliedService, RecordedChain, ServiceRules, write_chain_declaration,
    write_chain_declarations, write_line,
};
use crate::rules::Table;
use crate::ruleset::{DispatchChain, JUMPS, Jump, ServiceChain};

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
/// [due](AppliedState::due) included. `applied` gets their desired dispatch rules, and has them as
/// due; after the restore, the caller notes its result there.
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
    let mut payload = PayloadWriter {
        options,
        partial_restore,
        nat: Vec::new(),
        // Most Service chains are those of endpoints; to count all would take a walk.
        nat_blocks: NatBlocks::new(options.backend, applied.totals().endpoints),
        deleted: Vec::new(),
        stats: PayloadStats::default(),
        rendered: RenderedChains::default(),
    };
    payload.nat = payload.fixed_chains(Table::Nat);
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

struct PayloadWriter<'a> {
    options: &'a Options,
    partial_restore: PartialRestore,
    /// Written lines of nat, after the one that begins the table.
    nat: Vec<u8>,
    nat_blocks: NatBlocks,
    deleted: Vec<ServiceChain>,
    stats: PayloadStats,
    rendered: RenderedChains,
}

impl PayloadWriter<'_> {
    /// Adds the difference between the recorded and the rendered chains of a Service. Those that
    /// are written are in one block, so that all change at once.
    fn add(&mut self, applied: &mut AppliedState, name: ServiceName, rules: &ServiceRules) {
        let none = AppliedService::default();
        let before = applied.service(&name).unwrap_or(&none);
        let writes_all = self.partial_restore == PartialRestore::Kep3453;
        let changed = || {
            let chains = rules.recorded();
            chains.filter(|(rendered, _)| writes_all || !before.holds(rendered))
        };
        self.nat_blocks.make_room(&mut self.nat, changed().count());
        for (rendered, text) in changed() {
            write_chain_declaration(&mut self.nat, rendered.chain);
            self.nat.extend_from_slice(text);
            let rule_count = u64::from(rendered.rule_count);
            self.stats.rules.add(Table::Nat, rule_count);
            self.stats.chains += 1;
        }
        let desired: BTreeSet<_> = rules.chains().map(|(chain, _)| chain).collect();
        let recorded = before.chains.iter().map(|recorded| recorded.chain);
        let is_stale = |chain: &ServiceChain| !desired.contains(chain);
        self.deleted.extend(recorded.filter(is_stale));
        let service = AppliedService::rendered(rules);
        applied.set_dispatch(&name, &service.dispatch);
        self.rendered.services.push((name, service));
    }

    /// Writes the payload. `applied` has the desired dispatch rules already.
    fn write(mut self, applied: &AppliedState) -> PartialPayload {
        let (fixed_chains, jumps) = applied.guarded_due();
        let mut text = repair_payload(fixed_chains, &[], self.options);
        let filter = self.write_filter(applied);
        self.write_nat_end(applied);
        for (table, body) in [(Table::Filter, &filter), (Table::Nat, &self.nat)] {
            if !body.is_empty() {
                write_line(&mut text, &["*", table.as_str()]);
                text.extend_from_slice(body);
                write_line(&mut text, &["COMMIT"]);
            }
        }
        // Last, because the chains that they jump to may be missing.
        text.extend(repair_payload(&BTreeSet::new(), jumps, self.options));
        self.stats.bytes = text.len() as u64;
        PartialPayload {
            text,
            stats: self.stats,
            rendered: self.rendered,
        }
    }

    fn write_filter(&mut self, applied: &AppliedState) -> Vec<u8> {
        let mut body = self.fixed_chains(Table::Filter);
        let unused = self.write_dispatch_chains(&mut body, Table::Filter, applied);
        write_deleted(&mut body, &unused, |chain| applied.can_delete(chain));
        body
    }

    /// Writes the part of nat after the chains of Services.
    fn write_nat_end(&mut self, applied: &AppliedState) {
        let mut body = std::mem::take(&mut self.nat);
        self.nat_blocks.begin_dispatch(&mut body);
        let unused = self.write_dispatch_chains(&mut body, Table::Nat, applied);
        self.rendered.stale = applied.deletable_chains(&self.rendered);
        self.deleted.extend(&self.rendered.stale);
        let kept = applied.chains_to_empty(&self.rendered);
        self.stats.chains += (self.deleted.len() + kept.len()) as u64;
        let names = |chains: &[ServiceChain]| -> Vec<Box<str>> {
            chains.iter().map(|chain| chain.name().into()).collect()
        };
        let kept = names(&kept);
        let deleted = [names(&self.deleted), unused, kept.clone()].concat();
        self.nat_blocks.delete(&mut body, &deleted, |chain| {
            applied.can_delete(chain) && !kept.iter().any(|name| **name == *chain)
        });
        self.nat = body;
    }

    /// Writes the changed dispatch chains of a table; returns the chains that none of them
    /// references anymore.
    fn write_dispatch_chains(
        &mut self,
        body: &mut Vec<u8>,
        table: Table,
        applied: &AppliedState,
    ) -> Vec<Box<str>> {
        let mut unused = applied.unused_chains(table);
        let mut used = BTreeSet::new();
        let tree_extent = cost::tree_extent(self.options.backend, self.partial_restore);
        let chains = DispatchChain::ALL.into_iter();
        for dispatch in chains.filter(|chain| chain.table() == table) {
            match applied.trees.get(&dispatch) {
                Some(tree) => {
                    let (written, update) = tree.render(tree_extent, &applied.services);
                    for chain in &written {
                        chain.write(body);
                        let rules = chain.rules.lines().count();
                        self.stats.rules.add(table, rules as u64);
                    }
                    self.stats.chains += (written.len() + update.deleted.len()) as u64;
                    unused.extend(update.deleted.iter().cloned());
                    used.extend(update.chain_names().map(Box::<str>::from));
                    self.rendered.trees.push((dispatch, update));
                }
                None => self.write_flat_chain(body, dispatch, applied),
            }
        }
        // A tree that is made just now may have a chain that was unused before.
        unused.retain(|name| !used.contains(name));
        let deleted = unused.iter().map(|name| (table, name.clone()));
        self.rendered.unused.extend(deleted);
        unused
    }

    /// Writes a flat dispatch chain whole, if its rules changed or the kernel holds others. As
    /// upstream, [`PartialRestore::Kep3453`] writes it at every sync.
    fn write_flat_chain(
        &mut self,
        buf: &mut Vec<u8>,
        dispatch: DispatchChain,
        applied: &AppliedState,
    ) {
        let changed = if self.partial_restore == PartialRestore::Kep3453 {
            let rules = applied.flat_rules(dispatch);
            let recorded = RecordedChain::of_lines(&rules);
            Some((rules, recorded))
        } else {
            applied.changed_flat_chain(dispatch)
        };
        let Some((rules, recorded)) = changed else {
            return;
        };
        write_chain_declarations(buf, &[dispatch.name()]);
        self.rendered.flat.push((dispatch, recorded));
        buf.extend_from_slice(rules.as_bytes());
        let rule_count = recorded.rule_count.into();
        self.stats.rules.add(dispatch.table(), rule_count);
        self.stats.chains += 1;
    }

    /// Returns the fixed chains of a table, if they are written at every sync, as upstream.
    fn fixed_chains(&mut self, table: Table) -> Vec<u8> {
        let mut buf = Vec::new();
        if self.partial_restore != PartialRestore::Kep3453 {
            return buf;
        }
        write_chain_declarations(&mut buf, fixed_chains::names(table, self.options));
        let counts = fixed_chains::rule_counts(self.options);
        match table {
            Table::Filter => {
                fixed_chains::write_filter(&mut buf, self.options);
                self.stats.rules.filter += counts.filter;
            }
            Table::Nat => {
                fixed_chains::write_nat(&mut buf, self.options);
                self.stats.rules.nat += counts.nat;
            }
            Table::Mangle => {}
        }
        buf
    }
}

/// Returns a payload that writes these fixed chains again, inserts these entry jumps at the top of
/// their chains, and changes nothing else.
pub(crate) fn repair_payload(
    chains: &BTreeSet<(Table, &'static str)>,
    jumps: &[&'static Jump],
    options: &Options,
) -> Vec<u8> {
    let mut payload = Vec::new();
    for table in Table::ALL {
        let of_table = chains.iter().filter(|(of, _)| *of == table);
        let names: Vec<&str> = of_table.map(|(_, chain)| *chain).collect();
        let mut lost = JUMPS
            .iter()
            .filter(|jump| jump.table == table && jumps.contains(jump))
            .peekable();
        if names.is_empty() && lost.peek().is_none() {
            continue;
        }
        write_line(&mut payload, &["*", table.as_str()]);
        write_chain_declarations(&mut payload, &names);
        for rule in fixed_chains::desired_rules(table, options).lines() {
            let chain = rule
                .strip_prefix("-A ")
                .and_then(|rule| rule.split(' ').next());
            if chain.is_some_and(|chain| names.contains(&chain)) {
                write_line(&mut payload, &[rule]);
            }
        }
        for jump in lost {
            write_line(&mut payload, &["-I ", jump.from, " ", jump.rule]);
        }
        write_line(&mut payload, &["COMMIT"]);
    }
    payload
}

/// Returns the one of these Services that a line of a payload belongs to; `None` if it belongs to
/// none, like lines of fixed chains, deletions of stale chains and `COMMIT`. If a restore fails and
/// the error names a line, that Service may be at fault.
///
/// Most rules name their service port in a comment. Chain declarations do not, nor do rules on
/// endpoints in large clusters.
pub(crate) fn service_of_line<'s>(
    line: &str,
    services: impl Iterator<Item = (&'s ServiceName, &'s AppliedService)> + Clone,
) -> Option<ServiceName> {
    let mut commented = commented_services(line);
    let commented = commented.find(|name| services.clone().any(|(known, _)| known == name));
    commented.or_else(|| {
        let chain = service_chain(line)?;
        let mut services = services;
        let found = services.find(|(_, service)| service.chain(chain).is_some());
        found.map(|(name, _)| name.clone())
    })
}

/// Returns the Services that the comment of a rule may name: every word in the form of the name of
/// a service port counts.
fn commented_services(line: &str) -> impl Iterator<Item = ServiceName> {
    let comment = line.split_once("--comment ").map_or("", |(_, after)| after);
    let (text, is_quoted) = match comment.strip_prefix('"') {
        Some(quoted) => (quoted.split('"').next().unwrap_or_default(), true),
        None => (comment, false),
    };
    // Without quotes it is one word.
    let words = text.split(' ').take(if is_quoted { usize::MAX } else { 1 });
    words.filter_map(|word| {
        let (namespace, rest) = word.split_once('/')?;
        let name = rest.split(':').next()?;
        Some(ServiceName::new(namespace, name))
    })
}

/// Returns the Service chain that a line fills, declares or, in a dispatch chain, jumps to.
fn service_chain(line: &str) -> Option<ServiceChain> {
    let line = line.trim_end();
    let declared = line
        .strip_prefix(':')
        .and_then(|rest| rest.split(' ').next());
    let filled = line.split(' ').nth(1);
    let target = line.rsplit(' ').next();
    let mut names = [declared, filled, target].into_iter().flatten();
    names.find_map(ServiceChain::parse)
}

#[cfg(test)]
#[path = "../tests/service_of_line.rs"]
mod tests;
