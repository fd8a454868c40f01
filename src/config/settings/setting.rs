//! One setting as a row of a table, and the flag of clap that it becomes.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, ArgAction, Command, ValueHint};
use serde_json::Value;

use super::kind::SettingKind;

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
    visibility: FlagVisibility,
    conflict: Option<&'static str>,
    required: Option<&'static str>,
}

/// Places that show a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlagVisibility {
    /// Nowhere: kube-proxy had the flag in earlier releases.
    Hidden,
    /// Long help, the manual and `/flagz`.
    LongHelp,
    /// Short help as well, which fits on a screen.
    ShortHelp,
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
            visibility: FlagVisibility::LongHelp,
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
            visibility: FlagVisibility::ShortHelp,
            ..self
        }
    }

    /// Hides the flag from help, from `/flagz` and from the log of flags.
    pub(super) const fn hidden(self) -> Self {
        Self {
            visibility: FlagVisibility::Hidden,
            ..self
        }
    }

    pub(super) fn is_hidden(&self) -> bool {
        self.visibility == FlagVisibility::Hidden
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
            .hide(self.is_hidden())
            .hide_short_help(self.visibility == FlagVisibility::LongHelp);
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
            SettingKind::OneOf(_, words) => {
                arg.value_parser(AnyWord(words)).hide_possible_values(true)
            }
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
            SettingKind::Quantity => "QUANTITY",
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
            | SettingKind::OneOf(name, _)
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

/// Parser that lists words in completions but accepts any text.
#[derive(Debug, Clone, Copy)]
struct AnyWord(&'static [&'static str]);

impl TypedValueParser for AnyWord {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        clap::builder::StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}
