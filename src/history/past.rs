//! Finds the checkpoint and the payloads that make up the rules of a moment.

use std::path::PathBuf;

use jiff::Timestamp;

use super::folder::{HistoryEntry, HistoryFiles};
use super::record::{CHECKPOINT_SCOPE, CheckpointHead, HistoryRecord};
use crate::net::{IpFamily, PerFamily};

/// Rules of one family at a moment: the payloads are applied to the checkpoint, in order.
#[derive(Debug)]
pub(crate) struct PastRules {
    pub checkpoint: PathBuf,
    pub payloads: Vec<String>,
    /// Time of the last change.
    pub since: Timestamp,
    /// Reasons for which the kernel may have had other rules.
    pub notes: Vec<String>,
}

/// Finds the rules of each family at a moment. `None`: the history has nothing of the family. The
/// error is the reason for which they are not known.
pub(crate) fn rules_at(
    files: &HistoryFiles,
    at: Timestamp,
) -> PerFamily<Option<Result<PastRules, String>>> {
    let mut searches = PerFamily::from_fn(|_| Search::new(at));
    files.read(&mut |entry| match entry {
        HistoryEntry::Record(record) => {
            if let Some(family) = IpFamily::from_api(&record.family) {
                searches.get_mut(family).record(*record);
            }
        }
        HistoryEntry::Checkpoint(family, head, path) => {
            searches.get_mut(family).checkpoint(head, path);
        }
    });
    searches.map(|family, search| search.result(family))
}

/// Search for the rules of one family, entry by entry.
struct Search {
    at: Timestamp,
    state: Option<Result<PastState, PastGap>>,
    /// An entry after the moment was found.
    is_over: bool,
    next_checkpoint: Option<Timestamp>,
}

struct PastState {
    rules: PastRules,
    process: u64,
    number: u64,
}

/// The rules are not known since this time.
struct PastGap {
    since: Timestamp,
    reason: String,
}

impl Search {
    const fn new(at: Timestamp) -> Self {
        Self {
            at,
            state: None,
            is_over: false,
            next_checkpoint: None,
        }
    }

    fn checkpoint(&mut self, head: CheckpointHead, path: PathBuf) {
        if head.at > self.at {
            self.next_checkpoint.get_or_insert(head.at);
            // Its last change may be one without a record, and came after the moment.
            return self.end(head.process, head.number, head.at);
        }
        self.state = Some(Ok(PastState {
            rules: PastRules {
                checkpoint: path,
                payloads: Vec::new(),
                since: head.at,
                notes: Vec::new(),
            },
            process: head.process,
            number: head.number,
        }));
    }

    fn record(&mut self, record: HistoryRecord) {
        if record.at > self.at {
            self.drifted(&record);
            return self.end(record.process, record.number, record.at);
        }
        let since = record.at;
        let unknown = |reason: &str| {
            let reason = reason.to_owned();
            Some(Err(PastGap { since, reason }))
        };
        self.state = match self.state.take() {
            // The changes of its number may be in a record that has been read.
            _ if record.scope == CHECKPOINT_SCOPE => unknown(&record.error),
            Some(Ok(known)) if known.is_before(&record) => match known.after(record) {
                Ok(known) => Some(Ok(known)),
                Err(reason) => unknown(reason),
            },
            Some(Ok(_)) => unknown("records are missing, or the process was restarted"),
            None => unknown("there is no checkpoint before"),
            Some(Err(known)) => Some(Err(known)),
        };
    }

    /// Notes changes by other programs before the moment that were repaired after it.
    fn drifted(&mut self, record: &HistoryRecord) {
        let mut drift = record.drift.iter().filter(|drift| drift.at <= self.at);
        let (Some(Ok(known)), false) = (&mut self.state, self.is_over) else {
            return;
        };
        if let Some(first) = drift.next() {
            known.rules.notes.push(format!(
                "at {} another program had changed rules ({}), which were repaired at {}",
                first.at, first.names, record.at
            ));
        }
    }

    /// Handles the first entry after the moment: it shows whether records before it are missing.
    fn end(&mut self, process: u64, number: u64, at: Timestamp) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let Some(Ok(known)) = &mut self.state else {
            return;
        };
        let is_restarted = known.process != process;
        let last = if is_restarted { 0 } else { known.number };
        if number > last + 1 {
            let (since, reason) = (known.rules.since, "records are missing".to_owned());
            self.state = Some(Err(PastGap { since, reason }));
        } else if is_restarted {
            known.rules.notes.push(format!(
                "the process was restarted before {at}: records of its last syncs may be missing"
            ));
        }
    }

    fn result(self, family: IpFamily) -> Option<Result<PastRules, String>> {
        let again = match self.next_checkpoint {
            Some(at) => format!("they are known again from {at} on"),
            None => "there is no later checkpoint".to_owned(),
        };
        Some(match self.state {
            Some(Ok(known)) => Ok(known.rules),
            Some(Err(PastGap { since, reason })) => Err(format!(
                "the {family} rules are not known after {since}: {reason}; {again}"
            )),
            // Nothing of this family, or all after the moment.
            None => Err(format!(
                "the oldest {family} rules in the history are of {}",
                self.next_checkpoint?
            )),
        })
    }
}

impl PastState {
    fn is_before(&self, record: &HistoryRecord) -> bool {
        self.process == record.process && self.number + 1 == record.number
    }

    /// Adds the next record. The error is the reason for which the rules are not known after it.
    fn after(mut self, record: HistoryRecord) -> Result<Self, &'static str> {
        self.number = record.number;
        if !record.error.is_empty() {
            let note = format!(
                "the restore at {} failed: the kernel may have had a part of its changes",
                record.at
            );
            self.rules.notes = vec![note];
            return Ok(self);
        }
        if record.is_truncated {
            return Err("the payload of a record is too large and cut off");
        }
        if record.payload.is_empty() {
            return Err("all rules were written, and no checkpoint of them follows");
        }
        self.rules.notes.clear();
        self.rules.since = record.at;
        self.rules.payloads.push(record.payload);
        Ok(self)
    }
}
