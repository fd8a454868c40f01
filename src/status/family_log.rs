//! Log of the syncs and comparisons of one family, from which pages are made.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::document::{DriftRecord, FamilyStatus, SyncRecord};
use crate::net::IpFamily;

/// Syncs that are kept, as many as the sparkline of the page shows: 200 bytes each.
const MOST_SYNCS: usize = 200;

/// Changes by other programs that are kept: as many as fit on a screen.
const MOST_DRIFT: usize = 20;

/// Time for which changes by other programs are kept.
const DRIFT_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// State of a family since the start of the process. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FamilyLog(Arc<Mutex<FamilyStatus>>);

impl FamilyLog {
    /// Returns the state of a family that has not begun.
    pub(crate) fn new(family: IpFamily) -> Self {
        let status = FamilyStatus {
            family: family.to_string(),
            ..FamilyStatus::default()
        };
        Self(Arc::new(Mutex::new(status)))
    }

    /// Changes the state.
    pub(crate) fn update(&self, change: impl FnOnce(&mut FamilyStatus)) {
        // A change that panicked leaves a valid state: each field is valid on its own.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the state at this time.
    pub(crate) fn status(&self, now: Timestamp) -> FamilyStatus {
        let mut status = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        status
            .drift
            .retain(|drift| now.duration_since(drift.at) < DRIFT_KEPT);
        status
    }
}

impl FamilyStatus {
    /// Notes a sync that was applied.
    pub(crate) fn synced(&mut self, sync: SyncRecord) {
        if sync.bytes > 0 {
            if self.recent_syncs.len() == MOST_SYNCS {
                self.recent_syncs.remove(0);
            }
            self.recent_syncs.push(sync.clone());
        }
        match sync.scope.as_str() {
            "partial" if sync.bytes == 0 => {}
            "partial" => self.last_partial = Some(sync),
            _ => self.last_full = Some(sync),
        }
    }

    /// Notes rules that another program changed.
    pub(crate) fn drifted(&mut self, drift: DriftRecord) {
        self.drift.truncate(MOST_DRIFT - 1);
        self.drift.insert(0, drift);
    }

    /// Returns the state without the list of syncs, which only the page shows.
    pub(crate) fn without_recent_syncs(mut self) -> Self {
        self.recent_syncs.clear();
        self
    }
}
