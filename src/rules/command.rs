//! One line of a payload as a command.
//!
//! Apart from [`stage`](super::stage) so that reading a line and obeying it are two things: the
//! first can be wrong by itself, the second only in the light of the chains there are.

use super::chain::Policy;
use super::reason::Reason;
use super::rule::{Rule, without_counters};
use super::stage::Origin;
use super::token::MAX_CHAIN_NAME;

/// A line inside a table.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    /// `:CHAIN policy`: there and, unless built in, empty from now on.
    Declare(&'a str, Option<Policy>),
    /// `-A`.
    Append(&'a str, Rule),
    /// `-I`, before the rule of that number; counted from 1.
    Insert(&'a str, usize, Rule),
    /// `-R`.
    Replace(&'a str, usize, Rule),
    /// `-D` with a rule.
    Delete(&'a str, Rule),
    /// `-D` with a number.
    DeleteAt(&'a str, usize),
    /// `-F`; without a chain it means all of them.
    Flush(Option<&'a str>),
    /// `-X`; without a chain it means all but the built-in ones.
    Remove(Option<&'a str>),
    /// `-N`.
    New(&'a str),
    /// `-P`.
    SetPolicy(&'a str, Policy),
    /// Lists or zeroes counters: nothing that rules would show.
    Nothing,
}

/// Reads one line. `line` is neither empty nor a comment, `*table` or `COMMIT`.
pub(super) fn read(line: &str, origin: Origin) -> Result<Command<'_>, Reason> {
    if let Some(declared) = line.strip_prefix(':') {
        return declare(declared, origin);
    }
    let (verb, rest) = split_word(without_counters(line));
    let (chain, rest) = split_word(rest);
    match verb {
        "-F" | "--flush" => return Ok(Command::Flush(named(chain))),
        "-X" | "--delete-chain" => return Ok(Command::Remove(named(chain))),
        "-S" | "--list-rules" | "-L" | "--list" | "-Z" | "--zero" => return Ok(Command::Nothing),
        _ if chain.is_empty() => return Err(Reason::BadCommand(line.to_owned())),
        _ => {}
    }
    let (number, after_number) = split_number(rest);
    Ok(match verb {
        "-A" | "--append" => Command::Append(chain, appended(rest, origin)?),
        "-I" | "--insert" => Command::Insert(chain, number.unwrap_or(1), after_number.parse()?),
        "-R" | "--replace" => {
            let number = number.ok_or_else(|| Reason::NoValue(verb.to_owned()))?;
            Command::Replace(chain, number, after_number.parse()?)
        }
        "-D" | "--delete" => match number {
            Some(number) => Command::DeleteAt(chain, number),
            None => Command::Delete(chain, rest.parse()?),
        },
        "-N" | "--new-chain" => Command::New(new_name(chain)?),
        "-P" | "--policy" => {
            let policy = Policy::read(rest).ok_or_else(|| Reason::BadChain(chain.to_owned()))?;
            Command::SetPolicy(chain, policy)
        }
        _ => return Err(Reason::BadCommand(verb.to_owned())),
    })
}

/// What the kernel holds cannot be wrong, only unknown.
fn appended(spec: &str, origin: Origin) -> Result<Rule, Reason> {
    match (spec.parse(), origin) {
        (Err(_), Origin::Kernel) => Ok(Rule::opaque(spec)),
        (read, _) => read,
    }
}

fn declare(text: &str, origin: Origin) -> Result<Command<'_>, Reason> {
    let (chain, rest) = split_word(text);
    let (policy, _counters) = split_word(rest);
    let policy = match policy {
        "" => return Err(Reason::NoValue(format!(":{chain}"))),
        "-" => None,
        other => Some(Policy::read(other).ok_or_else(|| Reason::BadChain(chain.to_owned()))?),
    };
    match origin {
        // Other programs, and older ones, take names that `iptables-restore` does not.
        Origin::Kernel => Ok(Command::Declare(chain, policy)),
        Origin::Payload => Ok(Command::Declare(new_name(chain)?, policy)),
    }
}

/// Checks the name of a chain that may come into being.
fn new_name(chain: &str) -> Result<&str, Reason> {
    if chain.len() > MAX_CHAIN_NAME {
        return Err(Reason::LongName(chain.to_owned()));
    }
    let is_verdict = matches!(chain, "ACCEPT" | "DROP" | "RETURN" | "QUEUE");
    if chain.is_empty() || is_verdict || chain.starts_with(['-', '!']) {
        return Err(Reason::BadChain(chain.to_owned()));
    }
    Ok(chain)
}

fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once([' ', '\t'])
        .map_or((text, ""), |(word, rest)| (word, rest.trim()))
}

fn split_number(text: &str) -> (Option<usize>, &str) {
    let (word, rest) = split_word(text);
    match word.parse() {
        Ok(number) => (Some(number), rest),
        Err(_) => (None, text),
    }
}

fn named(chain: &str) -> Option<&str> {
    (!chain.is_empty()).then_some(chain)
}
