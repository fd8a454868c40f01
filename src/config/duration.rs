//! Durations as Go writes them: `1h30m`, `500ms`, `0`.
//!
//! Apart because every kube-proxy flag that takes a time is spelled so.

use std::time::Duration;

use jiff::SignedDuration;

/// Parses a duration that is not negative.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "+0" | "-0") {
        return Ok(Duration::ZERO);
    }
    // Go needs a unit on every number and takes no blanks, where jiff is friendlier.
    let is_go = text.ends_with(['s', 'm', 'h']) && !text.contains(char::is_whitespace);
    let parsed: Option<SignedDuration> = is_go.then(|| text.parse().ok()).flatten();
    let hint = "use a number and a unit, as in `30s`, `500ms` or `1h`";
    let duration = parsed.ok_or_else(|| format!("is no duration; {hint}"))?;
    Duration::try_from(duration).map_err(|_| "is negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(
            parse(text).ok(),
            expected.map(Duration::from_millis),
            "{text}"
        );
    }

    #[test]
    fn durations_are_gos() {
        check("0", Some(0));
        check("0s", Some(0));
        check("30s", Some(30_000));
        check("1m30s", Some(90_000));
        check("1h0m0s", Some(3_600_000));
        check("1.5h", Some(5_400_000));
        check("100ms", Some(100));
        for bad in ["", "30", "s", "-1s", "1 s", "1d", "PT1H", "ten", "1h 30m"] {
            check(bad, None);
        }
    }
}
