//! kube-proxy's file, of commands that take one.
//!
//! Apart because configuration reads no files, and because those that only render take from it what
//! shapes the rules.

use std::fs;
use std::path::Path;

use crate::config::{
    self, ConfigFile, RenderConfig, RulesArgs, RulesFileArgs, SourceArgs, Unusable, environment,
};

/// A file as it is now.
pub(super) fn read(path: &Path) -> Result<ConfigFile, Unusable> {
    let path = path.to_owned();
    match fs::read_to_string(&path) {
        Ok(text) => Ok(ConfigFile { path, text }),
        Err(error) => Err(Unusable::of_flag(
            "config",
            format!("cannot read `{}`: {error}", path.display()),
        )),
    }
}

/// What objects become with these flags, or with the file in place of those that shape rules.
pub(super) fn desired(
    file: &RulesFileArgs,
    source: &SourceArgs,
    rules: &RulesArgs,
) -> Result<RenderConfig, Unusable> {
    let file = file.config.as_deref().map(read).transpose()?;
    config::desired_by(file.as_ref(), source, rules, &environment::host_name())
}

/// Says which flags are given in vain.
pub(super) fn mention_ignored(file: &RulesFileArgs, rules: &RulesArgs) {
    if file.config.is_some()
        && let Some(note) = config::ignored(rules)
    {
        tracing::warn!("{note}");
    }
}
