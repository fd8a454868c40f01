//! Values as the flags of a Go program spell them: booleans, feature gates, integers and durations.
//!
//! Kept because Go accepts more spellings than Rust, and manifests for kube-proxy use them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ingest::yaml::integer;

/// Parses a boolean. Upstream: Go's `strconv.ParseBool`.
pub(super) fn bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("`{text}` is not a valid boolean (true or false)")),
    }
}

/// Parses feature gates, as in `A=true,B=false`.
///
/// Upstream: staging/src/k8s.io/component-base/featuregate/feature_gate.go, `SetWithLogger` (v1.37)
pub(super) fn gates(text: &str) -> Result<BTreeMap<String, bool>, String> {
    let pairs = text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair
                .split_once('=')
                .filter(|(name, _)| !name.trim().is_empty())
                .ok_or_else(|| format!("`{pair}` is not a valid gate (example: Name=true)"))?;
            let value = bool(value.trim())?;
            Ok((name.trim().to_owned(), value))
        })
        .collect()
}

/// Parses an integer of 32 bits as in Go source code: `0x1f`, `0b1`, `1_000`, and `010`, which is
/// 8. An underscore may be between digits, and between a prefix and digits.
///
/// Upstream: Go's `strconv.ParseInt` with base 0, which spf13/pflag calls.
pub(super) fn int(text: &str) -> Result<i32, String> {
    let unsigned = text.trim_start_matches(['+', '-']);
    let is_in_prefix = |rest: &str| rest.starts_with(['b', 'B', 'o', 'O', 'x', 'X']);
    let is_odd = unsigned.starts_with('_')
        || unsigned.ends_with('_')
        || unsigned.contains("__")
        || unsigned.strip_prefix("0_").is_some_and(is_in_prefix);
    let number = integer(&text.replace('_', "")).filter(|_| !is_odd);
    let number = number.ok_or_else(|| format!("`{text}` is not a valid integer"))?;
    i32::try_from(number)
        .map_err(|_| format!("must be from {} to {}, got {text}", i32::MIN, i32::MAX))
}

/// Parses a port number; 0 means that the port is disabled.
pub(super) fn port(text: &str) -> Result<u16, String> {
    let number = int(text)?;
    u16::try_from(number).map_err(|_| format!("{number} is not a valid port (0-65535)"))
}

/// Duration in nanoseconds, as Go's `time.Duration`.
///
/// May be negative, so that the validation reports it together with all other problems.
///
/// Not `kube::core::Duration` 5.0, which accepts an empty text and `--5s`, panics on `5s-3s`, has
/// no limit, rounds large numbers, and writes `90s` where Go writes `1m30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct GoDuration(i64);

/// Error for a text that is not a [`GoDuration`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid duration (examples: 30s, 500ms, 1h30m)")]
pub struct InvalidDuration(String);

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

impl GoDuration {
    /// Zero, which stands for the default in many fields.
    pub const ZERO: Self = Self(0);

    /// Returns a duration of whole seconds.
    pub const fn seconds(seconds: u32) -> Self {
        // Lossless: 2^32 seconds are less than 2^63 nanoseconds.
        #[expect(clippy::cast_possible_wrap, reason = "2^32 * 10^9 is below 2^63")]
        Self(seconds as i64 * SECOND as i64)
    }

    /// Returns a duration of whole nanoseconds.
    pub const fn nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// Converts to a standard duration; `None` if negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl FromStr for GoDuration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        nanoseconds(text)
            .map(Self)
            .ok_or_else(|| InvalidDuration(text.to_owned()))
    }
}

fn nanoseconds(text: &str) -> Option<i64> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut sum = 0_i64;
    if rest != "0" {
        loop {
            let (part, after) = part(rest)?;
            sum = sum.checked_add(part)?;
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    Some(if is_negative { -sum } else { sum })
}

/// Parses the first number with its unit; returns its nanoseconds and the text after it.
fn part(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(end);
    let end = rest.find(|c: char| c.is_ascii_digit() || c == '.');
    let (unit, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let unit = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let sum = u64::checked_mul(whole, unit)?.checked_add(fraction_of(unit, fraction)?)?;
    Some((i64::try_from(sum).ok()?, rest))
}

/// Returns `unit` multiplied by the fraction that these digits after a decimal point stand for.
fn fraction_of(unit: u64, digits: &str) -> Option<u64> {
    let (mut sum, mut place) = (0, unit);
    for digit in digits.chars() {
        // Digits that stand for less than a nanosecond add nothing.
        let next = u64::from(digit.to_digit(10)?) * place;
        sum += next / 10;
        place /= 10;
    }
    Some(sum)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let total = self.0.unsigned_abs();
        let (hours, minutes) = (total / HOUR, total % HOUR / MINUTE);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if total >= MINUTE {
            write!(f, "{minutes}m")?;
        }
        match total {
            0 => f.write_str("0s"),
            1..MICROSECOND => write!(f, "{total}ns"),
            MICROSECOND..MILLISECOND => write_decimal(f, total, MICROSECOND, "µs"),
            MILLISECOND..SECOND => write_decimal(f, total, MILLISECOND, "ms"),
            SECOND.. => write_decimal(f, total % MINUTE, SECOND, "s"),
        }
    }
}

fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", value / unit)?;
    let fraction = value % unit;
    if fraction > 0 {
        let width = unit.ilog10() as usize;
        let digits = format!("{fraction:0width$}");
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    f.write_str(name)
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}
