//! Diagnostics: parts of objects that are ignored, with the reason, for the shell to log.

use std::fmt;

use super::metadata::Metadata;
use crate::model::Kind;

/// Part of an object that is ignored. Text from an object in it is escaped and shortened (see
/// `quoted`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// Kind of the object.
    pub kind: Kind,
    /// `namespace/name`, or the name of a Node.
    pub object: String,
    /// Path of the field, as in `spec.ports[1].port`.
    pub field: String,
    /// Error and its consequence.
    pub problem: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, object) = (self.kind.as_str(), &self.object);
        write!(f, "{kind} `{object}`: {}: {}", self.field, self.problem)
    }
}

/// Collects the diagnostics of one object; allocates its name only for the first.
pub(super) struct DiagnosticList<'a> {
    kind: Kind,
    metadata: &'a Metadata,
    list: Vec<Diagnostic>,
    /// Number of diagnostics after the list was full.
    more: usize,
}

/// Problem of an address that [`is_unroutable`](crate::net::is_unroutable).
pub(super) const UNROUTABLE_ADDRESS: &str = "is unspecified, loopback or link-local";

/// Maximum diagnostics of one object: its author can write an object with ten thousand invalid
/// ports again and again, and a log line for each would hide all other lines.
const MAX_DIAGNOSTICS: usize = 20;

impl<'a> DiagnosticList<'a> {
    pub(super) fn new(kind: Kind, metadata: &'a Metadata) -> Self {
        Self {
            kind,
            metadata,
            list: Vec::new(),
            more: 0,
        }
    }

    pub(super) fn note(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        if self.list.len() < MAX_DIAGNOSTICS {
            self.push(field.into(), problem.into());
        } else {
            self.more += 1;
        }
    }

    pub(super) fn into_list(mut self) -> Vec<Diagnostic> {
        if self.more > 0 {
            let problem = format!("{} more problems are not listed", self.more);
            self.push("...".to_owned(), problem);
        }
        self.list
    }

    fn push(&mut self, field: String, problem: String) {
        self.list.push(Diagnostic {
            kind: self.kind,
            object: self.object(),
            field,
            problem,
        });
    }

    fn object(&self) -> String {
        let name = shown(&self.metadata.name);
        match self.metadata.namespace.as_str() {
            "" => name,
            namespace => format!("{}/{name}", shown(namespace)),
        }
    }
}

/// Returns `text` between backticks, on one line.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", shown(text))
}

/// Escapes control characters and shortens long text.
fn shown(text: &str) -> String {
    /// Maximum length in characters: longer than any valid address or name of a Service.
    const LONGEST: usize = 80;

    let mut out: String = text
        .chars()
        .take(LONGEST)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
#[path = "tests/diagnostic.rs"]
mod tests;
