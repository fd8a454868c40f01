//! Which failures are worth a line in the log.
//!
//! Apart because a server that is away for an hour fails hundreds of times for one reason.

/// A run of failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Outage {
    failures: u32,
    status: Option<u16>,
}

/// At most this many failures, a quarter of an hour of them, go by in silence.
const LONGEST_SILENCE: u32 = 32;

impl Outage {
    /// Counts a failure. Returns how many it were if that is to be said: at the first, when the
    /// server gives another answer than before, and then ever more rarely.
    pub(super) fn failed(&mut self, status: Option<u16>) -> Option<u32> {
        let is_new = self.status != status;
        self.status = status;
        self.failures = self.failures.saturating_add(1);
        let is_due =
            self.failures.is_power_of_two() || self.failures.is_multiple_of(LONGEST_SILENCE);
        (is_new || is_due).then_some(self.failures)
    }

    /// Ends it. Returns how many failures there were, unless none.
    pub(super) fn ended(&mut self) -> Option<u32> {
        let failures = std::mem::take(self).failures;
        (failures > 0).then_some(failures)
    }
}
