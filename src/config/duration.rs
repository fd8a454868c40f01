//! Durations as Go writes them: `1h30m`, `500ms`, `0`.
//!
//! Apart because every time that kube-proxy's flags and its file hold is spelled so. They may be
//! negative here, so that it is the validation that says so, with everything else that is wrong.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Nanoseconds, as many as fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct GoDuration(i64);

/// A text that is no duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no duration; use numbers and units, as in `30s`, `500ms` or `1h30m`")]
pub struct NoDuration(String);

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

impl GoDuration {
    /// No time, which often stands for a default.
    pub const ZERO: Self = Self(0);

    /// Whole seconds.
    pub const fn seconds(seconds: u32) -> Self {
        // Lossless: 2^32 seconds are less than 2^63 nanoseconds.
        #[expect(clippy::cast_possible_wrap, reason = "2^32 * 10^9 is below 2^63")]
        Self(seconds as i64 * SECOND as i64)
    }

    /// Nanoseconds.
    pub const fn nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// The same, unless it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl FromStr for GoDuration {
    type Err = NoDuration;

    fn from_str(text: &str) -> Result<Self, NoDuration> {
        nanoseconds(text)
            .map(Self)
            .ok_or_else(|| NoDuration(text.to_owned()))
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

/// The first number with its unit, and what comes after it.
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
    let sum = u64::checked_mul(whole, unit)?.checked_add(part_of(unit, fraction)?)?;
    Some((i64::try_from(sum).ok()?, rest))
}

/// `unit` times the digits behind a point.
fn part_of(unit: u64, digits: &str) -> Option<u64> {
    let (mut sum, mut place) = (0, unit);
    for digit in digits.chars() {
        // Only the first digits can matter: from some on, a place is less than a nanosecond.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, written: &str) {
        let parsed = text.parse::<GoDuration>();
        assert_eq!(
            parsed.map(|duration| duration.to_string()),
            Ok(written.to_owned()),
            "{text}"
        );
    }

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        check("0", "0s");
        check("-0", "0s");
        check("30s", "30s");
        check("15m", "15m0s");
        check("24h", "24h0m0s");
        check("1m30s", "1m30s");
        check("1.5h", "1h30m0s");
        check("+1.5h2m.5s", "1h32m0.5s");
        check("100ms", "100ms");
        check("1500us", "1.5ms");
        check("3µs", "3µs");
        check("7ns", "7ns");
        check("-90s", "-1m30s");
        check("0.000000000001s", "0s");
        check("1.s", "1s");
    }

    #[test]
    fn anything_else_is_no_duration() {
        for bad in [
            "",
            "30",
            "s",
            ".s",
            "1 s",
            "1d",
            "PT1H",
            "ten",
            "1h 30m",
            "--1s",
            "-",
            "1..5s",
            "00",
            "300000000h",
            "1é",
        ] {
            let error = NoDuration(bad.to_owned());
            assert_eq!(bad.parse::<GoDuration>(), Err(error));
        }
    }

    #[test]
    fn only_what_is_not_negative_is_a_time_to_wait() {
        assert_eq!(
            GoDuration::seconds(90).to_std(),
            Some(Duration::from_secs(90))
        );
        assert_eq!("-1ns".parse().map(GoDuration::to_std), Ok(None));
    }
}
