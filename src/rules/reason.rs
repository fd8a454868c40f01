//! Why a line cannot be taken.
//!
//! Apart because reading a save and applying a payload refuse for the same reasons; they differ
//! only in whose fault it is.

use super::token::MAX_CHAIN_NAME;

/// What is wrong with one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// A `"` without its partner.
    #[error("a quoted text does not end")]
    OpenQuote,
    /// A word that is neither an option nor the value of one.
    #[error("unexpected `{0}`")]
    Unexpected(String),
    /// An option without what must follow it.
    #[error("`{0}` lacks its value")]
    NoValue(String),
    /// No address or network; names and lists of addresses are not resolved.
    #[error("`{0}` is no address")]
    BadAddress(String),
    /// A rule or a chain outside `*table` and `COMMIT`.
    #[error("a command outside any table")]
    OutsideTable,
    /// The text ends inside a table, or another table begins there.
    #[error("COMMIT expected")]
    NoCommit,
    /// A command or a chain name that `iptables-restore` would not take.
    #[error("unknown command `{0}`")]
    BadCommand(String),
    /// The kernel has no room for the name.
    #[error("chain name `{0}` is longer than {MAX_CHAIN_NAME} bytes")]
    LongName(String),
    /// A chain named like a verdict, or a user chain with a policy.
    #[error("chain `{0}` cannot be declared like that")]
    BadChain(String),
    /// The chain that the command is about is not there.
    #[error("no chain `{0}`")]
    NoChain(String),
    /// The chain that the rule jumps to is not there, or is a built-in one.
    #[error("no chain `{0}` to jump to")]
    NoTarget(String),
    /// `-N` of a chain that is there.
    #[error("chain `{0}` exists already")]
    ChainExists(String),
    /// `-X` of a chain that still has rules.
    #[error("chain `{0}` is not empty")]
    NotEmpty(String),
    /// `-X` of a chain that rules still jump to.
    #[error("chain `{0}` is still referenced")]
    Referenced(String),
    /// `-D` of a rule that is not in the chain.
    #[error("no such rule in chain `{0}`")]
    NoRule(String),
    /// A rule number beyond the end of the chain.
    #[error("no rule number {number} in chain `{chain}`")]
    NoPosition {
        /// Where it was looked for.
        chain: String,
        /// Counted from 1.
        number: usize,
    },
}

/// A save that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} cannot be read: {reason}")]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: Reason,
}

/// A payload that `iptables-restore` would not take. Tables committed before `line` stay so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} refused: {reason}")]
pub struct Refused {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: Reason,
}
