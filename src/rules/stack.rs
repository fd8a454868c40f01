//! The chains that a packet is in, the innermost last.
//!
//! Apart from [`traveller`](super::traveller) because calls and returns are the same whatever is
//! carried through them.

use std::cmp::Ordering;

use super::chain::{Chain, Policy};
use super::outcome::Unclear;
use super::rule::Rule;
use super::ruleset::RuleSet;
use super::table::Table;

/// How deep chains may call each other. nft enters 16, nobody writes hundreds, and whatever shows
/// the way, as a tree for one, goes as deep.
const DEEPEST: usize = 256;

/// The chains that a packet is in. Empty before the first rule of a hook.
#[derive(Debug, Clone, Default)]
pub(super) struct Stack<'a>(Vec<Frame<'a>>);

/// A chain that is being walked.
#[derive(Debug, Clone, Copy)]
struct Frame<'a> {
    name: &'a str,
    chain: &'a Chain,
    next: usize,
}

/// What is next.
pub(super) enum Next<'a> {
    /// A rule of the chain of that name.
    Rule(&'a str, &'a Rule),
    /// The innermost chain is at its end.
    End,
    /// No chain was entered.
    Nothing,
}

impl<'a> Stack<'a> {
    /// Goes on to the next rule.
    pub(super) fn next(&mut self) -> Next<'a> {
        let Some(frame) = self.0.last_mut() else {
            return Next::Nothing;
        };
        let Some(rule) = frame.chain.rules.get(frame.next) else {
            return Next::End;
        };
        frame.next += 1;
        Next::Rule(frame.name, rule)
    }

    /// Enters a chain at its beginning.
    pub(super) fn call(
        &mut self,
        rules: &'a RuleSet,
        table: Table,
        name: &str,
    ) -> Result<(), Unclear> {
        let Some((name, chain)) = rules.find(table, name) else {
            return Err(Unclear::Missing(name.to_owned()));
        };
        if self.0.len() >= DEEPEST {
            return Err(Unclear::TooDeep(name.to_owned()));
        }
        if self.0.iter().any(|frame| frame.name == name) {
            return Err(Unclear::Loop(name.to_owned()));
        }
        self.0.push(Frame {
            name,
            chain,
            next: 0,
        });
        Ok(())
    }

    /// Whoever returns to the innermost chain finds it at its end.
    pub(super) fn skip_rest(&mut self) {
        if let Some(frame) = self.0.last_mut() {
            frame.next = frame.chain.rules.len();
        }
    }

    /// Which of two on their way from the same beginning is met first. Rules are walked in one
    /// direction, so who is behind may get to where the other is, and never the other way round.
    pub(super) fn progress(&self, other: &Self) -> Ordering {
        let pairs = self.0.iter().zip(&other.0);
        let mut steps = pairs.map(|(left, right)| left.next.cmp(&right.next));
        let apart = steps.find(|order| order.is_ne());
        // Who is deeper has yet to return.
        apart.unwrap_or_else(|| other.0.len().cmp(&self.0.len()))
    }

    /// Leaves the innermost chain; a built-in one has a policy.
    pub(super) fn leave(&mut self) -> Option<Policy> {
        self.0.pop()?.chain.policy
    }

    /// Leaves all chains.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
