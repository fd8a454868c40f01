//! The Service chains of a partial payload: those that are written, those that go, and where their
//! headers stand.
//!
//! Apart from [`changes`](super::changes), which finds them Service by Service, because the place
//! of the headers decides what a large payload costs on nft.

use std::cmp::Reverse;
use std::ops::Range;

use super::chain::ServiceChain;
use super::full_text::header;

/// Where chain lines stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Headers {
    /// Each before the rules of its chain.
    Beside,
    /// All before the first rule, the last name first.
    First,
}

/// Chains, in the order in which they were found.
#[derive(Default)]
pub(super) struct ChainTexts {
    written: Vec<(ServiceChain, Range<usize>)>,
    /// Rules, whole lines.
    text: Vec<u8>,
    gone: Vec<ServiceChain>,
}

impl ChainTexts {
    /// A chain is to hold these rules.
    pub(super) fn fill(&mut self, chain: ServiceChain, rules: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(rules);
        self.written.push((chain, start..self.text.len()));
    }

    /// Chains are to go.
    pub(super) fn delete(&mut self, chains: impl Iterator<Item = ServiceChain>) {
        self.gone.extend(chains);
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.written.len() + self.gone.len()
    }

    /// What comes before all that leads to these chains.
    pub(super) fn write_filled(&self, buf: &mut Vec<u8>, headers: Headers) {
        match headers {
            Headers::Beside => {
                for (chain, rules) in &self.written {
                    header(buf, *chain);
                    buf.extend_from_slice(self.text.get(rules.clone()).unwrap_or_default());
                }
            }
            Headers::First => {
                let written = self.written.iter().map(|(chain, _)| *chain);
                let mut chains: Vec<_> = written.chain(self.gone.iter().copied()).collect();
                chains.sort_by_cached_key(|chain| Reverse(chain.spelling()));
                for chain in chains {
                    header(buf, chain);
                }
                buf.extend_from_slice(&self.text);
            }
        }
    }

    /// What comes when nothing leads to these chains any more. They refer to each other, so all are
    /// emptied before the first is deleted.
    pub(super) fn write_gone(&self, buf: &mut Vec<u8>, headers: Headers) {
        if headers == Headers::Beside {
            for chain in &self.gone {
                header(buf, *chain);
            }
        }
        for chain in &self.gone {
            buf.extend_from_slice(b"-X ");
            chain.write(buf);
            buf.push(b'\n');
        }
    }
}
