//! Everything one Service contributes, as text with an index.
//!
//! Apart from the payloads because both kinds, full and partial, are put together from sheets;
//! and reused from Service to Service, so that rendering allocates nothing once it runs.

use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

use super::chain::ServiceChain;
use super::pen::Pen;
use super::tally::Tally;
use crate::rules::Table;

/// A fixed chain to which every Service adds rules of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Dispatch {
    /// filter: cluster IPs that nobody answers.
    FilterServices,
    /// filter: external addresses that nobody answers.
    FilterExternalServices,
    /// filter: health check node ports.
    FilterNodePorts,
    /// filter: load balancer traffic that no source range admitted.
    FilterProxyFirewall,
    /// nat: destinations.
    NatServices,
    /// nat: node ports.
    NatNodePorts,
}

impl Dispatch {
    /// All of them in table order.
    pub(super) const ALL: [Self; 6] = [
        Self::FilterServices,
        Self::FilterExternalServices,
        Self::FilterNodePorts,
        Self::FilterProxyFirewall,
        Self::NatServices,
        Self::NatNodePorts,
    ];

    /// The chain's name.
    pub(super) const fn chain(self) -> &'static str {
        match self {
            Self::FilterServices | Self::NatServices => "KUBE-SERVICES",
            Self::FilterExternalServices => "KUBE-EXTERNAL-SERVICES",
            Self::FilterNodePorts | Self::NatNodePorts => "KUBE-NODEPORTS",
            Self::FilterProxyFirewall => "KUBE-PROXY-FIREWALL",
        }
    }

    /// The chain's table.
    pub(super) const fn table(self) -> Table {
        match self {
            Self::NatServices | Self::NatNodePorts => Table::Nat,
            _ => Table::Filter,
        }
    }
}

/// Where a dispatch rule belongs: rules of one place keep their order, others have none.
///
/// The order within a service port matters. An address can be an external IP and a load balancer's
/// address at once, and the first rule that matches decides whether source ranges count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    /// The chain.
    pub(super) to: Dispatch,
    /// Which of the Service's ports, counted from 1.
    pub(super) port: u16,
}

/// What a chain holds, in eight bytes. Two texts that differ have, but for one chance in 2^64, two
/// digests.
pub(super) type Digest = u64;

/// One chain of a Service: where its rules stand in the sheet, and how many.
#[derive(Debug, Clone)]
pub(super) struct ChainEntry {
    pub(super) chain: ServiceChain,
    pub(super) text: Range<usize>,
    pub(super) rules: u32,
    pub(super) digest: Digest,
}

/// A Service's chains, in an order in which every jump leads backwards, and its dispatch rules.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    buf: Vec<u8>,
    chains: Vec<ChainEntry>,
    /// The rules behind `-A CHAIN`, each with its newline.
    dispatch: Vec<(Place, Range<usize>)>,
    /// The port begun last.
    port: u16,
    /// What all ports amount to.
    pub(super) tally: Tally,
}

impl Sheet {
    /// Empties the sheet and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.buf.clear();
        self.chains.clear();
        self.dispatch.clear();
        self.port = 0;
        self.tally = Tally::default();
    }

    /// Begins what the Service's next port contributes.
    pub(super) fn begin_port(&mut self) {
        self.port = self.port.saturating_add(1);
    }

    /// Begins a chain: rules follow until the next one begins.
    pub(super) fn begin_chain(&mut self, chain: ServiceChain) {
        let start = self.buf.len();
        self.chains.push(ChainEntry {
            chain,
            text: start..start,
            rules: 0,
            digest: 0,
        });
    }

    /// Begins a rule of the chain begun last.
    pub(super) fn rule(&mut self) -> Pen<'_> {
        let chain = self.chains.last_mut().map(|entry| {
            entry.rules += 1;
            entry.chain
        });
        match chain {
            Some(chain) => Pen::append_to(&mut self.buf, chain),
            None => Pen::new(&mut self.buf),
        }
    }

    /// Ends the chain begun last.
    pub(super) fn end_chain(&mut self) {
        if let Some(entry) = self.chains.last_mut() {
            entry.text.end = self.buf.len();
            let text = self.buf.get(entry.text.clone()).unwrap_or_default();
            entry.digest = digest(text);
        }
    }

    /// Writes one dispatch rule.
    pub(super) fn dispatch(&mut self, to: Dispatch, write: impl FnOnce(Pen<'_>)) {
        let start = self.buf.len();
        write(Pen::new(&mut self.buf));
        let place = Place {
            to,
            port: self.port,
        };
        self.dispatch.push((place, start..self.buf.len()));
    }

    /// The chains.
    pub(super) fn chains(&self) -> impl Iterator<Item = &ChainEntry> {
        self.chains.iter()
    }

    /// The dispatch rules: the blank behind the chain's name, the rule, and its newline.
    pub(super) fn dispatch_rules(&self) -> impl Iterator<Item = (Place, &[u8])> {
        self.dispatch
            .iter()
            .map(|(place, range)| (*place, self.slice(range)))
    }

    /// A chain's rules, whole lines.
    pub(super) fn text(&self, entry: &ChainEntry) -> &[u8] {
        self.slice(&entry.text)
    }

    fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.buf.get(range.clone()).unwrap_or_default()
    }
}

fn digest(text: &[u8]) -> Digest {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}
