//! Problems of the fields of an object, with error messages in the form of an API server, and the
//! search for unknown fields and values of wrong types by the types of the API.
//!
//! These are the types of `k8s_openapi`, which are generated from the API, so that no list of
//! fields is needed here.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/util/validation/field, errors.go, `ErrorBody` (v1.37)

use std::cell::Cell;
use std::fmt::{self, Display};
use std::iter;

use serde::de::value::{Error as NamesError, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde_json::{Map, Value};

/// Part of the path of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldSegment {
    Name(String),
    /// Counted from 0.
    Index(usize),
}

/// Path of a field, as in `spec.ports[0].port`. Empty for the object itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldPath(pub(crate) Vec<FieldSegment>);

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
pub(super) struct FieldProblem {
    /// Path of the field, to find its line.
    pub(super) path: FieldPath,
    /// Path and error, on one line.
    pub(super) text: String,
    pub(super) kind: FieldProblemKind,
}

/// Kind of an error about a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldProblemKind {
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
pub(super) const RENDER_FIRST: &str = "render it first with `helm template`";

/// Reports whether a text has an expression of a Helm template.
pub(super) fn is_helm_template(text: &str) -> bool {
    text.contains("{{") && text.contains("}}")
}

/// Problems of one object: values of wrong types, then unknown fields, then other invalid values.
#[derive(Debug, Default)]
pub(super) struct Problems(pub(crate) Vec<FieldProblem>);

impl Problems {
    pub(super) fn add(&mut self, path: &str, error: impl Display) {
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

    pub(super) fn add_invalid(&mut self, path: &str, value: impl fmt::Debug, detail: &str) {
        self.add(path, format_args!("Invalid value: {value:?}: {detail}"));
    }

    /// Adds a problem unless `value` is absent, empty, or one of the `supported` ones.
    pub(super) fn check_supported(&mut self, path: &str, value: Option<&str>, supported: &[&str]) {
        let Some(value) = value.filter(|one| !one.is_empty() && !supported.contains(one)) else {
            return;
        };
        let supported: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let supported = supported.join(", ");
        let error = format_args!("Unsupported value: {value:?}: supported values: {supported}");
        self.add_of(FieldProblemKind::UnsupportedValue, path, error);
    }

    /// Adds a problem unless `number` is a port.
    pub(super) fn check_port(&mut self, path: &str, number: i32) {
        if !(1..=65535).contains(&number) {
            self.add_invalid(path, number, "must be between 1 and 65535, inclusive");
        }
    }
}

/// Maximum values of wrong types that are reported for one object.
const MAX_WRONG_TYPES: usize = 20;

/// Decodes an object as `T`, and collects its unknown fields and values of wrong types. Returns
/// the object with empty values in place of the latter; `None` if there are too many, if the place
/// of one is unknown, or if an empty value is wrong as well.
pub(crate) fn decode<T: DeserializeOwned>(object: &Value, problems: &mut Problems) -> Option<T> {
    let mut object = object.clone();
    for _ in 0..MAX_WRONG_TYPES {
        match serde_path_to_error::deserialize(&object) {
            Ok(decoded) => {
                add_unknown::<T>(&object, &mut FieldPath::default(), problems);
                return Some(decoded);
            }
            Err(error) => {
                let path = wrong_path(error.path());
                if problems.0.last().is_some_and(|last| last.path == path) {
                    return None;
                }
                let Some(value) = value_at(&mut object, &path) else {
                    problems.add("", error.inner());
                    return None;
                };
                let (expected, empty) = expected(error.inner());
                problems.0.push(wrong_type(path, value, expected));
                *value = empty;
            }
        }
    }
    None
}

/// Adds the fields of a value at `path` that no struct of `T` has.
fn add_unknown<T: DeserializeOwned>(value: &Value, path: &mut FieldPath, problems: &mut Problems) {
    match value {
        Value::Object(entries) => {
            let known = field_names::<T>(&path.0);
            for (name, value) in entries {
                path.0.push(FieldSegment::Name(name.clone()));
                // The keys of a map, such as labels, are no fields.
                if known.is_empty() || known.contains(&name.as_str()) {
                    add_unknown::<T>(value, path, problems);
                } else {
                    problems.0.push(unknown_field(path, name, known));
                }
                path.0.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.0.push(FieldSegment::Index(index));
                add_unknown::<T>(item, path, problems);
                path.0.pop();
            }
        }
        _ => {}
    }
}

/// Describes an unknown field, with the name of the nearest one that the same object may have.
fn unknown_field(path: &FieldPath, name: &str, known: &[&str]) -> FieldProblem {
    const MAX_EDITS: usize = 3;

    let lower = name.to_ascii_lowercase();
    let edits = |known: &str| strsim::osa_distance(&known.to_ascii_lowercase(), &lower);
    let nearest = known.iter().map(|known| (edits(known), *known)).min();
    let hint = match nearest {
        _ if name.starts_with('$') => {
            ": this is a patch, as kustomize uses, and not a manifest".to_owned()
        }
        Some((edits, nearest)) if edits <= MAX_EDITS && edits * 3 <= name.len() => {
            format!(" (did you mean \"{nearest}\"?)")
        }
        _ => String::new(),
    };
    FieldProblem {
        text: format!("unknown field \"{path}\"{hint}"),
        path: path.clone(),
        kind: FieldProblemKind::UnknownField,
    }
}

/// Returns the fields of the struct at a path in `T`; none if the path leads to no struct.
fn field_names<T: DeserializeOwned>(path: &[FieldSegment]) -> &'static [&'static str] {
    let names = Cell::default();
    let recorder = FieldNames {
        path,
        names: &names,
    };
    // Always fails: only the names are of interest.
    let _ = T::deserialize(recorder);
    names.get()
}

/// Deserializer that follows a path through a type, and records the fields of the struct at its
/// end.
#[derive(Clone, Copy)]
struct FieldNames<'a> {
    path: &'a [FieldSegment],
    names: &'a Cell<&'static [&'static str]>,
}

impl<'de> Deserializer<'de> for FieldNames<'de> {
    type Error = NamesError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NamesError> {
        Err(NamesError::custom("no field has this path"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NamesError> {
        visitor.visit_some(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NamesError> {
        if self.path.is_empty() {
            self.names.set(fields);
        }
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NamesError> {
        match self.path.split_first() {
            Some((FieldSegment::Name(name), path)) => {
                let entry = (name.as_str(), Self { path, ..self });
                visitor.visit_map(MapDeserializer::new(iter::once(entry)))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NamesError> {
        match self.path.split_first() {
            Some((FieldSegment::Index(_), path)) => {
                let item = Self { path, ..self };
                visitor.visit_seq(SeqDeserializer::new(iter::once(item)))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct tuple tuple_struct enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, NamesError> for FieldNames<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Returns the type that serde expected, and its empty value.
fn expected(error: &serde_json::Error) -> (&'static str, Value) {
    let error = error.to_string();
    let names_type = error.starts_with("invalid type: ") || error.starts_with("invalid value: ");
    let expected = error.rsplit_once("expected ").filter(|_| names_type);
    match expected.map(|(_, expected)| expected) {
        Some("i32" | "i64" | "u32" | "u64" | "int") => ("an integer", Value::from(0)),
        Some("a string") => ("a string", Value::from("")),
        Some("a boolean") => ("true or false", Value::from(false)),
        Some("a sequence") => ("an array", Value::Array(Vec::new())),
        Some("a map") => ("a map", Value::Object(Map::new())),
        Some("IntOrString") => ("an integer or a string", Value::from(0)),
        Some("a 32-bit integer") => ("a 32-bit integer", Value::from(0)),
        None if error.starts_with("missing field ") => (
            "an object with all required fields",
            Value::Object(Map::new()),
        ),
        // `None`: text that is not a time, the only value whose error names no type.
        Some("a timestamp string") | None => (
            "a time in the format of RFC 3339",
            Value::from("1970-01-01T00:00:00Z"),
        ),
        // For an object, the error has the name of its type in the API.
        Some(_) => ("an object", Value::Object(Map::new())),
    }
}

fn wrong_type(path: FieldPath, value: &Value, expected: &str) -> FieldProblem {
    let value = match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => shortened(&other.to_string()),
    };
    FieldProblem {
        text: format!("{path}: expected {expected}, got {value}"),
        path,
        kind: FieldProblemKind::WrongType,
    }
}

fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 80;

    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn value_at<'v>(object: &'v mut Value, path: &FieldPath) -> Option<&'v mut Value> {
    if path.0.is_empty() {
        return None;
    }
    path.0
        .iter()
        .try_fold(object, |value, segment| match segment {
            FieldSegment::Name(name) => value.get_mut(name),
            FieldSegment::Index(index) => value.get_mut(index),
        })
}

fn wrong_path(path: &serde_path_to_error::Path) -> FieldPath {
    use serde_path_to_error::Segment;

    let segments = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(FieldSegment::Index(*index)),
        Segment::Map { key } => Some(FieldSegment::Name(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    FieldPath(segments.collect())
}

#[cfg(test)]
#[path = "tests/problem.rs"]
mod problem_tests;

#[cfg(test)]
#[path = "tests/schema.rs"]
mod tests;
