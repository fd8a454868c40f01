//! Moment in the past, as flags have it.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;

use super::go::{GoDuration, InvalidDuration};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastTime {
    Ago(Duration),
    /// Time in RFC 3339.
    At(Timestamp),
}

impl FromStr for PastTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(at) = text.parse() {
            return Ok(Self::At(at));
        }
        let duration: GoDuration = text.parse().map_err(|error: InvalidDuration| {
            format!("{error}\nhint: or give a time as in RFC 3339, like 2026-03-01T12:30:00Z")
        })?;
        let ago = duration.to_std();
        ago.map(Self::Ago)
            .ok_or_else(|| format!("must not be negative, got {text}"))
    }
}
