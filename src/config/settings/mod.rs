//! One list of all settings, from which the flags of clap, their help, the defaults of the file,
//! `/flagz` and the notes on settings without effect come.
//!
//! A flag with a field in the file is one row here and one field of
//! [`KubeProxyConfiguration`](super::kube_proxy::KubeProxyConfiguration); the value of the flag
//! moves into the field by its path. clap's derive is not used for these flags, because with it
//! each flag has a struct field, an assignment, and a row in a table of paths.

mod setting;
mod table;
mod values;

#[cfg(test)]
pub(super) use setting::SettingKind;
pub(super) use setting::{Setting, SettingSection, with_flags};
pub(crate) use table::LogStyle;
pub(super) use table::{
    BACKENDS, FILE, FlagWord, LOG_STYLES, ONE_SHOT, PARTIAL_RESTORES, PROGRAM, RULES,
    SERVICE_DISPATCHES, SOURCE, choice, choices,
};
pub(super) use values::FlagValues;

use table::{NODE, OBSERVABILITY, SYNC, WITHOUT_EFFECT};

/// All sections, in the order of help.
pub(super) const SECTIONS: &[&SettingSection] = &[
    &PROGRAM,
    &FILE,
    &ONE_SHOT,
    &SOURCE,
    &RULES,
    &SYNC,
    &NODE,
    &OBSERVABILITY,
    &WITHOUT_EFFECT,
];

pub(super) fn all() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| section.settings)
}

/// Returns the setting with this path in the file.
pub(super) fn of_path(path: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.path == path)
}

/// Returns the flag of a field, with its dashes; the path of one that has no flag.
pub(super) fn flag_or_path(path: &str) -> String {
    match of_path(path).map_or("", |setting| setting.flag) {
        "" => path.to_owned(),
        flag => format!("--{flag}"),
    }
}

/// Returns the settings that are accepted without effect.
pub(super) fn without_effect() -> &'static [Setting] {
    WITHOUT_EFFECT.settings
}
