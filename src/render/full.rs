//! The full payload: every chain, every rule, missing jumps, and the end of stale chains.
//!
//! Apart from partial payloads because it is streamed: piece by piece, Service by Service, so that
//! its memory does not grow with the cluster. What the pieces say is in
//! [`full_text`](super::full_text).
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

use super::base::CANARY;
use super::chain::ServiceChain;
use super::chain_text::Headers;
use super::cost;
use super::full_text::{header, headers, line};
use super::ledger::Ledger;
use super::live::Live;
use super::service::{self, Setting};
use super::sheet::Sheet;
use super::stats::PayloadStats;
use crate::model::{ServiceName, ServiceState, Services};
use crate::rules::{Payload, Table};

type Walk<'a> = Box<dyn Iterator<Item = (&'a ServiceName, &'a ServiceState)> + 'a>;

/// A full payload in the making.
pub struct Full<'a> {
    pub(super) services: &'a dyn Services,
    pub(super) setting: Setting<'a>,
    pub(super) live: &'a Live,
    stage: Stage<'a>,
    pub(super) endpoints: usize,
    pub(super) sheet: Sheet,
    pub(super) ledger: Ledger,
    pub(super) stats: PayloadStats,
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

    fn headers_are(&self) -> Headers {
        cost::full_headers(
            self.setting.options.backend,
            self.live.is_bare(),
            self.endpoints,
        )
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
