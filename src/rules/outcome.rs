//! What a trace has to say.
//!
//! Apart from the walk because `explain` and the scenarios print these and need nothing else.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::rule::Rule;
use super::share::Share;
use super::table::Table;

/// One way in which packets end, and how many do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// How many of all packets. The shares of all outcomes of a trace make one whole.
    pub share: Share,
    /// How they end.
    pub verdict: Verdict,
    /// The built-in chain in which they end: the last that was walked.
    pub at: (Table, &'static str),
    /// The rules that matched, in order.
    pub steps: Vec<Step<'a>>,
    /// The rules that could not be decided and were passed by, in order.
    pub doubts: Vec<Step<'a>>,
}

/// A rule that was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// Where its chain is.
    pub table: Table,
    /// The chain it is in.
    pub chain: &'a str,
    /// The rule.
    pub rule: &'a Rule,
}

/// How a packet ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Its destination was translated and it was let through.
    Delivered {
        /// Where to.
        to: IpAddr,
        /// The port it arrives at.
        port: u16,
        /// Whether the receiver sees the node as its source.
        masqueraded: bool,
    },
    /// It was let through to where it was meant to go.
    Passed {
        /// Whether the receiver sees the node as its source.
        masqueraded: bool,
    },
    /// It vanished.
    Dropped,
    /// It was answered with an error.
    Rejected,
    /// Nobody here can tell.
    Unclear(Unclear),
}

/// Why it cannot be told how a packet ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unclear {
    /// The rule asks or does something that is not modelled.
    Unknown {
        /// Where the chain is.
        table: Table,
        /// The chain it is in.
        chain: String,
        /// The rule as text.
        rule: String,
    },
    /// The rule matches, but what its target does is not modelled.
    Target {
        /// Where the chain is.
        table: Table,
        /// The chain it is in.
        chain: String,
        /// The rule as text.
        rule: String,
    },
    /// The chain leads to itself. The kernel does not take such rules.
    Loop(String),
    /// A rule leads to a chain that is not there.
    Missing(String),
    /// Rules treat packets by chance in more ways than are followed.
    TooMany,
    /// So many chains lead on to each other that this one is not entered any more.
    TooDeep(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = |masqueraded: &bool| {
            if *masqueraded {
                "masqueraded"
            } else {
                "source kept"
            }
        };
        match self {
            Self::Delivered {
                to,
                port,
                masqueraded,
            } => {
                let to = SocketAddr::new(*to, *port);
                write!(f, "to {to}, {}", source(masqueraded))
            }
            Self::Passed { masqueraded } => write!(f, "passed, {}", source(masqueraded)),
            Self::Dropped => f.write_str("dropped"),
            Self::Rejected => f.write_str("rejected"),
            Self::Unclear(why) => write!(f, "unclear: {why}"),
        }
    }
}

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { table, chain, rule } => {
                write!(f, "{table} {chain}: `{rule}` is not modelled")
            }
            Self::Target { table, chain, rule } => write!(
                f,
                "a rule in {table} {chain} matches, and what its target does is not known here: {rule}"
            ),
            Self::Loop(chain) => write!(f, "chain `{chain}` leads to itself"),
            Self::Missing(chain) => write!(f, "chain `{chain}` is not there"),
            Self::TooDeep(chain) => {
                write!(
                    f,
                    "too many chains lead on to each other before chain `{chain}`"
                )
            }
            Self::TooMany => f.write_str("by chance, rules part these packets in too many ways"),
        }
    }
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.table, self.chain, self.rule)
    }
}
