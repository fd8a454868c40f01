//! The logging section, which kube-proxy shares with the other programs of Kubernetes.
//!
//! Apart from the other [`sections`](super::sections) because its values have spellings of their
//! own.
//!
//! # Source
//!
//! Upstream: staging/src/k8s.io/component-base/logs/api/v1/types.go (v1.36)

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::sections::{is_false, section};
use crate::config::duration::GoDuration;

section! {
    /// How to log.
    Logging {
        format: String,
        flush_frequency: FlushFrequency,
        verbosity: u32,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        vmodule: Vec<VModule>,
        options: LoggingOptions,
    }
}

section! {
    /// A verbosity for some of the source files of kube-proxy.
    VModule {
        file_pattern: String,
        verbosity: u32,
    }
}

section! {
    /// By format.
    LoggingOptions {
        text: FormatOptions,
        json: FormatOptions,
    }
}

section! {
    /// Where the lines of one format go.
    FormatOptions {
        #[serde(skip_serializing_if = "is_false")]
        split_stream: bool,
        info_buffer_size: Quantity,
    }
}

/// A duration that a file may also give as a number of nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FlushFrequency(pub GoDuration);

impl<'de> Deserialize<'de> for FlushFrequency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = FlushFrequency;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration, or a number of nanoseconds")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<FlushFrequency, E> {
                text.parse().map(FlushFrequency).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<FlushFrequency, E> {
                Ok(FlushFrequency(GoDuration::nanoseconds(number)))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<FlushFrequency, E> {
                let fitting = i64::try_from(number);
                let too_many =
                    |_| E::invalid_value(Unexpected::Unsigned(number), &"2^63 - 1 at most");
                self.visit_i64(fitting.map_err(too_many)?)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// A number with a unit as Kubernetes writes them, like `64Ki`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quantity(String);

impl Quantity {
    /// Nothing, with whatever unit.
    pub fn is_zero(&self) -> bool {
        !self.0.contains(|c: char| matches!(c, '1'..='9'))
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self("0".to_owned())
    }
}

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const UNITS: &[&str] = &[
            "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
        ];
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, unit) = unsigned.split_at(end.unwrap_or(unsigned.len()));
        let is_number = number.parse::<f64>().is_ok();
        let exponent = unit.strip_prefix(['e', 'E']).map(str::parse::<i8>);
        if is_number && (UNITS.contains(&unit) || matches!(exponent, Some(Ok(_)))) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("`{text}` is no quantity; write one like `64Ki`"))
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity like `64Ki`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }
        }

        deserializer.deserialize_any(Either)
    }
}
