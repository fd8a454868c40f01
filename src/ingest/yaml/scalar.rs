//! Resolves plain YAML scalars as kubectl does: by the rules of YAML 1.1, so that `yes` is a
//! boolean and `0120` is octal.
//!
//! # Source
//!
//! Upstream: go.yaml.in/yaml/v2, resolve.go, `resolve`; sigs.k8s.io/yaml, yaml.go,
//! `convertToJSONableObject` (v1.6.0)

use serde_json::{Number, Value};

/// Resolves a plain scalar without a tag, or any with the tag of a type other than text.
pub(super) fn plain(text: String) -> Value {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return true.into();
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return false.into();
        }
        _ => {}
    }
    let number = match text.as_bytes().first() {
        Some(b'0'..=b'9' | b'+' | b'-') => {
            let digits = text.replace('_', "");
            // From -2^63 to 2^64 - 1; others are floats.
            let integer = integer(&digits).and_then(Number::from_i128);
            integer.or_else(|| float(&digits))
        }
        Some(b'.') => float(&text),
        _ => None,
    };
    number.map_or(Value::String(text), Value::Number)
}

/// Parses an integer as Go does: `0x` is hexadecimal, `0o` or only `0` is octal, `0b` is binary.
pub(crate) fn integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, text.get(1..)?),
        b'+' => (1, text.get(1..)?),
        _ => (1, text),
    };
    let lower = digits.to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)];
    let number = prefixes.into_iter().find_map(|(prefix, radix)| {
        let rest = lower.strip_prefix(prefix)?;
        (!rest.is_empty()).then_some((rest, radix))
    });
    let (digits, radix) = number.unwrap_or((&lower, 10));
    // `from_str_radix` takes a second sign.
    let is_signed = !digits.starts_with(|first: char| first.is_ascii_alphanumeric());
    let value = i128::from_str_radix(digits, radix).ok();
    value.filter(|_| !is_signed).map(|value| sign * value)
}

/// Parses a decimal number. Without a fractional part it is an integer, as Go writes it in JSON.
/// Infinity and NaN do not exist in JSON and stay text.
fn float(text: &str) -> Option<Number> {
    /// Maximum up to which a float represents every integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;

    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_decimal = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && unsigned.contains(|one: char| one.is_ascii_digit());
    let value: f64 = is_decimal.then(|| text.parse().ok())??;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an integer within the exact range of a float"
        )]
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

#[cfg(test)]
#[path = "tests/scalar.rs"]
mod tests;
