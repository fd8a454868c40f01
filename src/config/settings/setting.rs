//! One setting as a row of a table, the flag of clap that it becomes, and its kind: how the text of
//! a flag becomes the value of a field, and a line of `/flagz`.

use std::fmt;
use std::ops::RangeInclusive;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, ValueHint};
use serde::Serialize;
use serde_json::Value;

use crate::config::go::{self, GoDuration};
use crate::config::kube_proxy::VModule;

/// Settings that help lists under one heading.
pub(in crate::config) struct SettingSection {
    /// Heading; `None` for the flags that every command has.
    pub heading: Option<&'static str>,
    pub settings: &'static [Setting],
}

/// Setting of `run`: a flag, a field of the file, or both.
#[derive(Debug, Clone, Copy)]
pub(in crate::config) struct Setting {
    /// Path of the field, as in `conntrack.min`; empty if there is none.
    pub path: &'static str,
    /// Flag without dashes; empty if there is none.
    pub flag: &'static str,
    pub kind: SettingKind,
    short: Option<char>,
    help: &'static str,
    more: &'static str,
    default: &'static str,
    /// Default of the flag if its field has another one.
    flag_default: Option<&'static str>,
    is_in_short_help: bool,
    conflict: Option<&'static str>,
    required: Option<&'static str>,
}

impl Setting {
    /// Creates a row for a field, without a flag.
    pub(super) const fn field(path: &'static str, kind: SettingKind) -> Self {
        Self {
            path,
            flag: "",
            kind,
            short: None,
            help: "",
            more: "",
            default: "",
            flag_default: None,
            is_in_short_help: false,
            conflict: None,
            required: None,
        }
    }

    /// Creates a row for a flag without a field.
    pub(super) const fn without_field(flag: &'static str, kind: SettingKind) -> Self {
        Self::field("", kind).flag(flag)
    }

    pub(super) const fn flag(self, flag: &'static str) -> Self {
        Self { flag, ..self }
    }

    /// Sets the first line of help, without a period.
    pub(super) const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    /// Sets the sentences that follow in long help.
    pub(super) const fn more(self, more: &'static str) -> Self {
        Self { more, ..self }
    }

    /// Sets the default of flag and field, as typed. Help shows it.
    pub(super) const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// Sets the default of the flag alone, which may be empty for none. Help does not show it.
    pub(super) const fn flag_default(self, default: &'static str) -> Self {
        Self {
            flag_default: Some(default),
            ..self
        }
    }

    /// Lists the flag in short help, which fits on a screen.
    pub(super) const fn in_short_help(self) -> Self {
        Self {
            is_in_short_help: true,
            ..self
        }
    }

    /// Sets the name of the flag with one dash.
    pub(super) const fn short(self, short: char) -> Self {
        Self {
            short: Some(short),
            ..self
        }
    }

    /// Rejects the flag together with another one.
    pub(super) const fn conflicts_with(self, flag: &'static str) -> Self {
        Self {
            conflict: Some(flag),
            ..self
        }
    }

    /// Rejects the flag without another one.
    pub(super) const fn requires(self, flag: &'static str) -> Self {
        Self {
            required: Some(flag),
            ..self
        }
    }

    /// Reports whether the flag overrides the field of a file.
    pub(in crate::config) fn overrides_file(&self) -> bool {
        let is_own = self.path.starts_with("deltaproxy.");
        is_own || self.path == "hostnameOverride" || self.path.starts_with("logging.")
    }

    /// Returns the default of the field; `None` if it is the zero of its type.
    pub(in crate::config) fn default_value(&self) -> Option<Value> {
        self.parsed(self.default)
    }

    /// Returns the default of the flag; `None` if it is that of the field.
    pub(super) fn flag_default_value(&self) -> Option<Value> {
        match self.flag_default {
            Some("") => Some("".into()),
            Some(default) => self.parsed(default),
            None => self.default_value().filter(|_| self.path.is_empty()),
        }
    }

    #[cfg(test)]
    pub(in crate::config) fn default_text(&self) -> &'static str {
        self.default
    }

    fn parsed(&self, text: &str) -> Option<Value> {
        // Texts of the tables are valid, which a test proves.
        (!text.is_empty()).then(|| self.kind.parse(&[text]).ok())?
    }

    fn arg(&self, heading: Option<&'static str>) -> Arg {
        let is_shown_by_clap = self.is_word();
        let help = if self.default.is_empty() || is_shown_by_clap {
            self.help.to_owned()
        } else {
            format!("{} [default: {}]", self.help, self.default)
        };
        let mut arg = Arg::new(self.flag)
            .long(self.flag)
            .help_heading(heading)
            .hide_short_help(!self.is_in_short_help);
        if !self.more.is_empty() {
            arg = arg.long_help(format!("{help}\n\n{}", self.more));
        }
        if is_shown_by_clap {
            arg = arg.default_value(self.default);
        }
        if let Some(short) = self.short {
            arg = arg.short(short);
        }
        if let Some(flag) = self.conflict {
            arg = arg.conflicts_with(flag);
        }
        if let Some(flag) = self.required {
            arg = arg.requires(flag);
        }
        self.with_values(arg.help(help))
    }

    /// Reports whether clap checks the value and lists the possible ones.
    fn is_word(&self) -> bool {
        matches!(self.kind, SettingKind::Word(..))
    }

    /// Adds action, name and parser of the value. Values are texts, so that problems of all flags
    /// are reported together.
    fn with_values(&self, arg: Arg) -> Arg {
        let arg = match self.kind {
            SettingKind::Switch => return arg.action(ArgAction::SetTrue),
            SettingKind::OnePath(_)
            | SettingKind::List(_)
            | SettingKind::Gates
            | SettingKind::VModules => arg.action(ArgAction::Append),
            _ => arg.action(ArgAction::Set),
        };
        let arg = arg.value_name(self.value_name());
        match self.kind {
            SettingKind::Bool | SettingKind::Version => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            SettingKind::Int(_) | SettingKind::Number => arg.allow_negative_numbers(true),
            SettingKind::Path(_) | SettingKind::OnePath(_) => arg.value_hint(ValueHint::AnyPath),
            SettingKind::Word(_, words) => arg.value_parser(words()),
            _ => arg,
        }
    }

    fn value_name(&self) -> &'static str {
        match self.kind {
            SettingKind::Bool | SettingKind::Switch | SettingKind::Version => "BOOL",
            SettingKind::Number => "NUMBER",
            SettingKind::Port => "PORT",
            SettingKind::Duration => "DURATION",
            SettingKind::NodeName => "NAME",
            SettingKind::Gates => "NAME=BOOL,...",
            SettingKind::VModules => "PATTERN=N,...",
            SettingKind::Int(name)
            | SettingKind::Within(name, _)
            | SettingKind::Text(name)
            | SettingKind::FilledText(name)
            | SettingKind::Path(name)
            | SettingKind::OnePath(name)
            | SettingKind::List(name)
            | SettingKind::Word(name, _) => name,
        }
    }
}

/// Adds the flags of sections to a command.
pub(in crate::config) fn with_flags(command: Command, sections: &[&SettingSection]) -> Command {
    let flags = sections.iter().flat_map(|section| {
        let flags = section.settings.iter().filter(|row| !row.flag.is_empty());
        flags.map(|row| row.arg(section.heading))
    });
    command.args(flags)
}

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
