//! Order of the netfilter hooks, and the stack of chains inside one hook.

use std::cmp::Ordering;

use super::outcome::Unclear;
use crate::rules::chain::{Chain, ChainPolicy};
use crate::rules::grammar::Rule;
use crate::rules::ruleset::RuleSet;
use crate::rules::table::{Table, TracedTable};

/// Built-in chain of one table at one netfilter hook. Packets visit hooks in the order of this
/// enum and never return to an earlier one.
///
/// Connection tracking comes after the raw table. It knows replies, and translates them back
/// without the rules of `nat`, where these stand in the order of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hook {
    RawPrerouting,
    ManglePrerouting,
    NatPrerouting,
    MangleForward,
    FilterForward,
    SecurityForward,
    RawOutput,
    MangleOutput,
    NatOutput,
    FilterOutput,
    SecurityOutput,
    ManglePostrouting,
    NatPostrouting,
    /// `PREROUTING` for packets that the node sends to itself: they come in again through `lo`,
    /// and are neither tracked nor translated twice.
    RawReturn,
    MangleReturn,
    MangleInput,
    FilterInput,
    SecurityInput,
    /// Translates sources, only of packets that did not pass `POSTROUTING`.
    NatInput,
}

impl Hook {
    pub(super) const fn chain(self) -> (TracedTable, &'static str) {
        let (mangle, nat) = (
            TracedTable::Proxy(Table::Mangle),
            TracedTable::Proxy(Table::Nat),
        );
        let filter = TracedTable::Proxy(Table::Filter);
        match self {
            Self::RawPrerouting | Self::RawReturn => (TracedTable::Raw, "PREROUTING"),
            Self::ManglePrerouting | Self::MangleReturn => (mangle, "PREROUTING"),
            Self::NatPrerouting => (nat, "PREROUTING"),
            Self::MangleForward => (mangle, "FORWARD"),
            Self::FilterForward => (filter, "FORWARD"),
            Self::SecurityForward => (TracedTable::Security, "FORWARD"),
            Self::RawOutput => (TracedTable::Raw, "OUTPUT"),
            Self::MangleOutput => (mangle, "OUTPUT"),
            Self::NatOutput => (nat, "OUTPUT"),
            Self::FilterOutput => (filter, "OUTPUT"),
            Self::SecurityOutput => (TracedTable::Security, "OUTPUT"),
            Self::ManglePostrouting => (mangle, "POSTROUTING"),
            Self::NatPostrouting => (nat, "POSTROUTING"),
            Self::MangleInput => (mangle, "INPUT"),
            Self::FilterInput => (filter, "INPUT"),
            Self::SecurityInput => (TracedTable::Security, "INPUT"),
            Self::NatInput => (nat, "INPUT"),
        }
    }

    pub(super) const fn first(from_node: bool) -> Self {
        if from_node {
            Self::RawOutput
        } else {
            Self::RawPrerouting
        }
    }

    /// Returns the next hook of the packet; `None` at the end. `to_node`: the destination after
    /// translation is local.
    pub(super) const fn next(self, from_node: bool, to_node: bool) -> Option<Self> {
        Some(match self {
            Self::RawPrerouting => Self::ManglePrerouting,
            Self::ManglePrerouting => Self::NatPrerouting,
            Self::NatPrerouting if to_node => Self::MangleInput,
            Self::NatPrerouting => Self::MangleForward,
            Self::MangleForward => Self::FilterForward,
            Self::FilterForward => Self::SecurityForward,
            Self::RawOutput => Self::MangleOutput,
            Self::MangleOutput => Self::NatOutput,
            Self::NatOutput => Self::FilterOutput,
            Self::FilterOutput => Self::SecurityOutput,
            Self::SecurityForward | Self::SecurityOutput => Self::ManglePostrouting,
            Self::ManglePostrouting => Self::NatPostrouting,
            // Packets of the node to itself leave through `lo` and come in again.
            Self::NatPostrouting if from_node && to_node => Self::RawReturn,
            Self::RawReturn => Self::MangleReturn,
            Self::MangleReturn => Self::MangleInput,
            Self::MangleInput => Self::FilterInput,
            Self::FilterInput => Self::SecurityInput,
            Self::SecurityInput if !from_node => Self::NatInput,
            Self::SecurityInput | Self::NatInput | Self::NatPostrouting => return None,
        })
    }

    /// Reports whether the kernel routes packets right before this hook. Packets of the node are
    /// routed again after their translation, but the rules of `OUTPUT` see the interface of the
    /// first route.
    pub(super) const fn follows_routing(self, from_node: bool) -> bool {
        match self {
            Self::RawOutput | Self::MangleForward => true,
            Self::ManglePostrouting => from_node,
            _ => false,
        }
    }

    pub(super) fn has_outgoing(self) -> bool {
        !matches!(self.chain().1, "PREROUTING" | "INPUT")
    }

    pub(super) fn has_incoming(self) -> bool {
        !matches!(self.chain().1, "OUTPUT" | "POSTROUTING")
    }
}

/// Maximum number of nested chains. nft allows 16, and real rules never nest hundreds. The limit
/// also bounds the recursion of code that prints a trace, for example as a tree.
const MAX_DEPTH: usize = 256;

/// Chains that a packet is in, the innermost last. Empty before the first rule of a hook.
#[derive(Debug, Clone, Default)]
pub(super) struct CallStack<'a>(Vec<Frame<'a>>);

/// Chain in evaluation, and the index of its next rule.
#[derive(Debug, Clone, Copy)]
struct Frame<'a> {
    name: &'a str,
    chain: &'a Chain,
    next: usize,
}

/// Next position in the evaluation of a hook.
pub(super) enum Next<'a> {
    /// A rule, and the name of its chain.
    Rule(&'a str, &'a Rule),
    /// The end of the innermost chain.
    End,
    /// The beginning of the hook: no chain is entered yet.
    Start,
}

impl<'a> CallStack<'a> {
    pub(super) fn next(&mut self) -> Next<'a> {
        let Some(frame) = self.0.last_mut() else {
            return Next::Start;
        };
        let Some(rule) = frame.chain.rules.get(frame.next) else {
            return Next::End;
        };
        frame.next += 1;
        Next::Rule(frame.name, rule)
    }

    pub(super) fn call(
        &mut self,
        rules: &'a RuleSet,
        table: TracedTable,
        name: &str,
    ) -> Result<(), Unclear> {
        let Some((name, chain)) = rules.find(table, name) else {
            return Err(Unclear::MissingChain(name.to_owned()));
        };
        if self.0.len() >= MAX_DEPTH {
            return Err(Unclear::TooDeep(name.to_owned()));
        }
        if self.0.iter().any(|frame| frame.name == name) {
            return Err(Unclear::JumpLoop(name.to_owned()));
        }
        self.0.push(Frame {
            name,
            chain,
            next: 0,
        });
        Ok(())
    }

    /// Skips the rest of the innermost chain, so that a return to it returns from it as well.
    pub(super) fn skip_rest(&mut self) {
        if let Some(frame) = self.0.last_mut() {
            frame.next = frame.chain.rules.len();
        }
    }

    /// Compares the progress of two stacks of one hook. Rules are evaluated in one direction, so
    /// the lesser may reach the position of the greater, and never the other way round. Ties are
    /// broken by the name of the chain: after a goto, the index alone does not identify the rule.
    pub(super) fn progress(&self, other: &Self) -> Ordering {
        let pairs = self.0.iter().zip(&other.0);
        let mut steps =
            pairs.map(|(left, right)| (left.next, left.name).cmp(&(right.next, right.name)));
        let difference = steps.find(|order| order.is_ne());
        // The deeper stack has yet to return.
        difference.unwrap_or_else(|| other.0.len().cmp(&self.0.len()))
    }

    /// Leaves the innermost chain and returns its policy, which only built-in chains have.
    pub(super) fn leave(&mut self) -> Option<ChainPolicy> {
        self.0.pop()?.chain.policy
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
