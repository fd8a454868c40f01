//! What differs between the kernel and the dirty Services, and its text.
//!
//! Apart from [`partial`](super::partial()), which walks through the Services, because the order of
//! lines in the payload is not the order in which differences are found.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::base::{self, FILTER_CHAINS, FIREWALL, NAT_CHAINS};
use super::chain_text::ChainTexts;
use super::cost::{self, Order, Reach};
use super::edits::edits;
use super::full_text::{headers, line};
use super::ledger::{Entry, Ledger, PlacedRule};
use super::options::{Options, PartialRestore};
use super::partial::Partial;
use super::sheet::{Dispatch, Place, Sheet};
use super::stats::PayloadStats;
use crate::rules::{Backend, Table};

/// What differs, collected Service by Service.
#[derive(Default)]
pub(super) struct Changes {
    chains: ChainTexts,
    edits: BTreeMap<Dispatch, Edits>,
    stats: PayloadStats,
}

/// What differs in one dispatch chain: rules without the chain's name, with their newline.
#[derive(Default)]
struct Edits {
    removed: Vec<Box<[u8]>>,
    added: Vec<Box<[u8]>>,
}

/// What the kernel has before it is given the payload.
pub(super) struct Before {
    /// The rules that lead to NodePorts.
    pub(super) tail: Vec<Box<[u8]>>,
    /// How many rules of ours are in nat.
    pub(super) held: u64,
    /// Shared chains of which it is not known what they hold.
    pub(super) rewrite: BTreeSet<Dispatch>,
}

/// How much of a dispatch chain is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Nothing,
    Edits,
    Whole(Order),
}

impl Changes {
    /// Compares what a Service had with what it is to have.
    pub(super) fn add(&mut self, before: &Entry, sheet: &Sheet, shape: PartialRestore) {
        for entry in sheet.chains() {
            let is_same = before.digest(entry.chain) == Some(entry.digest);
            if is_same && shape == PartialRestore::ChangedChains {
                continue;
            }
            self.stats.rules.add(Table::Nat, u64::from(entry.rules));
            self.chains.fill(entry.chain, sheet.text(entry));
        }
        let wanted: BTreeSet<_> = sheet.chains().map(|entry| entry.chain).collect();
        let held = before.chains.iter().map(|held| held.chain);
        self.chains
            .delete(held.filter(|chain| !wanted.contains(chain)));
        self.compare_dispatch(before, sheet);
    }

    /// Finds the fewest edits that leave the rules of each place in their order, given that new
    /// rules go on top of the chain: what stays is an end of the wanted rules.
    fn compare_dispatch(&mut self, before: &Entry, sheet: &Sheet) {
        let held = before
            .dispatch
            .iter()
            .map(|(place, rule)| (*place, &**rule));
        if held.clone().eq(sheet.dispatch_rules()) {
            return;
        }
        let (held, wanted) = (by_place(held), by_place(sheet.dispatch_rules()));
        let (mut held, mut wanted) = (&*held, &*wanted);
        while let Some(place) = first_place(held, wanted) {
            let (removed, added) = edits(take(&mut held, place), take(&mut wanted, place));
            if !removed.is_empty() || !added.is_empty() {
                let edits = self.edits.entry(place.to).or_default();
                edits
                    .removed
                    .extend(removed.into_iter().map(|(_, rule)| rule.into()));
                edits
                    .added
                    .extend(added.into_iter().map(|(_, rule)| rule.into()));
            }
        }
    }

    /// Writes it all. `ledger` is the kernel's once it has the payload.
    pub(super) fn finish(
        mut self,
        ledger: &Ledger,
        before: &Before,
        shape: PartialRestore,
        options: &Options,
    ) -> Partial {
        self.stats.chains = self.chains.len() as u64;
        let headers_are = cost::headers(options.backend, self.chains.len());
        let mut text = Vec::new();
        for table in [Table::Filter, Table::Nat] {
            let mut body = Vec::new();
            if shape == PartialRestore::Kep3453 {
                self.write_fixed(&mut body, table, options);
            }
            if table == Table::Nat {
                self.chains.write_filled(&mut body, headers_are);
            }
            for dispatch in Dispatch::ALL.into_iter().filter(|to| to.table() == table) {
                let is_unknown = before.rewrite.contains(&dispatch);
                let extent = match shape {
                    // It says the same in the same order each time.
                    PartialRestore::Kep3453 => Extent::Whole(Order::ByService),
                    _ if is_unknown => Extent::Whole(cost::order(options.backend)),
                    PartialRestore::ChangedChains => self.extent(dispatch, options.backend),
                };
                let is_whole = matches!(extent, Extent::Whole(_));
                if shape == PartialRestore::ChangedChains && is_whole {
                    headers(&mut body, &[dispatch.chain()]);
                }
                self.write_dispatch(&mut body, dispatch, extent, ledger);
                if dispatch == Dispatch::NatServices {
                    self.write_tail(&mut body, extent, &before.tail, &ledger.tail);
                }
            }
            if table == Table::Nat {
                self.chains.write_gone(&mut body, headers_are);
            }
            if !body.is_empty() {
                line(&mut text, &["*", table.as_str()]);
                let can_list = table == Table::Nat && ledger.can_list_nat;
                if can_list && self.reach(before).is_worth_listing(options.backend) {
                    line(&mut text, &["-S"]);
                }
                text.append(&mut body);
                line(&mut text, &["COMMIT"]);
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

    /// As little as the changes ask for.
    fn extent(&self, dispatch: Dispatch, backend: Backend) -> Extent {
        match self.edits.get(&dispatch) {
            None => Extent::Nothing,
            Some(edits) if edits.removed.len() <= cost::most_deletions(backend) => Extent::Edits,
            Some(_) => Extent::Whole(cost::order(backend)),
        }
    }

    fn reach(&self, before: &Before) -> Reach {
        Reach {
            chains: self.chains.len() as u64,
            rules: self.stats.rules.nat,
            held: before.held,
        }
    }

    /// New rules go on top, where it costs nothing to put them and nothing can come behind the
    /// way to NodePorts. Their order among themselves is kept.
    fn write_dispatch(
        &mut self,
        buf: &mut Vec<u8>,
        dispatch: Dispatch,
        extent: Extent,
        ledger: &Ledger,
    ) {
        let (chain, table) = (dispatch.chain(), dispatch.table());
        match (extent, self.edits.get(&dispatch)) {
            (Extent::Whole(order), _) => {
                let places = in_order(ledger.dispatch_places(dispatch), order);
                let whole = places.into_iter().flatten().map(|(_, rule)| &**rule);
                rules(buf, "-A ", chain, whole);
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
        extent: Extent,
        old: &[Box<[u8]>],
        new: &[Box<[u8]>],
    ) {
        let (mut removed, mut added): (Vec<&[u8]>, Vec<&[u8]>) = (Vec::new(), Vec::new());
        if matches!(extent, Extent::Whole(_)) {
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
}

/// A dispatch rule of one Service.
type Placed<'r> = (Place, &'r [u8]);

/// Rules by place; those of one place in their order.
fn by_place<'r>(rules: impl Iterator<Item = Placed<'r>>) -> Vec<Placed<'r>> {
    let mut rules: Vec<_> = rules.collect();
    rules.sort_by_key(|(place, _)| *place);
    rules
}

fn first_place(held: &[Placed<'_>], wanted: &[Placed<'_>]) -> Option<Place> {
    let first = [held.first(), wanted.first()].into_iter().flatten();
    first.map(|(place, _)| *place).min()
}

/// Takes the rules of `place` off the front.
fn take<'p, 'r>(rules: &mut &'p [Placed<'r>], place: Place) -> &'p [Placed<'r>] {
    let end = rules.partition_point(|(of, _)| *of <= place);
    let (taken, rest) = rules.split_at(end);
    *rules = rest;
    taken
}

const NAT_SERVICES: &str = Dispatch::NatServices.chain();

/// Places in this order, their rules in theirs.
fn in_order<'r>(
    places: impl Iterator<Item = &'r [PlacedRule]>,
    order: Order,
) -> Vec<&'r [PlacedRule]> {
    let mut places: Vec<_> = places.collect();
    if order == Order::ByTarget {
        places.sort_by_key(|rules| Reverse(rules.first().map(|(_, rule)| target(rule))));
    }
    places
}

/// The last word.
fn target(rule: &[u8]) -> &[u8] {
    rule.rsplit(|byte| *byte == b' ').next().unwrap_or_default()
}

fn rules<'r>(buf: &mut Vec<u8>, command: &str, chain: &str, rules: impl Iterator<Item = &'r [u8]>) {
    for rule in rules {
        buf.extend_from_slice(command.as_bytes());
        buf.extend_from_slice(chain.as_bytes());
        buf.extend_from_slice(rule);
    }
}
