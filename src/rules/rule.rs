//! One rule in normal form: what we write and what the kernel prints back compare equal.
//!
//! Apart because the whole reading side is about it: rule sets hold it, `diff` compares it and
//! the tracer walks over it.
//!
//! # Invariants
//!
//! - Matches are sorted by name; matches of one name keep their order.
//! - Conditions that are always true, such as `-s 0.0.0.0/0`, `-p all` and `-i +`, are absent.
//! - A rule prints as a spec that reads back as the same rule. Defaults that are spelled
//!   differently per family (`--reject-with`, the mask of `recent`) are not printed, so a rule
//!   need not know its family.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::condition::Negatable;
use super::matches::{Extension, Match};
use super::network::Network;
use super::reason::Reason;
use super::spec;
use super::target::Target;
use super::token::Word;

/// A rule without the chain that it is in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rule {
    /// `-s`.
    pub source: Option<Negatable<Network>>,
    /// `-d`.
    pub destination: Option<Negatable<Network>>,
    /// `-i`, perhaps with a final `+`.
    pub in_interface: Option<Negatable<Box<str>>>,
    /// `-o`, perhaps with a final `+`.
    pub out_interface: Option<Negatable<Box<str>>>,
    /// `-p`, by name where there is a common one.
    pub protocol: Option<Negatable<Cow<'static, str>>>,
    /// Every `-m`.
    pub matches: Vec<Match>,
    /// `-j` or `-g`; without one the rule only counts.
    pub target: Option<Target>,
}

impl Rule {
    /// The text of its first comment.
    pub fn comment(&self) -> Option<&str> {
        self.matches.iter().find_map(|one| match one {
            Match::Comment(text) => Some(text.as_ref()),
            _ => None,
        })
    }

    /// A rule of which nothing is known but its text: a target never heard of.
    pub(super) fn opaque(spec: &str) -> Self {
        let (name, options) = (Box::default(), spec.trim().into());
        Self {
            target: Some(Target::Other(Extension { name, options })),
            ..Self::default()
        }
    }

    /// Whether nothing is known of it but its text.
    pub fn is_opaque(&self) -> bool {
        matches!(&self.target, Some(Target::Other(extension)) if extension.name.is_empty())
    }

    /// The chain that it leads to, if any.
    pub fn target_chain(&self) -> Option<&str> {
        self.target.as_ref().and_then(Target::chain)
    }
}

impl FromStr for Rule {
    type Err = Reason;

    /// Reads what follows `-A CHAIN`; counters before it are skipped.
    fn from_str(text: &str) -> Result<Self, Reason> {
        spec::read(without_counters(text))
    }
}

/// The line without the `[packets:bytes]` that a save with counters begins with.
pub(super) fn without_counters(line: &str) -> &str {
    let line = line.trim_start();
    line.strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .map_or(line, |(_, rest)| rest.trim_start())
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pen = Pen { f, blank: "" };
        pen.condition("-s", self.source.as_ref())?;
        pen.condition("-d", self.destination.as_ref())?;
        pen.interface("-i", self.in_interface.as_ref())?;
        pen.interface("-o", self.out_interface.as_ref())?;
        pen.condition("-p", self.protocol.as_ref())?;
        for one in &self.matches {
            pen.part(one)?;
        }
        match &self.target {
            Some(target) => pen.part(target),
            None => Ok(()),
        }
    }
}

/// Writes parts with one blank between them.
struct Pen<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    blank: &'static str,
}

impl Pen<'_, '_> {
    fn part(&mut self, part: impl fmt::Display) -> fmt::Result {
        write!(self.f, "{}{part}", self.blank)?;
        self.blank = " ";
        Ok(())
    }

    fn interface(&mut self, option: &str, asked: Option<&Negatable<Box<str>>>) -> fmt::Result {
        match asked {
            Some(asked) => {
                let name = Word(&asked.value);
                self.part(format_args!("{}{option} {name}", asked.prefix()))
            }
            None => Ok(()),
        }
    }

    fn condition<T: fmt::Display>(
        &mut self,
        option: &str,
        asked: Option<&Negatable<T>>,
    ) -> fmt::Result {
        match asked {
            Some(asked) => self.part(format_args!("{}{option} {}", asked.prefix(), asked.value)),
            None => Ok(()),
        }
    }
}
