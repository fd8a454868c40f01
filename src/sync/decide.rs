//! How much the next sync restores.
//!
//! Apart, and pure, because "why was this a full sync" is asked of every slow one, and the answer
//! should be one word of one enum.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::render::{Counters, Options, Rewrite, Setting};

/// How much is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every chain.
    Full(FullReason),
    /// The chains that differ from what the kernel was found to hold. Whatever is in doubt makes
    /// it [full](Scope::Full).
    Adoption,
    /// The chains that differ from what the kernel holds.
    Partial,
}

impl Scope {
    /// As logs and metric labels have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full(_) => "full",
            Self::Adoption => "adoption",
            Self::Partial => "partial",
        }
    }
}

/// Why a restore has to be full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullReason {
    /// Nothing was known of the kernel, and what is there could not be taken over.
    First,
    /// The last restore failed: nobody knows what the kernel holds.
    Failed,
    /// Somebody flushed or changed our chains.
    Flushed,
    /// This node moved to another zone: hints mean something else for every Service.
    ZoneChanged,
    /// What all Services' rules depend on changed: this node's addresses or pod networks.
    NodeChanged,
    /// The last one is long ago.
    Periodic,
}

impl FullReason {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::First,
        Self::Failed,
        Self::Flushed,
        Self::ZoneChanged,
        Self::NodeChanged,
        Self::Periodic,
    ];

    /// As logs and metric labels have it.
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

/// How much longer than a full sync took is waited for the next periodic one: a thousandth of the
/// time may go into what most likely changes nothing. 50,000 Services take a minute on nft, in
/// which no change reaches the kernel; they get one in 18 hours, and 10,000 one in 73 minutes.
///
/// Upstream makes none in clusters of more than 1,000 endpoints.
const FULL_SYNCS_APART: u32 = 1000;

/// The longest that they are apart for that: one sync may have been slow because of others.
const LONGEST_APART: Duration = Duration::from_secs(24 * 3600);

/// The wait after a periodic full sync that could not read the kernel's rules, or was refused
/// before anything was written. Syncs go on in the meantime, as partial ones.
const POSTPONED: Duration = Duration::from_secs(300);

/// What earlier syncs left behind for this decision.
#[derive(Debug, Default)]
pub struct History {
    /// When a full sync last succeeded.
    pub last_full: Option<Instant>,
    /// How long the last one took that wrote everything.
    pub full_took: Duration,
    /// No periodic one before this, after one that failed.
    pub postponed_until: Option<Instant>,
    /// What makes the next one full, the first reason winning.
    pub must_be_full: Option<FullReason>,
    /// What the last rendering depended on besides the Services.
    pub options: Option<Options>,
    /// The zone that it was for.
    pub zone: Option<Arc<str>>,
}

impl History {
    /// Notes that the next sync has to be full.
    pub fn force_full(&mut self, reason: FullReason) {
        self.must_be_full.get_or_insert(reason);
    }

    /// The counters that the last rendering named. They are looked after by full syncs only.
    pub fn counters(&self) -> Option<Counters> {
        self.options.as_ref().map(|options| options.counters)
    }

    /// How much the next sync restores, if it renders with `setting`.
    pub fn scope(&self, setting: Setting<'_>, every: Duration, now: Instant) -> Scope {
        let Some(last_full) = self.last_full else {
            return self.must_be_full.map_or(Scope::Adoption, Scope::Full);
        };
        if let Some(reason) = self.must_be_full {
            return Scope::Full(reason);
        }
        match self.rewrite(setting) {
            Some(Rewrite::Zone) => return Scope::Full(FullReason::ZoneChanged),
            Some(_) => return Scope::Full(FullReason::NodeChanged),
            None => {}
        }
        let apart = self.full_took.saturating_mul(FULL_SYNCS_APART);
        let every = every.max(apart.min(LONGEST_APART));
        let is_postponed = self.postponed_until.is_some_and(|until| now < until);
        if !is_postponed && now.saturating_duration_since(last_full) >= every {
            return Scope::Full(FullReason::Periodic);
        }
        Scope::Partial
    }

    /// A full sync succeeded.
    pub fn succeeded(&mut self, now: Instant) {
        self.last_full = Some(now);
        self.must_be_full = None;
        self.postponed_until = None;
    }

    /// The next periodic full sync comes some time later: what is known still holds without it.
    pub fn postpone(&mut self, now: Instant) {
        self.postponed_until = Some(now + POSTPONED);
    }

    /// Reason to write all rules anew for `setting`, if there is one.
    pub fn rewrite(&self, setting: Setting<'_>) -> Option<Rewrite> {
        let known = Setting {
            options: self.options.as_ref()?,
            zone: self.zone.as_deref(),
        };
        Rewrite::needed(known, setting)
    }
}
