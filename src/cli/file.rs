//! kube-proxy's file, of commands that take one.
//!
//! Apart because configuration reads no files, and because those that only render take from it what
//! shapes the rules. It is read once for each command: it may be a pipe.

use std::path::Path;

use crate::config::{
    self, ConfigFile, RenderConfig, RulesArgs, RulesFileArgs, SourceArgs, Unusable, environment,
};
use crate::watch::bounded;

/// A file as it is now.
pub(super) fn read(path: &Path) -> Result<ConfigFile, Unusable> {
    let path = path.to_owned();
    match bounded::read_to_string(&path, bounded::LARGEST_CONFIGURATION) {
        Ok(text) => Ok(ConfigFile { path, text }),
        Err(error) => Err(Unusable::of_flag(
            "config",
            format!("cannot read `{}`: {error}", path.display()),
        )),
    }
}

/// The flags that shape rules, and the file that may be in their place.
pub(super) struct Shape<'a> {
    file: Option<ConfigFile>,
    rules: &'a RulesArgs,
}

impl<'a> Shape<'a> {
    /// As the flags say. Warns of flags that are given in vain, and of what the file says in vain.
    pub(super) fn read(file: &RulesFileArgs, rules: &'a RulesArgs) -> Result<Self, Unusable> {
        let file = file.config.as_deref().map(read).transpose()?;
        for note in file.iter().flat_map(|file| config::in_vain(file, rules)) {
            tracing::warn!("{note}");
        }
        Ok(Self { file, rules })
    }

    /// What objects become.
    pub(super) fn desired(&self, source: &SourceArgs) -> Result<RenderConfig, Unusable> {
        let host_name = environment::host_name();
        config::desired(self.file.as_ref(), source, self.rules, &host_name)
    }
}
