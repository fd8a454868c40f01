//! Records syncs in the history, and checkpoints of all rules.

use std::collections::BTreeSet;
use std::time::Instant;

use jiff::Timestamp;

use super::answers;
use super::outcome::{Attempt, Outcome};
use super::report::{Reporter, failure_text, full_reason, milliseconds};
use super::schedule::Scope;
use super::syncer::Syncer;
use crate::history::{HistoryRecord, MAX_PAYLOAD, MAX_SERVICES};
use crate::host::Iptables;
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
                if attempt.scope == Scope::Adoption {
                    history.not_recorded(at);
                }
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
        // Their restores have no records.
        if outcome.search.is_some() || outcome.quarantine_retry.is_some() {
            history.not_recorded(at);
        }
    }

    /// Records a checkpoint of all rules, if one is due and the rules in the kernel are known.
    pub(crate) fn record_checkpoint<I: Iptables>(
        &self,
        syncer: &Syncer<I>,
        clock: impl Fn() -> Instant,
    ) {
        let Some(history) = &self.history else {
            return;
        };
        if history.is_checkpoint_due(clock()) && answers::unknown(syncer, self).is_empty() {
            history.checkpoint(clock, |sink| {
                syncer.write_applied(sink);
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
