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

/// A whole number of 32 bits, as in Go's source: `0x1f`, `0b1`, `1_000`; and `010` is 8.
///
/// Upstream: Go's `strconv.ParseInt` with base 0, which spf13/pflag asks for.
pub(super) fn int(text: &str) -> Result<i32, String> {
    let wrong = || format!("`{text}` is no whole number of 32 bits");
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { "-" } else { "" };
    let lower = unsigned.to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)];
    let based = prefixes.iter().find_map(|(prefix, base)| {
        let digits = lower.strip_prefix(prefix).filter(|rest| !rest.is_empty())?;
        // Behind a prefix one may stand, too.
        Some((digits.strip_prefix('_').unwrap_or(digits), *base))
    });
    let (digits, base) = based.unwrap_or((&lower, 10));
    let is_odd = digits.starts_with(['_', '+', '-']) || digits.ends_with('_');
    if is_odd || digits.contains("__") {
        return Err(wrong());
    }
    let digits = digits.replace('_', "");
    i32::from_str_radix(&format!("{sign}{digits}"), base).map_err(|_| wrong())
}

/// A number of a port, or 0 for none.
pub(super) fn port(text: &str) -> Result<u16, String> {
    let number = int(text)?;
    u16::try_from(number).map_err(|_| format!("{number} is no port"))
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
