//! Jumps to Service chains with the packets that the kernel has counted. The nat table sees the
//! first packet of each connection, so these are connections.

use std::hash::BuildHasher;

use super::recognition::holds_dispatch_rules;
use super::service_chain::{PortComment, ServiceChain};
use crate::rules::Table;

/// Rule of the nat table that jumps to a Service chain, with its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedJump<'a> {
    pub(crate) chain: &'a str,
    /// Matches of the rule, as the program prints them.
    matches: &'a str,
    /// Number of connections that matched since the rule was written.
    pub(crate) connections: u64,
    pub(crate) target: ServiceChain,
}

impl<'a> CountedJump<'a> {
    /// Parses a line that `iptables-save -c` or `iptables -S -v` prints; `None` if it is another
    /// one.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let (in_front, rule) = match line.strip_prefix('[') {
            Some(rest) => {
                let (counters, rule) = rest.split_once("] ")?;
                (counters.split_once(':'), rule)
            }
            None => (None, line),
        };
        let (chain, rule) = rule.strip_prefix("-A ")?.split_once(' ')?;
        // A comment has no ` -j `: names of service ports have no blanks.
        let (matches, target) = rule.rsplit_once("-j ")?;
        let (matches, counters) = if let Some(counters) = in_front {
            (matches, counters)
        } else {
            let (matches, counters) = matches.trim_end().rsplit_once("-c ")?;
            (matches, counters.split_once(' ')?)
        };
        Some(Self {
            chain,
            matches: matches.trim_end(),
            connections: counters.0.parse().ok()?,
            target: ServiceChain::parse(target)?,
        })
    }

    /// Reports whether it is a rule of a frontend: each connection to a service port matches one.
    pub(crate) fn is_of_frontend(&self) -> bool {
        holds_dispatch_rules(Table::Nat, self.chain)
    }

    /// Returns the name of the service port, `NAMESPACE/SERVICE[:PORT]`, which the comment has.
    pub(crate) fn service_port(&self) -> Option<&'a str> {
        let (_, comment) = self.matches.split_once("--comment ")?;
        let comment = match comment.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next()?,
            None => comment.split(' ').next()?,
        };
        Some(PortComment::parse(comment).map_or(comment, |(_, name)| name))
    }

    /// Returns a number that is the same for all readings of a rule, and differs between rules.
    pub(crate) fn key(&self) -> u64 {
        let state = foldhash::quality::FixedState::default();
        state.hash_one((self.chain, self.matches, self.target))
    }
}

#[cfg(test)]
#[path = "tests/counted_jump.rs"]
mod tests;
