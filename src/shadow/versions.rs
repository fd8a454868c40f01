//! Versions of the rules of one Service: the current one, and those that the kernel does not have
//! yet.
//!
//! A Service that changes more often than kube-proxy syncs never has its current rules in the
//! kernel. So each version is kept until the kernel has it or a later one.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use super::live::{DispatchKey, LiveTables, digest_of_rule, digest_of_rules};
use crate::model::ServiceName;
use crate::render::ServiceRules;
use crate::rules::{ChainSet, RulesDigest, Table, rules_of_lines};
use crate::ruleset::ServiceChain;
use crate::status::ShadowKind;

/// Maximum versions of one Service that wait for a kube-proxy that does not sync.
const MOST_VERSIONS: usize = 100;

/// Time by both clocks: the one that is never set orders events, and trigger times are read from
/// the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) instant: Instant,
    pub(super) wall: SystemTime,
}

impl Moment {
    /// Returns the time by both clocks at an earlier `instant`.
    pub(super) fn back_to(self, instant: Instant) -> Self {
        let ago = self.instant.saturating_duration_since(instant);
        let wall = self.wall.checked_sub(ago).unwrap_or(self.wall);
        Self { instant, wall }
    }
}

/// Rules of one Service as digests without comments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServiceVersion {
    pub(super) chains: Vec<(ServiceChain, RulesDigest)>,
    pub(super) dispatch: Vec<DispatchKey>,
}

impl ServiceVersion {
    pub(super) fn rendered(rules: &ServiceRules) -> Self {
        let text = |bytes| str::from_utf8(bytes).unwrap_or_default();
        Self {
            chains: rules
                .chains()
                .map(|(recorded, lines)| {
                    (recorded.chain, digest_of_rules(rules_of_lines(text(lines))))
                })
                .collect(),
            dispatch: rules
                .dispatch_rules()
                .map(|(chain, rule)| (chain, digest_of_rule(text(rule).trim())))
                .collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chains.is_empty() && self.dispatch.is_empty()
    }

    pub(super) fn chains(&self) -> impl Iterator<Item = ServiceChain> + Clone {
        self.chains.iter().map(|(chain, _)| *chain)
    }

    /// Reports whether the kernel has exactly these rules for the Service.
    fn is_live(
        &self,
        name: &ServiceName,
        live: &LiveTables,
        former: &BTreeSet<DispatchKey>,
    ) -> bool {
        self.differences(name, live, former).next().is_none()
    }

    /// Returns the differences to the kernel, which should have none of the `former` rules for this
    /// Service. Another Service may have the same rule, such as to reject packets to an external IP
    /// that both have.
    fn differences(
        &self,
        name: &ServiceName,
        live: &LiveTables,
        former: &BTreeSet<DispatchKey>,
    ) -> impl Iterator<Item = (ShadowKind, Table, String)> {
        let chains = self.chains.iter().filter_map(|(chain, desired)| {
            let kind = match live.chain(*chain) {
                None => ShadowKind::MissingChain,
                Some(found) if !found.is_same(*desired) => ShadowKind::ChangedChain,
                Some(_) => return None,
            };
            Some((kind, Table::Nat, chain.name()))
        });
        let missing = self.dispatch.iter().filter(|rule| !live.has_rule(rule));
        let missing = missing.map(|(chain, _)| (ShadowKind::MissingRule, *chain));
        let stale = former.iter().filter(|rule| live.has_rule_of(rule, name));
        let stale = stale.map(|(chain, _)| (ShadowKind::StaleRule, *chain));
        let rules = missing.chain(stale);
        chains.chain(rules.map(|(kind, chain)| (kind, chain.table(), chain.name().to_owned())))
    }
}

/// Write of rules in the kernel by another program, such as an nftables transaction, and the chains
/// that it may have changed.
#[derive(Debug, Clone)]
pub(super) struct TableWrite {
    pub(super) at: Moment,
    pub(super) chains: ChainSet,
}

/// Writes of the tables, oldest first.
#[derive(Debug, Default)]
pub(super) struct TableWrites {
    pub(super) all: Vec<TableWrite>,
    /// Some writes are not in it, because they are not detected or were too many.
    pub(super) is_incomplete: bool,
}

impl TableWrites {
    /// Takes the writes before this time, and forgets that writes were missing.
    pub(super) fn take_before(&mut self, time: Instant) -> impl Iterator<Item = TableWrite> {
        self.is_incomplete = false;
        let is_earlier = move |write: &mut TableWrite| write.at.instant < time;
        self.all.extract_if(.., is_earlier)
    }
}

impl TableWrite {
    fn has(&self, table: Table, chain: &str) -> bool {
        self.chains.has_table(table)
            || self
                .chains
                .named()
                .any(|(of, name)| of == table && name == chain)
    }
}

/// Version after a change of a Service.
#[derive(Debug)]
pub(super) struct NewVersion {
    pub(super) version: ServiceVersion,
    pub(super) triggers: Vec<SystemTime>,
    pub(super) arrived: Moment,
}

/// Version that the kernel does not have yet.
#[derive(Debug)]
struct WaitingVersion {
    version: ServiceVersion,
    /// Dispatch rules of earlier versions that this one does not have.
    former_rules: BTreeSet<DispatchKey>,
    /// Chains of this version and the one before: one of them is written with it.
    chains: BTreeSet<ServiceChain>,
    triggers: Vec<SystemTime>,
    arrived: Moment,
    /// Start of the last reading that did not have this version, or its arrival: the kernel got it
    /// later.
    absent_at: Instant,
}

impl WaitingVersion {
    /// Returns the number of its changes: that of its trigger times, or if there are none, one.
    fn changes(&self) -> u64 {
        self.triggers.len().max(1) as u64
    }

    fn digests(&self) -> usize {
        self.version.chains.len() + self.chains.len() + self.former_rules.len()
    }

    /// Returns the time at which the kernel got this version, which a reading found: the first
    /// write of its chains, or of the dispatch chains, since the last reading without it. Without
    /// any, kube-proxy was faster than the arrival here; `None` if writes are missing.
    fn written_at(&self, writes: &TableWrites) -> Option<Moment> {
        let mut later = writes
            .all
            .iter()
            .filter(|write| write.at.instant >= self.absent_at);
        let names: Vec<String> = self.chains.iter().map(|chain| chain.name()).collect();
        let of_service = later
            .clone()
            .find(|write| names.iter().any(|name| write.has(Table::Nat, name)));
        of_service
            .or_else(|| {
                later.find(|write| {
                    let rules = self.version.dispatch.iter().chain(&self.former_rules);
                    rules
                        .into_iter()
                        .any(|(chain, _)| write.has(chain.table(), chain.name()))
                })
            })
            .map(|write| write.at)
            .or_else(|| (!writes.is_incomplete).then_some(self.arrived))
    }
}

/// Time that one change took to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangeLag {
    pub(super) lag: Duration,
    /// Counted from a trigger time, not from the arrival of the change here.
    pub(super) is_triggered: bool,
}

/// Changes whose versions a reading has found in the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObservedChanges {
    pub(super) lags: Vec<ChangeLag>,
    /// Number of those whose time is unknown.
    pub(super) unmeasured: u64,
}

/// Rules of one Service, in the kernel and desired.
#[derive(Debug, Default)]
pub(super) struct ServiceVersions {
    pub(super) current: ServiceVersion,
    /// Dispatch rules of earlier versions that the current one does not have, and that the kernel
    /// may still have.
    former_rules: BTreeSet<DispatchKey>,
    waiting: VecDeque<WaitingVersion>,
    /// Time since which the kernel has other rules than the oldest version that waits, or than the
    /// current one.
    pub(super) differs_since: Option<Instant>,
    pub(super) is_logged: bool,
}

impl ServiceVersions {
    /// Replaces all versions by one whose lag is not measured; a reading has to follow.
    pub(super) fn replace(&mut self, version: ServiceVersion) {
        self.waiting.clear();
        self.advance(version);
    }

    fn advance(&mut self, version: ServiceVersion) {
        let before = std::mem::replace(&mut self.current, version);
        self.former_rules.extend(before.dispatch);
        for rule in &self.current.dispatch {
            self.former_rules.remove(rule);
        }
    }

    /// Adds a version. Returns the lags of its changes if the kernel has it already. If the memory
    /// of versions that wait is used up, the other ones of the Service are not measured.
    pub(super) fn add(
        &mut self,
        name: &ServiceName,
        new: NewVersion,
        live: Option<&LiveTables>,
        is_memory_full: bool,
    ) -> ObservedChanges {
        let mut observed = ObservedChanges::default();
        let NewVersion {
            version,
            triggers,
            arrived,
        } = new;
        let chains = self.current.chains().chain(version.chains()).collect();
        self.advance(version);
        let waiting = WaitingVersion {
            version: self.current.clone(),
            former_rules: self.former_rules.clone(),
            chains,
            triggers,
            arrived,
            absent_at: arrived.instant,
        };
        // With an earlier version that waits, the kernel may have this one only because it has not
        // got the earlier one yet.
        let is_live = live.is_some_and(|live| self.current.is_live(name, live, &self.former_rules));
        if self.waiting.is_empty() && is_live {
            self.mark_equal();
            observed.lags = lags(&waiting.triggers, arrived, arrived).collect();
            return observed;
        }
        self.differs_since.get_or_insert(arrived.instant);
        self.waiting.push_back(waiting);
        let most = if is_memory_full { 1 } else { MOST_VERSIONS };
        let dropped = self.waiting.len().saturating_sub(most);
        let dropped = self.waiting.drain(..dropped);
        observed.unmeasured = dropped.map(|version| version.changes()).sum();
        observed
    }

    /// Compares the versions with a reading that began at `read`, after these writes of the tables.
    /// Returns the lags of the changes whose versions the kernel has got. A version that arrived
    /// during the reading stays for the next one: the kernel may have got it before or after its
    /// chains were read.
    pub(super) fn observe(
        &mut self,
        name: &ServiceName,
        live: &LiveTables,
        writes: &TableWrites,
        read: Instant,
    ) -> ObservedChanges {
        let is_live = |waiting: &WaitingVersion| {
            let former = &waiting.former_rules;
            waiting.arrived.instant < read && waiting.version.is_live(name, live, former)
        };
        let last = self.waiting.iter().rposition(is_live);
        let mut observed = ObservedChanges::default();
        for done in self.waiting.drain(..last.map_or(0, |last| last + 1)) {
            match done.written_at(writes) {
                Some(at) => observed.lags.extend(lags(&done.triggers, done.arrived, at)),
                None => observed.unmeasured += done.changes(),
            }
        }
        for waiting in &mut self.waiting {
            waiting.absent_at = waiting.absent_at.max(read);
        }
        if let Some(oldest) = self.waiting.front() {
            if last.is_some() {
                self.differs_since = Some(oldest.arrived.instant);
                self.is_logged = false;
            }
        } else if self.current.is_live(name, live, &self.former_rules) {
            self.mark_equal();
        } else {
            self.differs_since.get_or_insert(read);
        }
        observed
    }

    /// Notes that the kernel has exactly the current rules.
    fn mark_equal(&mut self) {
        self.former_rules.clear();
        self.differs_since = None;
        self.is_logged = false;
    }

    /// Returns the rules of the Service in dispatch chains: those of the current version, and of
    /// earlier ones.
    pub(super) fn dispatch_rules(&self) -> impl Iterator<Item = &DispatchKey> + Clone {
        self.current.dispatch.iter().chain(&self.former_rules)
    }

    /// Returns the number of digests of the versions that wait, as a measure of their memory.
    pub(super) fn waiting_digests(&self) -> usize {
        self.waiting.iter().map(WaitingVersion::digests).sum()
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the differences of the current version to the kernel.
    pub(super) fn differences(
        &self,
        name: &ServiceName,
        live: &LiveTables,
    ) -> impl Iterator<Item = (ShadowKind, Table, String)> {
        self.current.differences(name, live, &self.former_rules)
    }
}

/// Returns the lags of the changes of one version: those with trigger times, or if there are none,
/// that of its arrival.
fn lags(
    triggers: &[SystemTime],
    arrived: Moment,
    written: Moment,
) -> impl Iterator<Item = ChangeLag> {
    let untriggered = triggers.is_empty().then(|| ChangeLag {
        lag: written.instant.saturating_duration_since(arrived.instant),
        is_triggered: false,
    });
    let triggered = triggers.iter().map(move |trigger| ChangeLag {
        // A clock that was set back counts as no lag.
        lag: written.wall.duration_since(*trigger).unwrap_or_default(),
        is_triggered: true,
    });
    untriggered.into_iter().chain(triggered)
}

#[cfg(test)]
#[path = "tests/versions.rs"]
mod tests;
