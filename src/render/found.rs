//! Our chains as the kernel has them: what is to be known of them to take them over.
//!
//! Apart from [`adopt`](super::adopt()), which compares it with what is wanted, because this is
//! read line by line: the text of a large cluster's rules is never in memory at once. Of a
//! Service's chain a digest of its rules in normal form is kept, of a shared chain each rule.

use std::hash::{DefaultHasher, Hash, Hasher};

use hashbrown::HashMap;

use super::base::{CANARY, FIREWALL, NAT_CHAINS};
use super::chain::{ServiceChain, is_service_chain};
use super::sheet::{Digest, Dispatch};
use crate::rules::{Rule, Table};

/// What `iptables-save` said of our chains.
#[derive(Debug, Default)]
pub struct Found {
    /// What each Service's chain amounts to, if it is understood.
    pub(super) chains: HashMap<ServiceChain, Option<Digest>>,
    /// The rules of the shared chains in their order; `None` where one has been claimed.
    dispatch: [Vec<Option<FoundRule>>; Dispatch::ALL.len()],
    /// What the guard looks at, as if it had been listed.
    listings: [String; Table::ALL.len()],
    /// The shared chains that are there.
    shared: Vec<(Table, Box<str>)>,
    /// The Service's chain that is being read.
    open: Option<(ServiceChain, Reading)>,
    /// A chain of ours was met that no sheet can hold.
    pub(super) has_odd_chain: bool,
}

/// A rule of a shared chain.
#[derive(Debug)]
pub(super) struct FoundRule {
    /// In normal form; `None` if it is not understood.
    pub(super) digest: Option<Digest>,
    /// Behind the chain's name: a blank, the rule, and a newline.
    pub(super) text: Box<[u8]>,
}

/// The rules of a Service's chain so far.
#[derive(Debug, Default)]
struct Reading {
    hasher: DefaultHasher,
    is_doubtful: bool,
}

impl Found {
    /// Takes in one line of what `iptables-save -t TABLE` printed.
    pub fn read(&mut self, table: Table, line: &str) {
        if let Some(header) = line.strip_prefix(':') {
            self.read_chain(table, header.split(' ').next().unwrap_or_default());
        } else if let Some((chain, rule)) = line
            .strip_prefix("-A ")
            .and_then(|rest| rest.split_once(' '))
        {
            self.read_rule(table, chain, rule, line);
        } else {
            // `COMMIT`: what is read next is of another table.
            self.close();
        }
    }

    /// Whether a shared chain is there.
    pub(super) fn has(&self, table: Table, chain: &str) -> bool {
        let mut shared = self.shared.iter();
        shared.any(|(of, found)| *of == table && **found == *chain)
    }

    /// What listing the guarded chains of a table would have printed, and more.
    pub(super) fn listing(&self, table: Table) -> &str {
        let [filter, nat, mangle] = &self.listings;
        match table {
            Table::Filter => filter,
            Table::Nat => nat,
            Table::Mangle => mangle,
        }
    }

    /// The rules of a shared chain, in their order.
    pub(super) fn rules_mut(&mut self, of: Dispatch) -> &mut Vec<Option<FoundRule>> {
        let [first, others @ ..] = &mut self.dispatch;
        let others = Dispatch::ALL.into_iter().skip(1).zip(others);
        let mut rules = others.filter_map(|(dispatch, rules)| (dispatch == of).then_some(rules));
        rules.next().unwrap_or(first)
    }

    fn list(&mut self, table: Table, line: &str) {
        let [filter, nat, mangle] = &mut self.listings;
        let listing = match table {
            Table::Filter => filter,
            Table::Nat => nat,
            Table::Mangle => mangle,
        };
        listing.push_str(line);
        listing.push('\n');
    }

    fn read_chain(&mut self, table: Table, name: &str) {
        if table == Table::Nat && is_service_chain(name) {
            match ServiceChain::parse(name) {
                Some(chain) => drop(self.chains.insert(chain, None)),
                None => self.has_odd_chain = true,
            }
        } else if name == CANARY {
            self.list(table, &format!("-N {CANARY}"));
        } else if name.starts_with("KUBE-") {
            self.shared.push((table, name.into()));
        }
    }

    /// Reads the rules of one shared chain from what `-S CHAIN` printed.
    pub(super) fn of_dispatch(to: Dispatch, listing: &str) -> Vec<Option<FoundRule>> {
        let mut found = Self::of_listing(to.table(), listing);
        std::mem::take(found.rules_mut(to))
    }

    /// Reads the rules of chains from what `-S CHAIN` printed of each.
    pub(super) fn of_listing(table: Table, listing: &str) -> Self {
        let mut found = Self::default();
        for line in listing.lines().filter(|line| line.starts_with("-A ")) {
            found.read(table, line);
        }
        found.close();
        found
    }

    fn read_rule(&mut self, table: Table, chain: &str, rule: &str, line: &str) {
        if table == Table::Nat
            && let Some(chain) = ServiceChain::parse(chain)
        {
            return self.read_service_rule(chain, rule);
        }
        let mut all = Dispatch::ALL.into_iter();
        if let Some(to) = all.find(|to| (to.table(), to.chain()) == (table, chain)) {
            self.rules_mut(to).push(Some(FoundRule {
                digest: digest([rule]),
                text: format!(" {rule}\n").into_bytes().into(),
            }));
        } else if chain == FIREWALL
            || chain == "KUBE-FORWARD"
            || (table == Table::Nat && NAT_CHAINS.contains(&chain))
            || line.contains(" KUBE-")
        {
            self.list(table, line);
        }
    }

    fn read_service_rule(&mut self, chain: ServiceChain, rule: &str) {
        if self.open.as_ref().is_none_or(|(open, _)| *open != chain) {
            self.close();
            self.open = Some((chain, Reading::default()));
        }
        if let Some((_, reading)) = &mut self.open {
            reading.take(rule);
        }
    }

    /// The end of a Service's chain. Rules of one chain stand together; should they ever not, the
    /// later ones count as all of them, and the chain is written anew.
    fn close(&mut self) {
        if let Some((chain, reading)) = self.open.take() {
            self.chains.insert(chain, reading.finish());
        }
    }
}

impl Reading {
    fn take(&mut self, rule: &str) {
        match rule.parse::<Rule>() {
            Ok(rule) => rule.hash(&mut self.hasher),
            Err(_) => self.is_doubtful = true,
        }
    }

    fn finish(self) -> Option<Digest> {
        (!self.is_doubtful).then(|| self.hasher.finish())
    }
}

/// What rules amount to, however they are spelled; `None` if one of them is not understood.
pub(super) fn digest<'r>(rules: impl IntoIterator<Item = &'r str>) -> Option<Digest> {
    let mut reading = Reading::default();
    for rule in rules {
        reading.take(rule);
    }
    reading.finish()
}

/// Reports whether a chain of a Service holds these rules, whole lines, in any spelling.
pub(super) fn holds(
    chains: &HashMap<ServiceChain, Option<Digest>>,
    chain: ServiceChain,
    lines: &[u8],
) -> bool {
    let found = chains.get(&chain).copied().flatten();
    let lines = str::from_utf8(lines).unwrap_or_default().lines();
    let rules = lines.filter_map(|line| Some(line.strip_prefix("-A ")?.split_once(' ')?.1));
    found.is_some() && found == digest(rules)
}
