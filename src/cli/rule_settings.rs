//! Flags and files of the commands that render and do not run.

use std::path::{Path, PathBuf};

use super::arguments::{log_notes, read_file};
use crate::config::{
    self, ConfigFile, RenderConfig, RulesArgs, RulesFileArgs, SourceArgs, Unusable, environment,
};

/// Flags that shape rules, and the configuration file that may replace them.
pub(super) struct RuleSettings<'a> {
    file: Option<ConfigFile>,
    rules: &'a RulesArgs,
}

impl<'a> RuleSettings<'a> {
    /// Reads the file, if one is given.
    pub(super) fn read(file: &RulesFileArgs, rules: &'a RulesArgs) -> Result<Self, Unusable> {
        let file = file.config.as_deref().map(read_file).transpose()?;
        Ok(Self { file, rules })
    }

    /// Returns the configuration that renders the objects of a source. Logs notes on flags, fields
    /// and feature gates; the log of a command writes each once.
    pub(super) fn rendering(&self, source: &SourceArgs) -> Result<RenderConfig, Unusable> {
        let host_name = environment::host_name();
        let (config, notes) =
            config::rendering(self.file.as_ref(), source, self.rules, &host_name)?;
        log_notes(&notes);
        Ok(config)
    }
}

/// Returns the path of a flag. Other flags take the last value, but this one would silently ignore
/// a source of objects.
///
/// # Errors
///
/// The flag is given more than once.
pub(super) fn given_once<'p>(
    flag: &str,
    paths: &'p [PathBuf],
) -> Result<Option<&'p Path>, Unusable> {
    match paths {
        [] => Ok(None),
        [path] => Ok(Some(path)),
        all => {
            let all: Vec<String> = all.iter().map(|path| path.display().to_string()).collect();
            let problem = format!("must be given once, got {}", all.join(" and "));
            Err(Unusable::of_flag(flag, problem))
        }
    }
}
