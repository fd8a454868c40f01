//! Errors of reading rules.

/// Reason for which one line is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("unterminated quote")]
    UnterminatedQuote,
    /// A word that is neither an option nor the value of one.
    #[error("unexpected `{0}`")]
    UnexpectedWord(String),
    #[error("`{0}` requires a value")]
    MissingValue(String),
    /// Not an address or network; host names and lists of addresses are not resolved.
    #[error("`{0}` is not a valid address")]
    InvalidAddress(String),
    #[error("command outside of a table")]
    OutsideTable,
    /// The text ends inside a table, or another table begins there.
    #[error("COMMIT expected")]
    MissingCommit,
    #[error("unknown command `{0}`")]
    UnknownCommand(String),
    /// A chain with the name of a verdict, an unknown policy, or the deletion of a built-in chain.
    #[error("invalid declaration, policy or deletion of chain `{0}`")]
    InvalidChain(String),
    #[error("chain `{0}` does not exist")]
    ChainNotFound(String),
}

/// Error of parsing the output of `iptables-save`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read line {line}: {reason}")]
pub struct ParseError {
    /// Line number, counted from 1.
    pub line: usize,
    pub reason: LineError,
}
