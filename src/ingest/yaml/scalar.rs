//! Resolves plain YAML scalars as kubectl does: by the rules of YAML 1.1, so that `yes` is a
//! boolean and `0120` is octal.
//!
//! # Source
//!
//! Upstream: go.yaml.in/yaml/v2, resolve.go, `resolve`; sigs.k8s.io/yaml, yaml.go,
//! `convertToJSONableObject` (v1.6.0)

/// Value of a scalar, as one of the types of JSON.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    /// From -2^63 to 2^64 - 1.
    Integer(i128),
    /// Finite.
    Float(f64),
    Text(String),
}

impl Scalar {
    /// Resolves a plain scalar without a tag, or any with the tag of a type other than text.
    pub(crate) fn plain(text: String) -> Self {
        match text.as_str() {
            "" | "~" | "null" | "Null" | "NULL" => return Self::Null,
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                return Self::Bool(true);
            }
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off"
            | "OFF" => return Self::Bool(false),
            _ => {}
        }
        let number = match text.as_bytes().first() {
            Some(b'0'..=b'9' | b'+' | b'-') => {
                let digits = text.replace('_', "");
                integer(&digits).or_else(|| float(&digits))
            }
            Some(b'.') => float(&text),
            _ => None,
        };
        number.unwrap_or(Self::Text(text))
    }

    /// Returns the text of the scalar as a key of a JSON object.
    pub(crate) fn into_key(self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// Parses an integer as Go does: `0x` is hexadecimal, `0o` or only `0` is octal, `0b` is binary.
fn integer(text: &str) -> Option<Scalar> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, text.get(1..)?),
        b'+' => (1, text.get(1..)?),
        _ => (1, text),
    };
    let prefixes = [
        ("0x", 16),
        ("0X", 16),
        ("0o", 8),
        ("0O", 8),
        ("0b", 2),
        ("0B", 2),
        ("0", 8),
    ];
    let number = prefixes.into_iter().find_map(|(prefix, radix)| {
        let rest = digits.strip_prefix(prefix)?;
        (!rest.is_empty()).then_some((rest, radix))
    });
    let (digits, radix) = number.unwrap_or((digits, 10));
    // `from_str_radix` takes a second sign.
    if !digits.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    let value = sign * i128::from_str_radix(digits, radix).ok()?;
    let is_in_range = (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value);
    is_in_range.then_some(Scalar::Integer(value))
}

/// Parses a decimal number. Without a fractional part it is an integer, as Go writes it in JSON.
/// Infinity and NaN do not exist in JSON and stay text.
fn float(text: &str) -> Option<Scalar> {
    /// Maximum up to which a float represents every integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;

    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_decimal = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && unsigned.contains(|one: char| one.is_ascii_digit());
    let value: f64 = is_decimal.then(|| text.parse().ok())??;
    if !value.is_finite() {
        return None;
    }
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an integer within the exact range of a float"
        )]
        return Some(Scalar::Integer(value as i128));
    }
    Some(Scalar::Float(value))
}

#[cfg(test)]
#[path = "tests/scalar.rs"]
mod tests;
