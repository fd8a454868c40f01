//! Problems of a configuration, collected so that all of them are reported at once, and notes on
//! one that can be used.
//!
//! Each problem names the place where it was written, a flag or a field of the file.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::kube_proxy::Unreadable;
use super::settings;
use crate::text::on_lines;

/// Problem of one flag or field, or of several flags together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Flag with its dashes, or file and path of a field; empty if the text names several flags.
    pub place: String,
    /// Error in standard form, on one line.
    pub problem: String,
    /// Action that solves the problem, beginning with a verb; empty if the error implies it.
    pub hint: String,
}

impl ConfigProblem {
    fn new(place: String, problem: impl Into<String>) -> Self {
        Self {
            place,
            problem: problem.into(),
            hint: String::new(),
        }
    }

    pub(super) fn of_flag(flag: &str, problem: impl Into<String>) -> Self {
        Self::new(format!("--{flag}"), problem)
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.problem)?;
        if !self.hint.is_empty() {
            write!(f, "\nhint: {}", self.hint)?;
        }
        Ok(())
    }
}

/// Error for flags or a file that cannot be used. Nothing on the node was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", on_lines(problems))]
pub struct Unusable {
    /// At least one problem.
    pub problems: Vec<ConfigProblem>,
    /// Notes on other settings, which are usable.
    pub notes: Vec<ConfigNote>,
}

impl Unusable {
    /// Creates an error with one problem of one flag.
    pub fn of_flag(flag: &str, problem: String) -> Self {
        Self {
            problems: vec![ConfigProblem::of_flag(flag, problem)],
            notes: Vec::new(),
        }
    }

    /// Creates an error with one problem of an argument that is no flag.
    #[cfg(feature = "tools")]
    pub(super) fn of_argument(name: &str, problem: String) -> Self {
        Self {
            problems: vec![ConfigProblem::new(name.to_owned(), problem)],
            notes: Vec::new(),
        }
    }

    /// Creates the error for a missing source of objects outside of a Pod.
    pub fn without_source() -> Self {
        let problem = "no source of Services: not running in a Pod with a service account";
        let mut problem = ConfigProblem::new(String::new(), problem);
        "use --kubeconfig FILE or --manifests PATH".clone_into(&mut problem.hint);
        Self {
            problems: vec![problem],
            notes: Vec::new(),
        }
    }
}

/// Note on a configuration that can be used, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigNote {
    /// Setting that should be corrected, such as an unknown one.
    Warning(String),
    /// Fact that needs no action now.
    Note(String),
}

impl ConfigNote {
    pub fn text(&self) -> &str {
        match self {
            Self::Warning(text) | Self::Note(text) => text,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ConfigProblems {
    /// File that the fields are from; `None` if they are from flags.
    file: Option<PathBuf>,
    found: Vec<ConfigProblem>,
}

impl ConfigProblems {
    /// Creates an empty collector for the fields of a file, or of flags.
    pub(super) fn of(file: Option<&Path>) -> Self {
        Self {
            file: file.map(Path::to_owned),
            found: Vec::new(),
        }
    }

    /// Reports whether fields are from a file.
    pub(super) const fn is_of_file(&self) -> bool {
        self.file.is_some()
    }

    pub(super) fn add(&mut self, path: &str, problem: impl Into<String>) {
        let place = match &self.file {
            Some(file) => format!("`{}`: {path}", file.display()),
            None => self.name(path),
        };
        self.found.push(ConfigProblem::new(place, problem));
    }

    pub(super) fn add_with_hint(&mut self, path: &str, problem: String, hint: &str) {
        self.add(path, problem);
        if let Some(last) = self.found.last_mut() {
            hint.clone_into(&mut last.hint);
        }
    }

    /// Records a problem of a flag that has no field.
    pub(super) fn add_flag(&mut self, flag: &str, problem: impl Into<String>) {
        self.found.push(ConfigProblem::of_flag(flag, problem));
    }

    pub(super) fn extend(&mut self, problems: &[ConfigProblem]) {
        self.found.extend_from_slice(problems);
    }

    /// Records two flags without fields that cannot be used together.
    pub(super) fn add_exclusive(&mut self, flags: [&str; 2], hint: &str) {
        let [first, second] = flags;
        let problem = format!("--{first} and --{second} are mutually exclusive");
        let mut problem = ConfigProblem::new(String::new(), problem);
        hint.clone_into(&mut problem.hint);
        self.found.push(problem);
    }

    /// Returns the name of a field where it was written: its path in a file, otherwise its flag.
    pub(super) fn name(&self, path: &str) -> String {
        match self.file {
            Some(_) => path.to_owned(),
            None => settings::flag_or_path(path),
        }
    }

    /// Records that the file cannot be read at all.
    pub(super) fn add_file(&mut self, unreadable: Unreadable) {
        let file = self.file.as_deref().unwrap_or(Path::new("")).display();
        match unreadable {
            Unreadable::Text(error) => {
                let line = error.line.map(|line| format!(", line {line}"));
                let place = format!("`{file}`{}", line.unwrap_or_default());
                self.found.push(ConfigProblem::new(place, error.reason));
            }
            Unreadable::Field(wrong) => self.add(&wrong.path, wrong.error),
        }
    }

    /// Returns the value, or records the problem of a field.
    pub(super) fn keep<T>(&mut self, path: &str, of: Result<T, String>) -> Option<T> {
        of.map_err(|problem| self.add(path, problem)).ok()
    }

    /// Reports whether a number is within limits, and records a problem if it is not.
    pub(super) fn within(
        &mut self,
        path: &str,
        number: i32,
        limits: std::ops::RangeInclusive<i32>,
    ) -> bool {
        let is_within = limits.contains(&number);
        if !is_within {
            let (from, to) = limits.into_inner();
            let limits = if to == i32::MAX {
                format!("{from} or more")
            } else {
                format!("from {from} to {to}")
            };
            self.add(path, format!("must be {limits}, got {number}"));
        }
        is_within
    }

    /// Returns the value, or all recorded problems.
    pub(super) fn unless_any<T>(self, value: Option<T>) -> Result<T, Unusable> {
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ => Err(Unusable {
                problems: self.found,
                notes: Vec::new(),
            }),
        }
    }
}

/// Describes a word that is not one of the known ones.
pub(super) fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    let similar = known.iter().find(|known| known.eq_ignore_ascii_case(word));
    match (similar, known) {
        (Some(similar), _) => format!("unknown {what} `{word}`; did you mean `{similar}`?"),
        (None, [rest @ .., last]) if !rest.is_empty() => {
            format!(
                "unknown {what} `{word}`: must be {} or {last}",
                rest.join(", ")
            )
        }
        (None, _) => format!("unknown {what} `{word}`: must be {}", known.join("")),
    }
}

/// Names that a note lists: enough to see what is wrong, and few enough for a line of a log.
pub(super) const MOST_LISTED: usize = 10;

/// Returns a name of an untrusted file at a length that no known name exceeds: the longest name of
/// a gate or path of a field has about 60 characters.
pub(super) fn shortened(name: &str) -> String {
    crate::ingest::shortened(name, 100).into_owned()
}

/// Rewrites an error of clap about the value of a flag, or about two flags that exclude each
/// other, in the form of all other problems. Any other error only gets the quotes of these. Help
/// and the version, which are errors to clap, are unchanged.
pub(super) fn in_standard_form(error: clap::Error) -> clap::Error {
    if let Some(text) = standard_form(&error) {
        return clap::Error::raw(error.kind(), format!("{text}\n"));
    }
    match error.to_string().strip_prefix("error: ") {
        Some(text) => clap::Error::raw(error.kind(), with_backticks(text)),
        None => error,
    }
}

/// Replaces the single quotes around words. An apostrophe within a word stays.
fn with_backticks(text: &str) -> String {
    let is_outside =
        |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || matches!(c, ',' | '.' | ':'));
    let mut before = None;
    let mut characters = text.chars().peekable();
    let mut replaced = String::with_capacity(text.len());
    while let Some(c) = characters.next() {
        let is_quote = c == '\'' && (is_outside(before) || is_outside(characters.peek().copied()));
        replaced.push(if is_quote { '`' } else { c });
        before = Some(c);
    }
    replaced
}

fn standard_form(error: &clap::Error) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    // Flags are shown with the name of their value, as in `--v <LEVEL>` or `--cleanup[=<BOOL>]`.
    let name = |arg: &'_ str| arg.split([' ', '[']).next().map(str::to_owned);
    let flag = name(context(ContextKind::InvalidArg)?).filter(|flag| flag.starts_with('-'))?;
    match error.kind() {
        ErrorKind::ValueValidation => {
            let cause = error.source()?.to_string();
            let value = context(ContextKind::InvalidValue)?;
            Some(if cause.contains(value) {
                format!("{flag}: {cause}")
            } else {
                format!("{flag}: `{value}` is not valid: {cause}")
            })
        }
        ErrorKind::ArgumentConflict => {
            let prior = name(context(ContextKind::PriorArg)?)?;
            (prior != flag).then(|| format!("{flag} and {prior} are mutually exclusive"))
        }
        _ => None,
    }
}
