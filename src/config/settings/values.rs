//! Values of the flags of a command line: typed, moved into fields, and shown by `/flagz`.

use std::collections::BTreeMap;

use clap::ArgMatches;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::setting::{Setting, SettingKind, SettingSection};
use super::table::{FlagWord, choice};
use crate::config::kube_proxy::{
    KubeProxyConfiguration, change, complete_address, field, field_mut,
};
use crate::config::problems::ConfigProblem;

/// Flags of a command line that are in the tables, with their values.
#[derive(Debug, Clone, Default)]
pub(in crate::config) struct FlagValues {
    known: BTreeMap<&'static str, &'static Setting>,
    given: BTreeMap<&'static str, Value>,
    problems: Vec<ConfigProblem>,
}

impl FlagValues {
    /// Reads the flags of sections. Values of the wrong type become [`problems`](Self::problems).
    pub(in crate::config) fn read(
        matches: &ArgMatches,
        sections: &[&'static SettingSection],
    ) -> Self {
        let mut values = Self::default();
        let settings = sections.iter().flat_map(|section| section.settings);
        for setting in settings.filter(|setting| !setting.flag.is_empty()) {
            values.known.insert(setting.flag, setting);
            if matches.value_source(setting.flag) != Some(ValueSource::CommandLine) {
                continue;
            }
            match given(matches, setting) {
                Ok(value) => {
                    values.given.insert(setting.flag, value);
                }
                Err(problem) => values.problems.push(problem),
            }
        }
        values
    }

    /// Returns the problems of values, in the order of help.
    pub(in crate::config) fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }

    /// Returns the values, or all problems as an error, for commands that may not resolve a
    /// configuration.
    pub(in crate::config) fn checked(self) -> Result<Self, clap::Error> {
        let problems = self.problems.iter().map(ToString::to_string);
        match problems.collect::<Vec<_>>().join("\nerror: ") {
            none if none.is_empty() => Ok(self),
            text => Err(clap::Error::raw(ErrorKind::ValueValidation, text + "\n")),
        }
    }

    /// Reports whether a flag was given with a valid value.
    pub(in crate::config) fn is_given(&self, flag: &str) -> bool {
        self.given.contains_key(flag)
    }

    /// Returns the value of a flag, or its default; `None` if it has none.
    pub(in crate::config) fn get<T: DeserializeOwned>(&self, flag: &str) -> Option<T> {
        debug_assert!(self.known.contains_key(flag), "unknown flag --{flag}");
        self.get_known(flag)
    }

    /// Returns the value of a flag like [`Self::get`]; `None` if the command does not have it.
    fn get_known<T: DeserializeOwned>(&self, flag: &str) -> Option<T> {
        let default = || self.known.get(flag)?.flag_default_value();
        let value = self.given.get(flag).cloned().or_else(default)?;
        serde_json::from_value(value).ok()
    }

    /// Returns the choice of a flag that takes one of these words, or of its default.
    pub(in crate::config) fn choice<T: Copy>(
        &self,
        flag: &str,
        words: &[FlagWord<T>],
    ) -> Option<T> {
        let word: String = self.get(flag)?;
        choice(words, &word)
    }

    /// Sets the fields whose flags were given, and completes addresses.
    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        self.assign(to, |_| true);
        for (flag, address) in [
            ("metrics-port", &mut to.metrics_bind_address),
            ("healthz-port", &mut to.healthz_bind_address),
        ] {
            if let Some(port) = self.get_known(flag) {
                complete_address(address, port);
            }
        }
    }

    /// Returns kube-proxy's defaults with every flag applied that was given.
    pub(in crate::config) fn configuration(&self) -> KubeProxyConfiguration {
        let mut configuration = KubeProxyConfiguration::defaults();
        self.apply(&mut configuration);
        configuration
    }

    /// Sets the fields whose flags override a configuration file.
    pub(in crate::config) fn apply_over_file(&self, to: &mut KubeProxyConfiguration) {
        self.assign(to, Setting::overrides_file);
    }

    fn assign(&self, to: &mut KubeProxyConfiguration, is_chosen: impl Fn(&Setting) -> bool) {
        change(to, |fields| {
            for (setting, value) in self.given() {
                if !setting.path.is_empty() && is_chosen(setting) {
                    setting.kind.assign(field_mut(fields, setting.path), value);
                }
            }
        });
    }

    /// Returns the flags that were given, in the order of their names.
    fn given(&self) -> impl Iterator<Item = (&'static Setting, &Value)> {
        let given = self.given.iter();
        given.filter_map(|(flag, value)| Some((*self.known.get(flag)?, value)))
    }

    /// Returns the flags without a field among `settings` that differ from their default.
    pub(in crate::config) fn different(
        &self,
        settings: &'static [Setting],
    ) -> impl Iterator<Item = &'static str> {
        let flags = settings.iter().filter(|setting| setting.path.is_empty());
        let is_different = |setting: &&Setting| {
            let given = self.given.get(setting.flag);
            given.is_some_and(|given| Some(given) != setting.flag_default_value().as_ref())
        };
        flags.filter(is_different).map(|setting| setting.flag)
    }

    /// Returns the values of all flags in the format of Go, with those of fields that were not
    /// given from a configuration of the flags alone.
    pub(in crate::config) fn flagz(&self) -> BTreeMap<String, String> {
        let fields = self.configuration().to_json();
        let shown = |setting: &Setting| {
            let given = self.given.get(setting.flag).cloned();
            let value = given.or_else(|| setting.flag_default_value());
            let value = value.or_else(|| field(&fields, setting.path).cloned());
            setting.kind.text(&value.unwrap_or_default())
        };
        let flags = self.known.iter();
        let flags = flags.map(|(flag, setting)| ((*flag).to_owned(), shown(setting)));
        // `--help` is a flag of clap, and not set where this is served.
        flags
            .chain([("help".to_owned(), "false".to_owned())])
            .collect()
    }
}

fn given(matches: &ArgMatches, setting: &Setting) -> Result<Value, ConfigProblem> {
    if matches!(setting.kind, SettingKind::Switch) {
        return Ok(matches.get_flag(setting.flag).into());
    }
    let texts = matches.get_many::<String>(setting.flag);
    let texts: Vec<&str> = texts.into_iter().flatten().map(String::as_str).collect();
    let problem = |text| ConfigProblem::of_flag(setting.flag, text);
    if matches!(setting.kind, SettingKind::OnePath(_)) && texts.len() > 1 {
        return Err(ConfigProblem {
            hint: "put the files into one folder".to_owned(),
            ..problem(format!("must be given once, got {}", texts.join(" and ")))
        });
    }
    setting.kind.parse(&texts).map_err(problem)
}
