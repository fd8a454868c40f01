//! What each part of a full payload says.
//!
//! Apart from [`full`](super::full), which puts the parts in order.

use std::collections::BTreeSet;

use super::base::{self, CANARY, FILTER_CHAINS, FIREWALL, NAT_CHAINS};
use super::chain::ServiceChain;
use super::chain_text::Headers;
use super::full::Full;
use super::options::Comments;
use super::service;
use super::sheet::{Place, Sheet};
use crate::model::{ServiceName, ServiceState};
use crate::rules::{Backend, Table};

impl Full<'_> {
    fn jumps(&self, buf: &mut Vec<u8>, table: Table) {
        for jump in self.live.missing_jumps(table) {
            line(buf, &["-I ", jump.from, " ", jump.rule]);
        }
    }

    pub(super) fn filter_head(&mut self, buf: &mut Vec<u8>) {
        line(buf, &["*", Table::Filter.as_str()]);
        headers(buf, &FILTER_CHAINS);
        headers(buf, &[CANARY]);
        // A chain line would empty the chain, and on IPv6 its rules are kubelet's.
        if base::fills_firewall(self.setting.options) || !self.live.has_firewall {
            headers(buf, &[FIREWALL]);
        }
        base::write_filter(buf, self.setting.options);
        self.jumps(buf, Table::Filter);
    }

    /// The line that makes nft read all chains at once. After it, the program (1.8.9) takes a
    /// built-in chain that nobody has used yet for one that is there, and the kernel refuses rules
    /// for it. A chain line makes it look again; without a policy it changes nothing else.
    fn list_first(&self, buf: &mut Vec<u8>) {
        if self.setting.options.backend != Backend::Nft || !self.live.knows(Table::Nat) {
            return;
        }
        line(buf, &["-S"]);
        let lacking: BTreeSet<_> = self
            .live
            .missing_jumps(Table::Nat)
            .map(|j| j.from)
            .collect();
        for chain in lacking {
            headers(buf, &[chain]);
        }
    }

    pub(super) fn nat_head(&mut self, buf: &mut Vec<u8>) {
        line(buf, &["*", Table::Nat.as_str()]);
        self.list_first(buf);
        headers(buf, &NAT_CHAINS);
        headers(buf, &[CANARY]);
        base::write_nat(buf, self.setting.options);
        self.ledger.base = base::rule_counts(self.setting.options);
        self.jumps(buf, Table::Nat);
    }

    pub(super) fn filter_service(
        &mut self,
        buf: &mut Vec<u8>,
        name: &ServiceName,
        state: &ServiceState,
    ) {
        service::write_filter_only(&mut self.sheet, name, state, self.setting);
        self.endpoints += self.sheet.tally.endpoints;
        dispatch_rules(buf, &self.sheet, Table::Filter);
    }

    pub(super) fn nat_service(
        &mut self,
        buf: &mut Vec<u8>,
        name: &ServiceName,
        state: &ServiceState,
        headers_are: Headers,
    ) {
        let comments = self.comments();
        service::write(&mut self.sheet, name, state, self.setting, comments);
        for entry in self.sheet.chains() {
            self.stats.chains += 1;
            if headers_are == Headers::Beside {
                header(buf, entry.chain);
            }
            buf.extend_from_slice(self.sheet.text(entry));
        }
        dispatch_rules(buf, &self.sheet, Table::Nat);
        self.ledger.record(name, &self.sheet);
    }

    /// Known once the filter table is written.
    pub(super) fn comments(&self) -> Comments {
        Comments::for_cluster(self.endpoints, self.setting.options)
    }

    /// The way to NodePorts, which has to come last, and the end of chains that nobody wants.
    pub(super) fn nat_end(&mut self, buf: &mut Vec<u8>) {
        self.ledger.tail = base::tail_rules(self.setting.options);
        for rule in &self.ledger.tail {
            buf.extend_from_slice(b"-A KUBE-SERVICES");
            buf.extend_from_slice(rule);
        }
        let stale = self.live.stale_chains(self.ledger.chains());
        // All are emptied before the first is deleted: they refer to each other.
        for chain in &stale {
            headers(buf, &[chain]);
        }
        for chain in stale.iter().filter(|chain| self.live.can_delete(chain)) {
            line(buf, &["-X ", chain]);
        }
        line(buf, &["COMMIT"]);
        self.stats.chains += (stale.len() + FILTER_CHAINS.len() + NAT_CHAINS.len()) as u64;
        self.stats.rules = self.ledger.rules();
    }
}

/// Appends the dispatch rules of one table.
fn dispatch_rules(buf: &mut Vec<u8>, sheet: &Sheet, table: Table) {
    for (Place { to, .. }, rule) in sheet.dispatch_rules() {
        if to.table() != table {
            continue;
        }
        buf.extend_from_slice(b"-A ");
        buf.extend_from_slice(to.chain().as_bytes());
        buf.extend_from_slice(rule);
    }
}

/// Chain lines: each creates or empties a chain.
pub(super) fn headers(buf: &mut Vec<u8>, chains: &[&str]) {
    for chain in chains {
        line(buf, &[":", chain, " - [0:0]"]);
    }
}

/// The chain line of a Service's chain.
pub(super) fn header(buf: &mut Vec<u8>, chain: ServiceChain) {
    buf.push(b':');
    chain.write(buf);
    buf.extend_from_slice(b" - [0:0]\n");
}

/// One line of several parts.
pub(super) fn line(buf: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        buf.extend_from_slice(part.as_bytes());
    }
    buf.push(b'\n');
}
