//! Kinds of settings: how the text of a flag becomes the value of a field, and a line of `/flagz`.

use std::fmt;
use std::ops::RangeInclusive;

use clap::builder::PossibleValuesParser;
use serde::Serialize;
use serde_json::Value;

use crate::config::go::{self, GoDuration};
use crate::config::kube_proxy::{Quantity, VModule};

/// Type of a setting. The text in a variant stands for the value in help, as `FILE` does.
#[derive(Debug, Clone, Copy)]
pub(in crate::config) enum SettingKind {
    /// Boolean as in Go. The flag alone means true.
    Bool,
    /// Flag without a value.
    Switch,
    /// Integer of 32 bits as in Go.
    Int(&'static str),
    /// Integer within these limits.
    Within(&'static str, [u32; 2]),
    /// Number with a fraction.
    Number,
    /// Port, or 0.
    Port,
    /// Duration as in Go.
    Duration,
    /// Kubernetes quantity.
    Quantity,
    /// Any text.
    Text(&'static str),
    /// Any text except an empty one, which counts as absent.
    FilledText(&'static str),
    /// Name of a Node. It is trimmed and in lower case in the field, but not in `/flagz`.
    NodeName,
    /// Path of a file or a folder.
    Path(&'static str),
    /// Path that must not be given twice. Other flags take the last value, but this one would
    /// silently ignore a source of objects.
    OnePath(&'static str),
    /// List with commas. A repeated flag extends it.
    List(&'static str),
    /// Feature gates. Those of repeated flags are merged; of one name the last value counts.
    Gates,
    /// Verbosities of source files. Those of the flag are put before those of a file.
    VModules,
    /// One of these words. Completions list them; validation reports an unknown one together with
    /// all other problems.
    OneOf(&'static str, &'static [&'static str]),
    /// Boolean, or `raw`.
    ///
    /// Upstream: `staging/src/k8s.io/component-base/version/verflag/verflag.go` (v1.37)
    ///
    /// Differs from upstream: no other version is ever reported.
    Version,
    /// One of the words of a table; clap lists them in help, and rejects an unknown one.
    Word(&'static str, fn() -> PossibleValuesParser),
}

impl SettingKind {
    /// Parses the values of a flag, one for each time that it was given.
    pub(super) fn parse(self, texts: &[&str]) -> Result<Value, String> {
        let text = texts.last().copied().unwrap_or_default();
        match self {
            Self::Int(_) => parsed(text, go::int(text)),
            Self::Within(_, [from, to]) => within(text, from.into()..=to.into()),
            // Infinity becomes the largest number, because JSON has none.
            Self::Number => parsed(
                text,
                text.parse()
                    .map(|number: f32| number.clamp(f32::MIN, f32::MAX))
                    .map_err(|_| format!("`{text}` is not a valid number")),
            ),
            Self::Port => parsed(text, go::port(text)),
            Self::Duration => parsed(text, text.parse::<GoDuration>()),
            Self::Quantity => parsed(text, text.parse::<Quantity>()),
            Self::Version if text == "raw" => Ok(true.into()),
            Self::Bool | Self::Switch | Self::Version => parsed(text, go::bool(text)),
            Self::Path(_) | Self::OnePath(_) if text.is_empty() => {
                Err("must not be empty".to_owned())
            }
            Self::List(_) => Ok(items(texts).collect()),
            Self::Gates => gates(texts),
            Self::VModules => items(texts).map(vmodule).collect(),
            Self::Text(_)
            | Self::FilledText(_)
            | Self::NodeName
            | Self::Path(_)
            | Self::OnePath(_)
            | Self::OneOf(..)
            | Self::Word(..) => Ok(text.into()),
        }
    }

    /// Sets a field to the value of its flag.
    pub(super) fn assign(self, field: &mut Value, given: &Value) {
        match (self, given) {
            (Self::FilledText(_) | Self::NodeName, Value::String(text)) if text.is_empty() => {}
            // A blank name is kept, so that it is reported as an empty node name.
            (Self::NodeName, Value::String(text)) if !text.trim().is_empty() => {
                *field = text.trim().to_lowercase().into();
            }
            (Self::List(_), Value::Array(items)) if items.is_empty() => *field = Value::Null,
            (Self::Gates, Value::Object(given)) => match field {
                Value::Object(gates) => gates.extend(given.clone()),
                _ => *field = given.clone().into(),
            },
            (Self::VModules, Value::Array(given)) => {
                let before = field.as_array().into_iter().flatten();
                *field = given.iter().chain(before).cloned().collect();
            }
            _ => field.clone_from(given),
        }
    }

    /// Formats a value as Go does. An unset one is the zero of the flag's type.
    ///
    /// Upstream: `staging/src/k8s.io/apiserver/pkg/server/flagz/flagreader.go` (v1.37)
    pub(super) fn text(self, value: &Value) -> String {
        match value {
            Value::Null => match self {
                Self::Bool | Self::Switch => "false",
                Self::List(_) => "[]",
                _ => "",
            }
            .to_owned(),
            Value::String(text) => text.clone(),
            Value::Array(items) if matches!(self, Self::VModules) => {
                joined(items.iter().map(pattern))
            }
            Value::Array(items) => format!("[{}]", joined(items.iter().map(plain))),
            Value::Object(gates) => joined(gates.iter().map(|(name, is)| format!("{name}={is}"))),
            // As Go does: `5`, not `5.0`.
            Value::Number(number) => match number.as_f64() {
                // The field has 32 bits, in which the digits of the text suffice.
                #[expect(clippy::cast_possible_truncation, reason = "it was of 32 bits before")]
                Some(float) if matches!(self, Self::Number) => (float as f32).to_string(),
                _ => number.to_string(),
            },
            Value::Bool(_) => value.to_string(),
        }
    }
}

/// Returns a value for a field, or the problem in the standard form, with the text.
fn parsed<T: Serialize, E: fmt::Display>(text: &str, value: Result<T, E>) -> Result<Value, String> {
    match value.map(serde_json::to_value) {
        Ok(Ok(value)) if !value.is_null() => Ok(value),
        Ok(Ok(_)) => Err(format!("`{text}` is not a valid number")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn within(text: &str, limits: RangeInclusive<i64>) -> Result<Value, String> {
    let number: Result<i64, _> = text.parse();
    match number {
        Ok(number) if !limits.contains(&number) => {
            let (from, to) = limits.into_inner();
            Err(format!("must be from {from} to {to}, got {number}"))
        }
        Ok(number) => Ok(number.into()),
        Err(_) => Err(format!("`{text}` is not a valid integer")),
    }
}

/// Returns the items of lists, without empty ones.
fn items<'a>(texts: &[&'a str]) -> impl Iterator<Item = &'a str> {
    let items = texts.iter().flat_map(|text| text.split(','));
    items.filter(|item| !item.is_empty())
}

fn gates(texts: &[&str]) -> Result<Value, String> {
    let mut gates = serde_json::Map::new();
    for text in texts {
        let given = go::gates(text)?;
        gates.extend(given.into_iter().map(|(name, is)| (name, is.into())));
    }
    Ok(gates.into())
}

fn vmodule(entry: &str) -> Result<Value, String> {
    let (pattern, level) = entry
        .split_once('=')
        .ok_or_else(|| format!("`{entry}` is not a valid entry (example: pattern=2)"))?;
    let verbosity = level
        .parse()
        .map_err(|_| format!("`{level}` is not a valid verbosity"))?;
    let entry = VModule {
        file_pattern: pattern.to_owned(),
        verbosity,
    };
    serde_json::to_value(entry).map_err(|error| error.to_string())
}

fn pattern(entry: &Value) -> String {
    let field = |name| entry.get(name).map(plain).unwrap_or_default();
    format!("{}={}", field("filePattern"), field("verbosity"))
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}
