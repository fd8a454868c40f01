//! Errors of reading a save and of applying a payload.
//!
//! Both report the same reasons for a line. They are two types because a save that cannot be
//! parsed is invalid input, whereas a rejected payload is an error of the program that wrote it.

use super::table::MAX_CHAIN_NAME;

/// Reason for which one line is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// A `"` without its partner.
    #[error("unterminated quote")]
    UnterminatedQuote,
    /// A word that is neither an option nor the value of one.
    #[error("unexpected `{0}`")]
    UnexpectedWord(String),
    /// An option without its value.
    #[error("`{0}` requires a value")]
    MissingValue(String),
    /// Not an address or network; host names and lists of addresses are not resolved.
    #[error("`{0}` is not a valid address")]
    InvalidAddress(String),
    /// A rule or a chain outside `*table` and `COMMIT`.
    #[error("command outside of a table")]
    OutsideTable,
    /// The text ends inside a table, or another table begins there.
    #[error("COMMIT expected")]
    MissingCommit,
    /// Not a command of `iptables-restore`.
    #[error("unknown command `{0}`")]
    UnknownCommand(String),
    /// The name does not fit into the structures of the kernel.
    #[error("chain name `{0}` is longer than {MAX_CHAIN_NAME} bytes")]
    LongChainName(String),
    /// A chain with the name of a verdict, a user chain with a policy, an unknown policy, or the
    /// deletion of a built-in chain.
    #[error("invalid declaration, policy or deletion of chain `{0}`")]
    InvalidChain(String),
    /// The chain of the command does not exist.
    #[error("chain `{0}` does not exist")]
    ChainNotFound(String),
    /// The rule jumps to a chain that does not exist or is built in.
    #[error("cannot jump to chain `{0}`: it does not exist or is built in")]
    TargetNotFound(String),
    /// `-N` of a chain that exists.
    #[error("chain `{0}` already exists")]
    ChainExists(String),
    /// `-X` of a chain that still has rules.
    #[error("chain `{0}` is not empty")]
    ChainNotEmpty(String),
    /// `-X` of a chain that rules still jump to.
    #[error("chain `{0}` is still referenced")]
    ChainReferenced(String),
    /// `-D` of a rule that is not in the chain.
    #[error("no such rule in chain `{0}`")]
    RuleNotFound(String),
    /// A rule number beyond the end of the chain.
    #[error("no rule number {number} in chain `{chain}`")]
    RuleNumberNotFound {
        chain: String,
        /// Rule number, counted from 1.
        number: usize,
    },
}

/// Error of parsing the output of `iptables-save`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read line {line}: {reason}")]
pub struct ParseError {
    /// Line number, counted from 1.
    pub line: usize,
    /// Reason for which the line is rejected.
    pub reason: LineError,
}

/// Error of applying a payload that `iptables-restore` would reject too. Tables committed before
/// `line` stay committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} rejected: {reason}")]
pub struct ApplyError {
    /// Line number, counted from 1.
    pub line: usize,
    /// Reason for which the line is rejected.
    pub reason: LineError,
}

impl From<ApplyError> for ParseError {
    fn from(ApplyError { line, reason }: ApplyError) -> Self {
        Self { line, reason }
    }
}
