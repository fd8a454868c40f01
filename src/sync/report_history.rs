//! Records syncs in the history.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::attempt::{Attempt, Outcome};
use super::report::{Reporter, failure_text, full_reason, milliseconds};
use crate::history::{HistoryRecord, MAX_PAYLOAD, MAX_SERVICES};
use crate::model::ServiceName;
use crate::net::IpFamily;
use crate::tracker::Tracker;

impl Reporter {
    /// Records the attempts that wrote rules or failed.
    pub(super) fn record_history(&self, outcome: &Outcome, tracker: &Tracker, at: Timestamp) {
        let Some(history) = &self.history else {
            return;
        };
        for attempt in &outcome.attempts {
            if attempt.result.is_ok() && attempt.stats.bytes == 0 {
                continue;
            }
            let applied = outcome.applied.before.iter().map(|(name, _)| name);
            let (services, count) = match &attempt.result {
                Ok(()) => first_names(applied),
                Err(_) => first_names(tracker.dirty_without_override().chain(applied)),
            };
            history.record(HistoryRecord {
                services,
                service_count: count,
                ..history_record(self.family, attempt, at)
            });
        }
    }
}

/// Returns the first names, and the number of all.
fn first_names<'n>(names: impl Iterator<Item = &'n ServiceName>) -> (Vec<String>, u64) {
    let names: BTreeSet<&ServiceName> = names.collect();
    let first = names.iter().take(MAX_SERVICES);
    (first.map(ToString::to_string).collect(), names.len() as u64)
}

/// Returns the record of an attempt, without Services.
fn history_record(family: IpFamily, attempt: &Attempt, at: Timestamp) -> HistoryRecord {
    let kept = attempt.payload.get(..MAX_PAYLOAD);
    let payload = kept.unwrap_or(&attempt.payload);
    HistoryRecord {
        at,
        family: family.to_string(),
        scope: attempt.scope.as_str().to_owned(),
        reason: full_reason(attempt.scope),
        took_ms: milliseconds(attempt.took),
        bytes: attempt.stats.bytes,
        chains: attempt.stats.chains,
        error: attempt
            .result
            .as_ref()
            .err()
            .map_or(String::new(), failure_text),
        payload: String::from_utf8_lossy(payload).into_owned(),
        is_truncated: payload.len() < attempt.payload.len(),
        ..HistoryRecord::default()
    }
}
