//! Decides the scope of the next sync: full, partial, or adoption.
//!
//! Each full sync has one [`FullReason`], which logs and metrics name: full syncs are slow, and
//! should be rare.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::render::{Counter, Options, RerenderReason};

/// Scope of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All chains.
    Full(FullReason),
    /// Chains that differ from those found in the kernel, until the first sync that is applied. If
    /// the rules there cannot be adopted, the sync is [full](Scope::Full).
    Adoption,
    /// Chains whose rendered rules differ from the applied state, and fixed chains and jumps to
    /// repair.
    Partial,
}

impl Scope {
    /// Returns the value in logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full(_) => "full",
            Self::Adoption => "adoption",
            Self::Partial => "partial",
        }
    }
}

/// Reason for a full restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullReason {
    /// First sync; the rules in the kernel could not be adopted.
    First,
    /// A partial restore or an adoption failed, or the state of the kernel is unknown after a
    /// failure.
    Failed,
    /// Another program flushed kube-proxy chains, or changed so many that they are not repaired one
    /// by one. Both have the same value in metrics and logs.
    Flushed,
    /// The zone of this node changed, and with it the meaning of all hints.
    ZoneChanged,
    /// Addresses or Pod networks of this node changed, which all Services depend on.
    NodeChanged,
    /// The interval of periodic full syncs is over.
    Periodic,
}

impl FullReason {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::First,
        Self::Failed,
        Self::Flushed,
        Self::ZoneChanged,
        Self::NodeChanged,
        Self::Periodic,
    ];

    /// Returns the value in logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Failed => "restore_failed",
            Self::Flushed => "flushed",
            Self::ZoneChanged => "zone_changed",
            Self::NodeChanged => "node_changed",
            Self::Periodic => "periodic",
        }
    }
}

/// Minimum interval of periodic full syncs as a multiple of the duration of one: most of them
/// change nothing, and changes of the cluster wait until one ends. On nft a full sync of 50,000
/// Services takes about 65 s, so the interval is 18 hours; with 10,000 Services it is 73 minutes.
///
/// Differs from upstream: kube-proxy makes none in clusters of more than 1,000 endpoints.
const FULL_SYNC_INTERVAL_FACTOR: u32 = 1000;

/// Maximum of the interval by [`FULL_SYNC_INTERVAL_FACTOR`]: a single sync may be slow because of
/// load on the node.
const LONGEST_FULL_SYNC_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// Delay of the next periodic full sync after one that could not read the rules in the kernel, or
/// was rejected before anything was written. Syncs are partial meanwhile.
const PERIODIC_RETRY_DELAY: Duration = Duration::from_secs(300);

/// Results of earlier syncs that the decision depends on.
#[derive(Debug, Default)]
pub(crate) struct SyncHistory {
    /// Time of the last full restore or adoption that succeeded, or of the search that first wrote
    /// what differed from the rules in the kernel; `None` before the first one.
    pub last_full: Option<Instant>,
    /// Duration of the last full restore that succeeded, without adoptions.
    pub full_took: Duration,
    /// Earliest time of the next periodic full sync, after one that failed.
    pub postponed_until: Option<Instant>,
    /// Render options of the last sync that succeeded, also of one that left some Services
    /// unresolved. They stay while the state of the kernel is unknown, unlike
    /// [`Syncer::applied_options`](super::Syncer::applied_options).
    pub last_options: Option<Options>,
}

impl SyncHistory {
    /// Reports whether a full restore or an adoption ever succeeded, or a search wrote what
    /// differed, so that Services have a last applied state.
    pub(crate) const fn has_applied(&self) -> bool {
        self.last_full.is_some()
    }

    /// Returns the nfacct counters of the last sync that succeeded, none before one; partial syncs
    /// use them: only full syncs and adoptions create counters.
    pub(crate) fn counters(&self) -> BTreeSet<Counter> {
        let options = self.last_options.as_ref();
        options.map_or_else(BTreeSet::new, |options| options.counters.clone())
    }

    /// Returns the scope of the next sync with `options` while the kernel is known; `every` is the
    /// interval of periodic full syncs.
    pub(crate) fn scope(&self, options: &Options, every: Duration, now: Instant) -> Scope {
        match self.rerender_reason(options) {
            Some(RerenderReason::Topology) => return Scope::Full(FullReason::ZoneChanged),
            Some(_) => return Scope::Full(FullReason::NodeChanged),
            None => {}
        }
        let by_duration = self.full_took.saturating_mul(FULL_SYNC_INTERVAL_FACTOR);
        let every = every.max(by_duration.min(LONGEST_FULL_SYNC_INTERVAL));
        let is_postponed = self.postponed_until.is_some_and(|until| now < until);
        let is_over = |last_full| now.saturating_duration_since(last_full) >= every;
        if !is_postponed && self.last_full.is_some_and(is_over) {
            return Scope::Full(FullReason::Periodic);
        }
        Scope::Partial
    }

    /// Notes that a full sync or an adoption was applied.
    pub(crate) fn succeeded(&mut self, now: Instant) {
        self.last_full = Some(now);
        self.postponed_until = None;
    }

    /// Postpones the next periodic full sync. Only for a failure after which the applied state
    /// still describes the kernel.
    pub(crate) fn postpone(&mut self, now: Instant) {
        self.postponed_until = Some(now + PERIODIC_RETRY_DELAY);
    }

    /// Returns the reason to rewrite all rules for `options`, if they differ from the last applied
    /// sync in something that all rules depend on.
    pub(crate) fn rerender_reason(&self, options: &Options) -> Option<RerenderReason> {
        RerenderReason::between(self.last_options.as_ref()?, options)
    }
}
