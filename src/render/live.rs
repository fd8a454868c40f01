//! What a full restore has to know of the kernel: which chains are there to be deleted, and which
//! jumps are there already.
//!
//! Apart because it is read from `iptables-save`, or asked for bit by bit where that fails; a full
//! payload made without it is for an empty kernel.

use std::collections::BTreeSet;

use super::base::{FIREWALL, NAT_CHAINS};
use super::chain::{ServiceChain, is_service_chain};
use super::jump::{JUMPS, Jump};
use crate::rules::{Rule, Table};

/// The part of the kernel's rules that matters to a full restore.
#[derive(Debug, Clone, Default)]
pub struct Live {
    service_chains: BTreeSet<ServiceChain>,
    /// Chains of older versions, and whatever else looks like ours.
    odd_chains: BTreeSet<Box<str>>,
    /// Service chains that somebody else's rule leads to. The kernel refuses to delete them, and
    /// with that the whole payload.
    held: BTreeSet<Box<str>>,
    pub(super) has_firewall: bool,
    /// The tables that were read.
    known: BTreeSet<Table>,
    jumps: Vec<(Table, Box<str>, Rule)>,
    /// Jumps that were asked for one by one, and are there.
    seen: Vec<&'static Jump>,
}

impl Live {
    /// Reads all of what `iptables-save -t TABLE` printed.
    pub fn read(&mut self, table: Table, save: &str) {
        save.lines().for_each(|line| self.read_line(table, line));
        self.has_read(table);
    }

    /// Returns the state of a kernel that holds these chains of Services, and all jumps but these.
    pub fn with_chains(
        chains: impl Iterator<Item = ServiceChain>,
        missing: &[&'static Jump],
    ) -> Self {
        let is_there = |jump: &&'static Jump| !missing.contains(jump);
        Self {
            service_chains: chains.collect(),
            has_firewall: true,
            known: Table::ALL.into(),
            seen: JUMPS.iter().filter(is_there).collect(),
            ..Self::default()
        }
    }

    /// Takes in one line of it. Lines that say nothing of interest, or cannot be read, are passed
    /// over: what is not seen is written again.
    pub fn read_line(&mut self, table: Table, line: &str) {
        if let Some(chain) = line.strip_prefix(':') {
            self.read_chain(table, chain.split(' ').next().unwrap_or_default());
        } else if let Some(rule) = line.strip_prefix("-A ") {
            self.read_rule(table, rule);
        }
    }

    /// Notes that those were all lines of the table.
    pub fn has_read(&mut self, table: Table) {
        self.known.insert(table);
    }

    /// Notes that a jump is there, of a table that cannot be read.
    pub fn saw(&mut self, jump: &'static Jump) {
        self.seen.push(jump);
    }

    /// Notes that kubelet's chain is there, of a filter table that cannot be read.
    pub const fn saw_firewall(&mut self) {
        self.has_firewall = true;
    }

    /// The jumps that are missing, in the order in which to put them on top.
    pub(super) fn missing_jumps(&self, table: Table) -> impl Iterator<Item = &'static Jump> {
        JUMPS
            .iter()
            .filter(move |jump| jump.table == table && !self.has(jump))
    }

    /// The service chains that are not among these, sorted by name.
    pub(super) fn stale_chains(&self, wanted: impl Iterator<Item = ServiceChain>) -> Vec<Box<str>> {
        let mut stale = self.service_chains.clone();
        for chain in wanted {
            stale.remove(&chain);
        }
        let stale = stale.into_iter().map(|chain| chain.name().into());
        let mut names: Vec<Box<str>> = stale.chain(self.odd_chains.iter().cloned()).collect();
        names.sort_unstable();
        names
    }

    /// Whether a stale chain can be deleted; if not, it is emptied and left behind.
    ///
    /// Differs from upstream: there one foreign reference makes every further restore fail.
    pub(super) fn can_delete(&self, chain: &str) -> bool {
        !self.held.contains(chain)
    }

    /// Whether the table was read, so that it is known what is not there.
    pub(super) fn knows(&self, table: Table) -> bool {
        self.known.contains(&table)
    }

    /// Whether it is known that no Service has a chain.
    pub fn is_bare(&self) -> bool {
        self.knows(Table::Nat) && self.service_chains.is_empty()
    }

    fn read_chain(&mut self, table: Table, name: &str) {
        match table {
            Table::Nat if is_service_chain(name) => match ServiceChain::parse(name) {
                Some(chain) => drop(self.service_chains.insert(chain)),
                None => drop(self.odd_chains.insert(name.into())),
            },
            Table::Filter if name == FIREWALL => self.has_firewall = true,
            _ => {}
        }
    }

    /// Rules of other people's chains: a jump of ours among them, or a reference to a chain of
    /// ours.
    fn read_rule(&mut self, table: Table, rule: &str) {
        let Some((chain, spec)) = rule.split_once(' ') else {
            return;
        };
        let is_ours = is_service_chain(chain) || NAT_CHAINS.contains(&chain);
        if is_ours || !(spec.contains("-j KUBE-") || spec.contains("-g KUBE-")) {
            return;
        }
        let Ok(rule) = spec.parse::<Rule>() else {
            return;
        };
        if let Some(target) = rule
            .target_chain()
            .filter(|target| is_service_chain(target))
        {
            self.held.insert(target.into());
        }
        if JUMPS.iter().any(|jump| jump.from == chain) {
            self.jumps.push((table, chain.into(), rule));
        }
    }

    fn has(&self, jump: &Jump) -> bool {
        if self.seen.contains(&jump) {
            return true;
        }
        let Ok(wanted) = jump.rule.parse::<Rule>() else {
            return false;
        };
        self.jumps.iter().any(|(table, from, rule)| {
            (*table, &**from) == (jump.table, jump.from) && *rule == wanted
        })
    }
}
