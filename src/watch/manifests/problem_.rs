//! Problems of the fields of one object, with error messages in the form of the API server.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/util/validation/field, errors.go, `ErrorBody` (v1.37)

use std::fmt::{self, Display};

/// Part of the path of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldSegment {
    Name(String),
    /// Counted from 0.
    Index(usize),
}

/// Path of a field, as in `spec.ports[0].port`. Empty for the object itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldPath(pub(crate) Vec<FieldSegment>);

impl FieldPath {
    /// Parses the form that is displayed. No name in it may contain a dot.
    fn parse(text: &str) -> Self {
        let mut segments = Vec::new();
        for part in text.split('.').filter(|part| !part.is_empty()) {
            let (name, indexes) = part.split_once('[').unwrap_or((part, ""));
            segments.push(FieldSegment::Name(name.to_owned()));
            let indexes = indexes.split(['[', ']']);
            segments
                .extend(indexes.filter_map(|index| index.parse().map(FieldSegment::Index).ok()));
        }
        Self(segments)
    }
}

impl Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                FieldSegment::Name(name) if position == 0 => f.write_str(name)?,
                FieldSegment::Name(name) => write!(f, ".{name}")?,
                FieldSegment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Error about one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldProblem {
    /// Path of the field, to find its line.
    pub(crate) path: FieldPath,
    /// Path and error, on one line.
    pub(crate) text: String,
    pub(crate) kind: FieldProblemKind,
}

/// Kind of an error about a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldProblemKind {
    /// The API has no such field.
    UnknownField,
    /// The value is of another type than the field.
    WrongType,
    /// The field has a fixed set of values, which lacks this one.
    UnsupportedValue,
    /// Any other value that rules cannot come from, such as a port above 65535.
    InvalidValue,
}

/// Hint for a Helm template.
pub(crate) const RENDER_FIRST: &str = "render it first with `helm template`";

/// Reports whether a text has an expression of a Helm template.
pub(crate) fn is_helm_template(text: &str) -> bool {
    text.contains("{{") && text.contains("}}")
}

/// Problems of one object: values of wrong types, then unknown fields, then other invalid values.
#[derive(Debug, Default)]
pub(crate) struct Problems(pub(crate) Vec<FieldProblem>);

impl Problems {
    pub(crate) fn add(&mut self, path: &str, error: impl Display) {
        self.add_of(FieldProblemKind::InvalidValue, path, error);
    }

    fn add_of(&mut self, kind: FieldProblemKind, path: &str, error: impl Display) {
        self.0.push(FieldProblem {
            path: FieldPath::parse(path),
            text: match path {
                "" => error.to_string(),
                path => format!("{path}: {error}"),
            },
            kind,
        });
    }

    pub(crate) fn add_invalid(&mut self, path: &str, value: impl fmt::Debug, detail: &str) {
        self.add(path, format_args!("Invalid value: {value:?}: {detail}"));
    }

    /// Adds a problem unless `value` is absent, empty, or one of the `supported` ones.
    pub(crate) fn check_supported(&mut self, path: &str, value: Option<&str>, supported: &[&str]) {
        let Some(value) = value.filter(|one| !one.is_empty() && !supported.contains(one)) else {
            return;
        };
        let supported: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let supported = supported.join(", ");
        let error = format_args!("Unsupported value: {value:?}: supported values: {supported}");
        self.add_of(FieldProblemKind::UnsupportedValue, path, error);
    }

    /// Adds a problem unless `number` is a port.
    pub(crate) fn check_port(&mut self, path: &str, number: i32) {
        if !(1..=65535).contains(&number) {
            self.add_invalid(path, number, "must be between 1 and 65535, inclusive");
        }
    }
}

#[cfg(test)]
#[path = "tests/problem.rs"]
mod tests;
