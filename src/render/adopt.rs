//! Taking over the rules that are there at the start: ours, or a kube-proxy's.
//!
//! Apart from full payloads because nothing is written here. What the kernel holds already, in
//! whatever spelling, is put down in a [`Ledger`] as if we had written it; a partial payload then
//! brings the rest. Whatever is in doubt is left to a full restore.
//!
//! Differs from upstream: there every start writes everything, which takes minutes in a large
//! cluster and sets all counters to zero.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::base::{self, FILTER_CHAINS, FIREWALL, NAT_CHAINS};
use super::chain::ServiceChain;
use super::claims::{Claims, take_tail, unowned};
use super::found::{Found, holds};
use super::guard::{Guests, is_ours};
use super::ledger::{Entry, Held, Ledger};
use super::live::Live;
use super::options::{Comments, Options};
use super::service::{self, Setting};
use super::sheet::{ChainEntry, Digest, Dispatch, Place, Sheet};
use super::tally::Tally;
use crate::model::{ServiceName, Services};
use crate::rules::Table;

/// Less than this part of the wanted chains is not worth taking over: a full restore is streamed,
/// a partial one is in memory whole.
const LEAST_SHARE: usize = 2;

/// What the kernel has of what is wanted.
#[derive(Debug, Default)]
pub struct Adopted {
    /// As if we had written it.
    pub ledger: Ledger,
    /// Whom the next partial restore has to look at: Services that lack something, and one that
    /// never was, which has in the ledger what nobody wants.
    pub differing: Vec<ServiceName>,
    /// The jump to `KUBE-NODEPORTS` is not at the end of `KUBE-SERVICES`; the next payload appends
    /// it.
    pub lacks_node_ports_jump: bool,
}

/// Why the rules are not taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// A table could not be read.
    Unreadable,
    /// Chains or jumps are missing that are there whatever the Services are, or hold other rules.
    /// So it is on a node without rules.
    Foundations(Table),
    /// A chain of ours is there that no version we know of has written like that.
    OddChain,
    /// Other rules than ours lead to a chain that nobody wants.
    Referenced,
    /// The way to NodePorts is not the last rule, or another one.
    NodePorts,
    /// Most of it would be written anyway.
    Different,
}

impl Doubt {
    /// As logs have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "a table cannot be read",
            Self::Foundations(_) => "the chains that all Services share are not as we write them",
            Self::OddChain => "there are chains of another program's making",
            Self::Referenced => "somebody's rules lead to chains that nobody wants",
            Self::NodePorts => "node ports answer on other addresses",
            Self::Different => "most rules differ",
        }
    }
}

/// Tolerance of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// The rules are of another process: whatever is in doubt has to be written anew.
    Adoption,
    /// The rules are ours, and other programs may have changed some of them.
    Verification,
}

/// Compares the rules in the kernel with those of `services`, which were applied before. The
/// ledger that is returned says what the kernel holds of them; Services that lack rules are among
/// the differing ones.
///
/// Services in `changing` are expected to differ. The fixed chains and the jumps to ours are not
/// compared: [`GuardState`](super::GuardState) does that.
pub fn verify(
    found: Found,
    live: &Live,
    services: &dyn Services,
    setting: Setting<'_>,
    changing: &BTreeSet<ServiceName>,
) -> Result<Adopted, Doubt> {
    for to in Dispatch::ALL {
        if !found.has(to.table(), to.chain()) {
            return Err(Doubt::Foundations(to.table()));
        }
    }
    let mut taking = Taking::new(found, setting.options, Strictness::Verification)?;
    let (mut sheet, mut other) = (Sheet::default(), Sheet::default());
    for (name, state) in services.all() {
        service::write(&mut sheet, name, state, setting, Comments::Everywhere);
        let mut same = taking.same_chains(&sheet);
        if same.len() < sheet.chains().count() {
            // Of a large cluster, or written before it grew or shrank across the threshold.
            service::write(&mut other, name, state, setting, Comments::NotOnEndpoints);
            let same_otherwise = taking.same_chains(&other);
            if same_otherwise.len() > same.len() {
                std::mem::swap(&mut sheet, &mut other);
                same = same_otherwise;
            }
        }
        if !changing.contains(name) {
            taking.count(&sheet, &same);
        }
        taking.service(name, &sheet, same);
    }
    taking.finish(live, Strictness::Verification)
}

/// Compares what was found with what `services` amount to.
pub fn adopt(
    found: Found,
    live: &Live,
    services: &dyn Services,
    setting: Setting<'_>,
) -> Result<Adopted, Doubt> {
    check_foundations(&found, setting.options)?;
    let mut taking = Taking::new(found, setting.options, Strictness::Adoption)?;
    let endpoints = services
        .all()
        .map(|(_, state)| service::count_endpoints(state))
        .sum();
    let comments = Comments::for_cluster(endpoints, setting.options);
    let mut sheet = Sheet::default();
    for (name, state) in services.all() {
        service::write(&mut sheet, name, state, setting, comments);
        let same = taking.same_chains(&sheet);
        taking.count(&sheet, &same);
        taking.service(name, &sheet, same);
    }
    taking.finish(live, Strictness::Adoption)
}

/// The chains that all Services share, the rules in them that depend on options alone, and the
/// jumps that lead there.
fn check_foundations(found: &Found, options: &Options) -> Result<(), Doubt> {
    let is_there = |table, chains: &[&str]| {
        let listing = found.listing(table);
        chains.iter().all(|chain| found.has(table, chain))
            && is_ours(table, listing, options, Guests::Refused)
    };
    if !found.has(Table::Filter, FIREWALL) || !is_there(Table::Filter, &FILTER_CHAINS) {
        return Err(Doubt::Foundations(Table::Filter));
    }
    if !is_there(Table::Nat, &NAT_CHAINS) {
        return Err(Doubt::Foundations(Table::Nat));
    }
    if found.has_odd_chain {
        return Err(Doubt::OddChain);
    }
    Ok(())
}

/// A ledger in the making.
struct Taking {
    /// Chains of Services that none has claimed yet.
    chains: HashMap<ServiceChain, Option<Digest>>,
    claims: BTreeMap<Dispatch, Claims>,
    ledger: Ledger,
    differing: Vec<ServiceName>,
    wanted: usize,
    kept: usize,
    lacks_node_ports_jump: bool,
}

impl Taking {
    fn new(mut found: Found, options: &Options, strictness: Strictness) -> Result<Self, Doubt> {
        let mut tail = base::tail_rules(options);
        let mut lacks_node_ports_jump = false;
        match take_tail(found.rules_mut(Dispatch::NatServices), &tail) {
            Err(doubt) if strictness == Strictness::Adoption => return Err(doubt),
            // Without the rules at the end, the next payload appends them.
            Err(_) => {
                tail.clear();
                lacks_node_ports_jump = true;
            }
            Ok(()) => {}
        }
        let claims = Dispatch::ALL.map(|to| {
            let rules = std::mem::take(found.rules_mut(to));
            (to, Claims::new(rules))
        });
        let ledger = Ledger::of_foundations(base::rule_counts(options), tail);
        Ok(Self {
            chains: found.chains,
            claims: claims.into(),
            ledger,
            differing: Vec::new(),
            wanted: 0,
            kept: 0,
            lacks_node_ports_jump,
        })
    }

    /// Returns the chains of a Service that the kernel has as they are in the sheet.
    fn same_chains(&self, sheet: &Sheet) -> Vec<Held> {
        let is_same = |entry: &&ChainEntry| holds(&self.chains, entry.chain, sheet.text(entry));
        sheet.chains().filter(is_same).map(Held::of).collect()
    }

    /// Counts chains towards the decision whether to take over the rules at all.
    fn count(&mut self, sheet: &Sheet, same: &[Held]) {
        self.wanted += sheet.chains().count();
        self.kept += same.len();
    }

    /// Puts down what the kernel has of one Service, these chains among it.
    fn service(&mut self, name: &ServiceName, sheet: &Sheet, same: Vec<Held>) {
        let mut is_same = same.len() == sheet.chains().count();
        for entry in sheet.chains() {
            self.chains.remove(&entry.chain);
        }
        let mut rules: Vec<(Place, usize, &[u8])> = Vec::new();
        for (place, rule) in sheet.dispatch_rules() {
            let claims = self.claims.get_mut(&place.to);
            if let Some(at) = claims.and_then(|claims| claims.take(rule)) {
                is_same &= rules
                    .last()
                    .is_none_or(|(last, before, _)| *last != place || *before < at);
                rules.push((place, at, rule));
            } else {
                is_same = false;
            }
        }
        rules.sort_by_key(|(place, at, _)| (*place, *at));
        let rules = rules
            .into_iter()
            .map(|(place, _, rule)| (place, rule.into()));
        let entry = Entry::new(same, rules.collect(), sheet.tally);
        self.ledger.insert(name, entry);
        if !is_same {
            self.differing.push(name.clone());
        }
    }

    /// Puts down what nobody wants, so that it goes.
    fn finish(mut self, live: &Live, strictness: Strictness) -> Result<Adopted, Doubt> {
        if self.kept * LEAST_SHARE < self.wanted {
            return Err(Doubt::Different);
        }
        let mut stale: Vec<_> = self.chains.keys().copied().collect();
        match strictness {
            Strictness::Adoption if stale.iter().any(|chain| !live.can_delete(&chain.name())) => {
                return Err(Doubt::Referenced);
            }
            Strictness::Adoption => {}
            // A chain that third-party rules lead to cannot be deleted.
            Strictness::Verification => stale.retain(|chain| live.can_delete(&chain.name())),
        }
        let chains = stale.into_iter().map(Held::unknown).collect();
        let mut rules = Vec::new();
        for (to, claims) in self.claims {
            let unclaimed = claims.unclaimed();
            rules.extend(unclaimed.map(|rule| (Place { to, port: 0 }, rule.text)));
        }
        let unowned = unowned();
        self.ledger
            .insert(&unowned, Entry::new(chains, rules, Tally::default()));
        if self.ledger.has(&unowned) {
            self.differing.push(unowned);
        }
        Ok(Adopted {
            ledger: self.ledger,
            differing: self.differing,
            lacks_node_ports_jump: self.lacks_node_ports_jump,
        })
    }
}
