//! The full payload: every chain, every rule, missing jumps, and the end of stale chains.
//!
//! Apart from partial payloads because it is streamed: piece by piece, Service by Service, so that
//! its memory does not grow with the cluster.
//!
//! # Order
//!
//! - filter before nat: a Service that loses its endpoints is refused before it is no longer
//!   translated.
//! - Within nat, each chain's header stands beside its rules, and every jump leads to a chain that
//!   is there already. On nft a first line `-S`, whose output is discarded, makes the program read
//!   all chains once instead of searching a list for every line: 10,000 Services take 3.4 s of CPU
//!   instead of 235 s. The filter table has too few chains for that to matter. On legacy the
//!   headers of many Services stand together, before the first of their rules, if there is no chain
//!   of a Service yet.

use std::collections::BTreeSet;

use super::base::{self, CANARY, FILTER_CHAINS, FIREWALL, NAT_CHAINS};
use super::chain::ServiceChain;
use super::chain_text::Headers;
use super::cost;
use super::ledger::Ledger;
use super::live::Live;
use super::options::Comments;
use super::service::{self, Setting};
use super::sheet::{Place, Sheet};
use super::stats::PayloadStats;
use crate::model::{ServiceName, ServiceState, Services};
use crate::rules::{Backend, Payload, Table};

type Walk<'a> = Box<dyn Iterator<Item = (&'a ServiceName, &'a ServiceState)> + 'a>;

/// A full payload in the making.
pub struct Full<'a> {
    services: &'a dyn Services,
    setting: Setting<'a>,
    live: &'a Live,
    stage: Stage<'a>,
    endpoints: usize,
    sheet: Sheet,
    ledger: Ledger,
    stats: PayloadStats,
}

enum Stage<'a> {
    FilterHead,
    FilterServices(Walk<'a>),
    NatHead,
    /// Finds out which chains there will be.
    NatChains(Walk<'a>, Vec<ServiceChain>),
    /// The headers of these, the last one first.
    NatHeaders(Vec<ServiceChain>),
    NatServices(Walk<'a>, Headers),
    NatEnd,
    Mangle,
    Done,
}

impl<'a> Full<'a> {
    /// Everything that `services` amount to, for a kernel that holds what `live` says.
    pub fn new(services: &'a dyn Services, setting: Setting<'a>, live: &'a Live) -> Self {
        Self {
            services,
            setting,
            live,
            stage: Stage::FilterHead,
            endpoints: 0,
            sheet: Sheet::default(),
            ledger: Ledger::default(),
            stats: PayloadStats::default(),
        }
    }

    /// What the kernel holds once it has taken the payload, and how large that was. Right only
    /// when all of it has been written.
    pub fn finish(mut self) -> (Ledger, PayloadStats) {
        self.ledger.can_list_nat = self.live.knows(Table::Nat);
        (self.ledger, self.stats)
    }

    fn jumps(&self, buf: &mut Vec<u8>, table: Table) {
        for jump in self.live.missing_jumps(table) {
            line(buf, &["-I ", jump.from, " ", jump.rule]);
        }
    }

    fn filter_head(&mut self, buf: &mut Vec<u8>) {
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

    fn nat_head(&mut self, buf: &mut Vec<u8>) {
        line(buf, &["*", Table::Nat.as_str()]);
        self.list_first(buf);
        headers(buf, &NAT_CHAINS);
        headers(buf, &[CANARY]);
        base::write_nat(buf, self.setting.options);
        self.ledger.base = base::rule_counts(self.setting.options);
        self.jumps(buf, Table::Nat);
    }

    fn filter_service(&mut self, buf: &mut Vec<u8>, name: &ServiceName, state: &ServiceState) {
        service::write_filter_only(&mut self.sheet, name, state, self.setting);
        self.endpoints += self.sheet.endpoints;
        dispatch_rules(buf, &self.sheet, Table::Filter);
    }

    fn nat_service(
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
    fn comments(&self) -> Comments {
        Comments::for_cluster(self.endpoints, self.setting.options)
    }

    fn headers_are(&self) -> Headers {
        cost::full_headers(
            self.setting.options.backend,
            self.live.is_bare(),
            self.endpoints,
        )
    }

    /// The way to NodePorts, which has to come last, and the end of chains that nobody wants.
    fn nat_end(&mut self, buf: &mut Vec<u8>) {
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

    fn advance(&mut self, buf: &mut Vec<u8>) -> Option<Stage<'a>> {
        Some(match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::FilterHead => {
                self.filter_head(buf);
                Stage::FilterServices(self.services.all())
            }
            Stage::FilterServices(mut walk) => {
                if let Some((name, service)) = walk.next() {
                    self.filter_service(buf, name, service);
                    Stage::FilterServices(walk)
                } else {
                    line(buf, &["COMMIT"]);
                    Stage::NatHead
                }
            }
            Stage::NatHead => {
                self.nat_head(buf);
                match self.headers_are() {
                    Headers::First => Stage::NatChains(self.services.all(), Vec::new()),
                    beside @ Headers::Beside => Stage::NatServices(self.services.all(), beside),
                }
            }
            Stage::NatChains(mut walk, mut chains) => {
                if let Some((name, state)) = walk.next() {
                    let comments = self.comments();
                    service::write(&mut self.sheet, name, state, self.setting, comments);
                    chains.extend(self.sheet.chains().map(|entry| entry.chain));
                    Stage::NatChains(walk, chains)
                } else {
                    chains.sort_by_cached_key(|chain| chain.spelling());
                    Stage::NatHeaders(chains)
                }
            }
            Stage::NatHeaders(mut chains) => {
                if let Some(last) = chains.pop() {
                    header(buf, last);
                    Stage::NatHeaders(chains)
                } else {
                    Stage::NatServices(self.services.all(), Headers::First)
                }
            }
            Stage::NatServices(mut walk, headers_are) => {
                if let Some((name, service)) = walk.next() {
                    self.nat_service(buf, name, service, headers_are);
                    Stage::NatServices(walk, headers_are)
                } else {
                    Stage::NatEnd
                }
            }
            Stage::NatEnd => {
                self.nat_end(buf);
                Stage::Mangle
            }
            Stage::Mangle => {
                line(buf, &["*", Table::Mangle.as_str()]);
                headers(buf, &[CANARY]);
                line(buf, &["COMMIT"]);
                Stage::Done
            }
            Stage::Done => return None,
        })
    }
}

impl Payload for Full<'_> {
    fn write_next(&mut self, buf: &mut Vec<u8>) -> bool {
        let before = buf.len();
        let Some(stage) = self.advance(buf) else {
            return false;
        };
        self.stage = stage;
        self.stats.bytes += (buf.len() - before) as u64;
        true
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
