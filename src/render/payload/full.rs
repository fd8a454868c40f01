//! Full payload: every chain, every rule, missing entry jumps, and the deletion of stale chains.
//!
//! Streamed piece by piece, Service by Service, so that the whole text is never in memory; only the
//! names of the chains and the applied state of all Services are in memory.
//!
//! # Order
//!
//! - filter before nat, because tables change one after the other: if a Service loses its
//!   endpoints, its REJECT rule is in place before its DNAT rules go away, and no packet leaves
//!   with an untranslated destination.
//! - Within nat: the fixed chains, the chains of Services, the dispatch chains with the entry
//!   jumps, the deletions. Each chain declaration stands before the rules of its chain, and the
//!   target of every jump exists by then. On nft they are written in
//!   [blocks](super::cost::NatBlocks).
//! - On legacy, with many endpoints and no Service chain in the kernel yet, all declarations of
//!   Service chains come before the first rule of a Service.
//! - Services are sorted by name; in nat by cluster IP, unless the options make all dispatch chains
//!   flat.

use super::cost::{self, Declarations, NatBlocks, PayloadStats, write_deleted};
use crate::model::{ServiceName, ServiceState, Services};
use crate::render::applied_state::AppliedState;
use crate::render::fixed_chains;
use crate::render::live::LiveChains;
use crate::render::options::{Comments, Options, PartialRestore, TreeThresholds};
use crate::render::service::{
    self, ServiceRules, write_chain_declaration, write_chain_declarations, write_line,
};
use crate::render::tree::TreeUpdate;
use crate::rules::{Payload, Table};
use crate::ruleset::{
    DispatchChain, FILTER_CHAINS, KUBE_FIREWALL, KUBE_PROXY_CANARY, NAT_CHAINS, ServiceChain,
};

type ServiceIter<'a> = Box<dyn Iterator<Item = (&'a ServiceName, &'a ServiceState)> + 'a>;

/// Writer of a full payload.
pub struct FullPayload<'a> {
    services: &'a dyn Services,
    options: &'a Options,
    live: &'a LiveChains,
    next: Part<'a>,
    /// Endpoints of the Services whose filter rules are written so far; of all Services from the
    /// end of the filter table on.
    endpoints: usize,
    rules: ServiceRules,
    applied: AppliedState,
    stats: PayloadStats,
    nat_blocks: NatBlocks,
}

/// Part of the payload that is written next.
enum Part<'a> {
    FilterHead,
    FilterServices(ServiceIter<'a>),
    NatHead,
    /// Writes nothing: collects the chains of all Services.
    NatChains(ServiceIter<'a>, Vec<ServiceChain>),
    /// Declarations of these, the last one first.
    NatDeclarations(Vec<ServiceChain>),
    NatServices(ServiceIter<'a>, Declarations),
    /// Dispatch chains, and then the end of the table.
    Dispatch(Table, DispatchChains),
    Mangle,
    Done,
}

impl Part<'_> {
    fn dispatch(table: Table) -> Self {
        Self::Dispatch(table, DispatchChains::of(table))
    }
}

impl<'a> FullPayload<'a> {
    /// Begins a payload with the rules of `services`, for a kernel with the chains and entry jumps
    /// in `live`.
    pub fn new(services: &'a dyn Services, options: &'a Options, live: &'a LiveChains) -> Self {
        let fixed_rule_counts = fixed_chains::rule_counts(options);
        let jumps = fixed_chains::node_ports_jumps(options);
        let mut applied = AppliedState::without_services(fixed_rule_counts, jumps);
        applied.note_references(live);
        Self {
            services,
            options,
            live,
            next: Part::FilterHead,
            endpoints: 0,
            rules: ServiceRules::default(),
            applied,
            stats: PayloadStats::default(),
            nat_blocks: NatBlocks::new(options.backend, live.service_chain_count()),
        }
    }

    /// Returns the state of the kernel after the payload is restored, and the size of the payload.
    /// Both are right only if all of it has been written.
    pub fn finish(self) -> (AppliedState, PayloadStats) {
        (self.applied, self.stats)
    }

    fn declarations(&self) -> Declarations {
        let backend = self.options.backend;
        cost::full_declarations(backend, self.live, self.endpoints)
    }

    /// Writes a piece of the next part; returns the part that follows, `None` after the last one.
    fn write_part(&mut self, buf: &mut Vec<u8>) -> Option<Part<'a>> {
        Some(match std::mem::replace(&mut self.next, Part::Done) {
            Part::FilterHead => {
                self.write_filter_head(buf);
                Part::FilterServices(self.services.all())
            }
            Part::FilterServices(mut services) => {
                if let Some((name, state)) = services.next() {
                    self.add_filter_service(name, state);
                    Part::FilterServices(services)
                } else {
                    Part::dispatch(Table::Filter)
                }
            }
            Part::NatHead => {
                self.write_nat_head(buf);
                let services = self.nat_services();
                match self.declarations() {
                    Declarations::First => Part::NatChains(services, Vec::new()),
                    inline @ Declarations::Inline => Part::NatServices(services, inline),
                }
            }
            Part::NatChains(mut services, mut chains) => {
                if let Some((name, state)) = services.next() {
                    self.render_nat(name, state);
                    chains.extend(self.rules.chains().map(|(chain, _)| chain));
                    Part::NatChains(services, chains)
                } else {
                    chains.sort_by_cached_key(|chain| chain.sort_key());
                    Part::NatDeclarations(chains)
                }
            }
            Part::NatDeclarations(mut chains) => {
                if let Some(last) = chains.pop() {
                    write_chain_declaration(buf, last);
                    Part::NatDeclarations(chains)
                } else {
                    Part::NatServices(self.nat_services(), Declarations::First)
                }
            }
            Part::NatServices(mut services, declarations) => {
                if let Some((name, state)) = services.next() {
                    self.write_nat_service(buf, name, state, declarations);
                    Part::NatServices(services, declarations)
                } else {
                    self.write_dispatch_head(buf);
                    Part::dispatch(Table::Nat)
                }
            }
            Part::Dispatch(table, chains) => self.write_dispatch(buf, table, chains),
            Part::Mangle => {
                write_mangle(buf);
                Part::Done
            }
            Part::Done => return None,
        })
    }

    fn write_filter_head(&mut self, buf: &mut Vec<u8>) {
        write_line(buf, &["*", Table::Filter.as_str()]);
        write_chain_declarations(buf, &FILTER_CHAINS);
        write_chain_declarations(buf, &[KUBE_PROXY_CANARY]);
        // KUBE-FIREWALL has to exist, as entry jumps reference it. If this process has no rule for
        // it, an existing one may have rules of kubelet, which a declaration would delete.
        if fixed_chains::fills_kube_firewall(self.options) || !self.live.has_kube_firewall {
            write_chain_declarations(buf, &[KUBE_FIREWALL]);
        }
        fixed_chains::write_filter(buf, self.options);
        self.write_entry_jumps(buf, Table::Filter);
    }

    /// Renders and records the filter rules of a Service. They are written when those of all are
    /// known; the nat pass records each Service again, with all of its rules.
    fn add_filter_service(&mut self, name: &ServiceName, state: &ServiceState) {
        service::render_filter(&mut self.rules, name, state, self.options);
        self.endpoints += self.rules.totals().endpoints;
        if self.rules.dispatch_rules().next().is_some() {
            self.record(Table::Filter, name);
        }
    }

    /// Deletes unused tree chains.
    fn write_filter_end(&mut self, buf: &mut Vec<u8>) {
        let unused = self.unused_tree_chains(Table::Filter);
        write_deleted(buf, &unused, |chain| self.live.can_delete(chain));
        self.stats.chains += unused.len() as u64;
        write_line(buf, &["COMMIT"]);
    }

    /// Returns the tree chains in the kernel that no tree has, sorted by name.
    fn unused_tree_chains(&self, table: Table) -> Vec<Box<str>> {
        let chains = self.live.tree_chains(table);
        let unused = chains.filter(|name| !self.applied.has_tree_chain(table, name));
        unused.map(Box::from).collect()
    }

    /// Writes the next of these chains; after the last one, the end of the table.
    fn write_dispatch(
        &mut self,
        buf: &mut Vec<u8>,
        table: Table,
        mut chains: DispatchChains,
    ) -> Part<'a> {
        if chains.write_next(buf, &mut self.applied, &mut self.stats) {
            return Part::Dispatch(table, chains);
        }
        if table == Table::Filter {
            self.write_filter_end(buf);
            return Part::NatHead;
        }
        self.write_nat_end(buf);
        Part::Mangle
    }

    /// Returns all Services in the order in which a walk through a large `KUBE-SERVICES` reaches
    /// their chains: by name if it is flat, and by cluster IP if it is a tree. (Below the threshold
    /// of a tree it is flat, and the order does not matter.)
    ///
    /// The kernel (nf_tables) walks all chains that can be reached whenever a jump is added, so
    /// also for every Service added later. It allocates new chains in the order of this payload:
    /// then those visited one after the other are close together in memory. To add one Service to
    /// 10,000 in a flat chain, `iptables-nft-restore` took 52 ms in this order and 88 ms in
    /// another.
    fn nat_services(&self) -> ServiceIter<'a> {
        if self.options.tree_thresholds == TreeThresholds::FLAT {
            return self.services.all();
        }
        let mut services: Vec<_> = self.services.all().collect();
        services.sort_by_key(|(_, state)| state.service.as_ref().map(|known| known.cluster_ip));
        Box::new(services.into_iter())
    }

    fn write_nat_head(&self, buf: &mut Vec<u8>) {
        write_line(buf, &["*", Table::Nat.as_str()]);
        write_chain_declarations(buf, fixed_chains::names(Table::Nat, self.options));
        write_chain_declarations(buf, &[KUBE_PROXY_CANARY]);
        fixed_chains::write_nat(buf, self.options);
    }

    /// Declares the dispatch chains of nat. That empties them, so it stands in the block with their
    /// rules.
    fn write_dispatch_head(&mut self, buf: &mut Vec<u8>) {
        self.nat_blocks.begin_dispatch(buf);
        let all = DispatchChain::ALL.into_iter();
        for dispatch in all.filter(|dispatch| dispatch.table() == Table::Nat) {
            write_chain_declarations(buf, &[dispatch.name()]);
        }
        self.write_entry_jumps(buf, Table::Nat);
    }

    fn write_entry_jumps(&self, buf: &mut Vec<u8>, table: Table) {
        for jump in self.live.missing_entry_jumps(table) {
            write_line(buf, &["-I ", jump.from, " ", jump.rule]);
        }
    }

    fn write_nat_service(
        &mut self,
        buf: &mut Vec<u8>,
        name: &ServiceName,
        state: &ServiceState,
        declarations: Declarations,
    ) {
        self.render_nat(name, state);
        self.nat_blocks.make_room(buf, self.rules.chains().count());
        for (chain, text) in self.rules.chains() {
            self.stats.chains += 1;
            if declarations == Declarations::Inline {
                write_chain_declaration(buf, chain);
            }
            buf.extend_from_slice(text);
        }
        self.record(Table::Nat, name);
    }

    /// Records the rendered rules of a Service, also in a tree as soon as a dispatch chain has
    /// enough rules. Trees are written at the end of the table; if they were only made there,
    /// `iptables-restore` would wait for it.
    fn record(&mut self, table: Table, name: &ServiceName) {
        self.applied.record(name, &self.rules);
        self.applied.reshape(table, self.options.tree_thresholds);
    }

    /// Renders the rules of a Service. Not to be called before the end of the filter table: the
    /// endpoints, on which comments depend, are counted while it is written.
    fn render_nat(&mut self, name: &ServiceName, state: &ServiceState) {
        let comments = Comments::for_cluster(self.endpoints, self.options);
        service::render(&mut self.rules, name, state, self.options, comments);
    }

    /// Deletes stale chains, except those that third-party rules reference.
    fn write_nat_end(&mut self, buf: &mut Vec<u8>) {
        let mut stale = self.live.stale_chains(self.applied.chains());
        stale.extend(self.unused_tree_chains(Table::Nat));
        self.nat_blocks
            .delete(buf, &stale, |chain| self.live.can_delete(chain));
        write_line(buf, &["COMMIT"]);
        self.stats.chains += (stale.len() + FILTER_CHAINS.len() + NAT_CHAINS.len()) as u64;
        self.stats.rules = self.applied.rule_counts();
    }
}

impl Payload for FullPayload<'_> {
    fn write_next(&mut self, buf: &mut Vec<u8>) -> bool {
        let before = buf.len();
        let Some(next) = self.write_part(buf) else {
            return false;
        };
        self.next = next;
        self.stats.bytes += (buf.len() - before) as u64;
        true
    }
}

/// Writes the mangle table, which has only a canary.
fn write_mangle(buf: &mut Vec<u8>) {
    write_line(buf, &["*", Table::Mangle.as_str()]);
    write_chain_declarations(buf, &[KUBE_PROXY_CANARY]);
    write_line(buf, &["COMMIT"]);
}

/// Dispatch chains of a table that are not written yet.
pub(super) struct DispatchChains {
    /// The last one comes next.
    rest: Vec<DispatchChain>,
    /// Tree of which some chains are written.
    tree: Option<(DispatchChain, TreeUpdate)>,
}

impl DispatchChains {
    pub(super) fn of(table: Table) -> Self {
        let all = DispatchChain::ALL.into_iter().rev();
        Self {
            rest: all.filter(|dispatch| dispatch.table() == table).collect(),
            tree: None,
        }
    }

    /// Writes the next chain of a tree, or the rules of the next flat dispatch chain. Returns
    /// whether there may be more.
    pub(super) fn write_next(
        &mut self,
        buf: &mut Vec<u8>,
        applied: &mut AppliedState,
        stats: &mut PayloadStats,
    ) -> bool {
        if let Some((dispatch, mut update)) = self.tree.take() {
            let AppliedState {
                trees, services, ..
            } = applied;
            let Some(tree) = trees.get_mut(&dispatch) else {
                return true;
            };
            let Some(chain) = update.next(tree, services) else {
                tree.written(update);
                return true;
            };
            self.tree = Some((dispatch, update));
            // The root is declared, and counted, with the fixed chains.
            if *chain.name == *dispatch.name() {
                buf.extend_from_slice(chain.rules.as_bytes());
            } else {
                chain.write(buf);
                stats.chains += 1;
            }
            return true;
        }
        let Some(dispatch) = self.rest.pop() else {
            return false;
        };
        let tree = applied.trees.get(&dispatch);
        self.tree = tree.map(|tree| (dispatch, tree.begin_update(PartialRestore::ChangedChains)));
        if self.tree.is_none() {
            let rules = applied.record_flat_chain(dispatch);
            buf.extend_from_slice(rules.as_bytes());
        }
        true
    }
}
