//! What differs between the kernel and the dirty Services, and its text.
//!
//! Apart from [`partial`](super::partial()), which walks through the Services, because the order of
//! lines in the payload is not the order in which differences are found.

use std::collections::{BTreeMap, BTreeSet};

use super::base::{self, FILTER_CHAINS, FIREWALL, NAT_CHAINS};
use super::chain::ServiceChain;
use super::edits::edits;
use super::full::{header, headers, line};
use super::ledger::{Entry, Ledger};
use super::options::{Options, PartialRestore};
use super::partial::Partial;
use super::sheet::{Dispatch, Place, Sheet};
use super::stats::PayloadStats;
use crate::rules::{Backend, Table};

/// From this many chains on, nft reads all chains at once instead of searching a list for each
/// line. The search costs 0.4 us for every pair of Services, reading the table of 10,000 Services
/// about 2 s: the two meet near 2,500 Services of six chains.
const LIST_FIRST_ABOVE: u64 = 15_000;

/// From this many deletions on, a dispatch chain is written anew: a deletion compares its rule
/// with every rule of the chain, so the cost of many is a product, while writing the chain costs
/// 40 to 60 us a rule, once.
const MOST_DELETIONS: usize = 200;

/// What differs, collected Service by Service.
#[derive(Default)]
pub(super) struct Changes {
    /// Headers and rules of Service chains.
    chains: Vec<u8>,
    gone: Vec<ServiceChain>,
    edits: BTreeMap<Dispatch, Edits>,
    stats: PayloadStats,
}

/// What differs in one dispatch chain: rules without the chain's name, with their newline.
#[derive(Default)]
struct Edits {
    removed: Vec<Box<[u8]>>,
    added: Vec<Box<[u8]>>,
}

/// How much of a dispatch chain is written.
#[derive(PartialEq, Eq)]
enum Extent {
    Nothing,
    Edits,
    Whole,
}

impl Changes {
    /// Compares what a Service had with what it is to have.
    pub(super) fn add(&mut self, before: &Entry, sheet: &Sheet, shape: PartialRestore) {
        for entry in sheet.chains() {
            let is_same = before.digest(entry.chain) == Some(sheet.digest(entry));
            if is_same && shape == PartialRestore::ChangedChains {
                continue;
            }
            self.stats.chains += 1;
            self.stats.rules.add(Table::Nat, u64::from(entry.rules));
            header(&mut self.chains, entry.chain);
            self.chains.extend_from_slice(sheet.text(entry));
        }
        let wanted: BTreeSet<_> = sheet.chains().map(|entry| entry.chain).collect();
        let held = before.chains.iter().map(|held| held.chain);
        self.gone
            .extend(held.filter(|chain| !wanted.contains(chain)));
        self.compare_dispatch(before, sheet);
    }

    /// Finds the fewest edits that leave the rules of each place in their order, given that new
    /// rules go on top of the chain: what stays is an end of the wanted rules.
    fn compare_dispatch(&mut self, before: &Entry, sheet: &Sheet) {
        let mut places: BTreeMap<Place, [Vec<&[u8]>; 2]> = BTreeMap::new();
        for (place, rule) in &before.dispatch {
            places.entry(*place).or_default()[0].push(rule);
        }
        for (place, rule) in sheet.dispatch_rules() {
            places.entry(place).or_default()[1].push(rule);
        }
        for (place, [held, wanted]) in places {
            let (removed, added) = edits(held, wanted);
            if !removed.is_empty() || !added.is_empty() {
                let edits = self.edits.entry(place.to).or_default();
                edits.removed.extend(removed.into_iter().map(Box::from));
                edits.added.extend(added.into_iter().map(Box::from));
            }
        }
    }

    /// Writes it all. `ledger` is the kernel's once it has the payload, `old_tail` is its way to
    /// NodePorts before.
    pub(super) fn finish(
        mut self,
        ledger: &Ledger,
        old_tail: &[Box<[u8]>],
        shape: PartialRestore,
        options: &Options,
    ) -> Partial {
        self.stats.chains += self.gone.len() as u64;
        let mut text = Vec::new();
        for table in [Table::Filter, Table::Nat] {
            let mut body = Vec::new();
            if shape == PartialRestore::Kep3453 {
                self.write_fixed(&mut body, table, options);
            }
            if table == Table::Nat {
                body.append(&mut self.chains);
            }
            for dispatch in Dispatch::ALL.into_iter().filter(|to| to.table() == table) {
                let extent = self.extent(dispatch, shape);
                if shape == PartialRestore::ChangedChains && extent == Extent::Whole {
                    headers(&mut body, &[dispatch.chain()]);
                }
                self.write_dispatch(&mut body, dispatch, &extent, ledger);
                if dispatch == Dispatch::NatServices {
                    self.write_tail(&mut body, &extent, old_tail, &ledger.tail);
                }
            }
            if table == Table::Nat {
                self.write_gone(&mut body);
            }
            if !body.is_empty() {
                self.wrap(&mut text, table, body, options.backend);
            }
        }
        self.stats.bytes = text.len() as u64;
        Partial {
            text,
            stats: self.stats,
        }
    }

    /// The fixed chains, emptied and filled again, as every sync of upstream does.
    fn write_fixed(&mut self, buf: &mut Vec<u8>, table: Table, options: &Options) {
        match table {
            Table::Filter => {
                headers(buf, &FILTER_CHAINS);
                if base::fills_firewall(options) {
                    headers(buf, &[FIREWALL]);
                }
                base::write_filter(buf, options);
                self.stats.rules.filter += base::rule_counts(options).filter;
            }
            Table::Nat => {
                headers(buf, &NAT_CHAINS);
                base::write_nat(buf, options);
                self.stats.rules.nat += base::rule_counts(options).nat;
            }
            Table::Mangle => {}
        }
    }

    fn extent(&self, dispatch: Dispatch, shape: PartialRestore) -> Extent {
        match (shape, self.edits.get(&dispatch)) {
            (PartialRestore::Kep3453, _) => Extent::Whole,
            (_, Some(edits)) if edits.removed.len() > MOST_DELETIONS => Extent::Whole,
            (_, Some(_)) => Extent::Edits,
            (_, None) => Extent::Nothing,
        }
    }

    /// New rules go on top, where it costs nothing to put them and nothing can come behind the
    /// way to NodePorts. Their order among themselves is kept.
    fn write_dispatch(
        &mut self,
        buf: &mut Vec<u8>,
        dispatch: Dispatch,
        extent: &Extent,
        ledger: &Ledger,
    ) {
        let (chain, table) = (dispatch.chain(), dispatch.table());
        match (extent, self.edits.get(&dispatch)) {
            (Extent::Whole, _) => {
                rules(buf, "-A ", chain, ledger.dispatch_rules(dispatch));
                self.stats.rules.add(table, ledger.dispatch_len(dispatch));
                self.stats.chains += 1;
            }
            (Extent::Edits, Some(edits)) => {
                rules(buf, "-D ", chain, edits.removed.iter().map(|rule| &**rule));
                rules(
                    buf,
                    "-I ",
                    chain,
                    edits.added.iter().rev().map(|rule| &**rule),
                );
                self.stats.rules.add(table, edits.added.len() as u64);
            }
            (Extent::Nothing | Extent::Edits, _) => {}
        }
    }

    /// The way to NodePorts stays last: its rules are only ever appended.
    fn write_tail(
        &mut self,
        buf: &mut Vec<u8>,
        extent: &Extent,
        old: &[Box<[u8]>],
        new: &[Box<[u8]>],
    ) {
        let (mut removed, mut added): (Vec<&[u8]>, Vec<&[u8]>) = (Vec::new(), Vec::new());
        if *extent == Extent::Whole {
            added.extend(new.iter().map(|rule| &**rule));
        } else {
            removed.extend(
                old.iter()
                    .filter(|rule| !new.contains(rule))
                    .map(|rule| &**rule),
            );
            added.extend(
                new.iter()
                    .filter(|rule| !old.contains(rule))
                    .map(|rule| &**rule),
            );
        }
        self.stats.rules.add(Table::Nat, added.len() as u64);
        rules(buf, "-D ", NAT_SERVICES, removed.into_iter());
        rules(buf, "-A ", NAT_SERVICES, added.into_iter());
    }

    /// Chains refer to each other, so all are emptied before the first is deleted.
    fn write_gone(&self, buf: &mut Vec<u8>) {
        for chain in &self.gone {
            header(buf, *chain);
        }
        for chain in &self.gone {
            buf.extend_from_slice(b"-X ");
            chain.write(buf);
            buf.push(b'\n');
        }
    }

    fn wrap(&self, text: &mut Vec<u8>, table: Table, mut body: Vec<u8>, backend: Backend) {
        line(text, &["*", table.as_str()]);
        if backend == Backend::Nft && self.stats.chains > LIST_FIRST_ABOVE {
            line(text, &["-S"]);
        }
        text.append(&mut body);
        line(text, &["COMMIT"]);
    }
}

const NAT_SERVICES: &str = Dispatch::NatServices.chain();

fn rules<'r>(buf: &mut Vec<u8>, command: &str, chain: &str, rules: impl Iterator<Item = &'r [u8]>) {
    for rule in rules {
        buf.extend_from_slice(command.as_bytes());
        buf.extend_from_slice(chain.as_bytes());
        buf.extend_from_slice(rule);
    }
}
