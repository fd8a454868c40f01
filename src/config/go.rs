//! Values as Go's flags spell them, other than durations.
//!
//! Apart because they are looser than Rust's in odd places, and manifests use that.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::kube_proxy::VModule;

/// A bool: `1` and `T` are as good as `true`.
pub(super) fn bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("`{text}` is neither `true` nor `false`")),
    }
}

/// The value of `--vmodule`.
#[derive(Debug, Clone, PartialEq)]
pub struct VModules(pub Vec<VModule>);

impl FromStr for VModules {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        vmodule(text).map(Self)
    }
}

fn vmodule(text: &str) -> Result<Vec<VModule>, String> {
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (pattern, level) = pair
                .split_once('=')
                .ok_or_else(|| format!("`{pair}` is not of the form `pattern=N`"))?;
            let verbosity = level
                .parse()
                .map_err(|_| format!("`{level}` is no verbosity"))?;
            Ok(VModule {
                file_pattern: pattern.to_owned(),
                verbosity,
            })
        })
        .collect()
}

/// Maps of several flags as one; later flags win.
pub(super) fn merge(maps: &[BTreeMap<String, bool>]) -> BTreeMap<String, bool> {
    maps.iter()
        .flatten()
        .map(|(k, v)| (k.clone(), *v))
        .collect()
}
