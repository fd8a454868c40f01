//! Comparison of the rules in the kernel with the desired ones: which Services differ since when,
//! and how long changes took.
//!
//! A Service that changes more often than kube-proxy syncs never has its current rules in the
//! kernel. So each version of its rules is kept until the kernel has it or a later one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use hashbrown::{HashMap, HashSet};

use super::live::{DispatchKey, LiveTables, digest_of_rule, digest_of_rules};
use crate::model::ServiceName;
use crate::render::{GuardedChainState, Options, ServiceRules, node_ports_jumps};
use crate::rules::{ChainSet, RulesDigest, Table, rules_of_lines};
use crate::ruleset::{KUBE_SERVICES, ServiceChain};
use crate::status::{LagHistogram, ShadowDifference, ShadowKind};

/// Age from which a difference is reported. kube-proxy syncs changes after its minimum sync period,
/// by default a second, and retries a sync that failed after its sync period, by default 30 s; in
/// large clusters it keeps stale chains for as long. Twice that leaves room for a sync that takes
/// long.
pub(super) const LATE_AFTER: Duration = Duration::from_secs(60);

/// Maximum digests of versions that wait for kube-proxy: some tens of megabytes. Beyond it, one
/// version of each Service waits.
const MOST_WAITING_DIGESTS: usize = 500_000;

/// Tables whose rules are compared: kube-proxy has only a canary in mangle.
pub(super) const COMPARED: [Table; 2] = [Table::Filter, Table::Nat];

/// Difference that is not of the current rules of a Service: the Service that a comment names or an
/// empty text, kind, table and chain.
type UnownedDifference = (String, ShadowKind, Table, String);

#[derive(Debug, Default)]
pub(super) struct Comparison {
    services: BTreeMap<ServiceName, ServiceVersions>,
    /// Digests of all versions that wait.
    waiting_digests: usize,
    /// Services that had a chain which the kernel may still have.
    former_owners: HashMap<ServiceChain, ServiceName>,
    /// Differences of rules that no Service desires and of fixed chains: the times since which they
    /// exist, and whether they were logged.
    unowned: BTreeMap<UnownedDifference, (Instant, bool)>,
    /// Changes that await the next sync of this program: their trigger time, if they have one, and
    /// their arrival.
    awaiting_sync: Vec<(Option<SystemTime>, Instant)>,
    pub(super) kube_proxy_lag: LagHistogram,
    pub(super) kube_proxy_triggered_lag: LagHistogram,
    /// Number of changes that kube-proxy has written at an unknown time.
    pub(super) unmeasured: u64,
    pub(super) own_lag: LagHistogram,
}

/// Differences that are older than [`LATE_AFTER`].
#[derive(Debug, Default)]
pub(super) struct LateDifferences {
    pub(super) all: Vec<ShadowDifference>,
    /// Those that no earlier call returned.
    pub(super) new: Vec<ShadowDifference>,
    /// Number of Services whose changes kube-proxy has not written since.
    pub(super) waiting_services: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ServiceCounts {
    pub(super) with_rules: usize,
    /// The kernel does not have their last changes yet.
    pub(super) waiting: usize,
    /// The kernel has other rules, whether or not they have changes.
    pub(super) differing: usize,
}

impl Comparison {
    /// Replaces the rules of all Services, without measuring lags: at the start, and after changes
    /// of options that all rules depend on. A reading has to follow.
    pub(super) fn replace_all(&mut self, rendered: Vec<(ServiceName, ServiceVersion)>) {
        let mut rendered: BTreeMap<_, _> = rendered.into_iter().collect();
        for (name, versions) in &mut self.services {
            versions.replace(rendered.remove(name).unwrap_or_default());
        }
        self.waiting_digests = 0;
        for (name, version) in rendered {
            self.services.entry(name).or_default().replace(version);
        }
    }

    /// Adds the rules that a Service has after changes. Without a
    /// difference to the rules before, nothing is measured: nothing would be written.
    pub(super) fn change(
        &mut self,
        name: &ServiceName,
        new: NewVersion,
        live: Option<&LiveTables>,
    ) -> Vec<ChangeLag> {
        let versions = self.services.entry(name.clone()).or_default();
        if versions.current == new.version {
            return Vec::new();
        }
        let arrived = new.arrived.instant;
        if new.triggers.is_empty() {
            self.awaiting_sync.push((None, arrived));
        }
        let triggers = new.triggers.iter().map(|trigger| (Some(*trigger), arrived));
        self.awaiting_sync.extend(triggers);
        let removed = versions.current.chains().filter(|chain| {
            let mut kept = new.version.chains();
            !kept.any(|other| other == *chain)
        });
        self.former_owners
            .extend(removed.map(|chain| (chain, name.clone())));
        let before = versions.waiting_digests();
        let observed = versions.add(name, new, live, self.waiting_digests > MOST_WAITING_DIGESTS);
        self.waiting_digests += versions.waiting_digests();
        self.waiting_digests -= before;
        self.add_changes(&observed);
        observed.lags
    }

    /// Compares a reading that began at `read`, after these writes of the tables. Returns the lags
    /// of the changes that the kernel has got.
    pub(super) fn observe(
        &mut self,
        live: &LiveTables,
        options: &Options,
        writes: &TableWrites,
        read: Instant,
    ) -> Vec<ChangeLag> {
        let mut all = ObservedChanges::default();
        self.waiting_digests = 0;
        self.services.retain(|name, versions| {
            let observed = versions.observe(name, live, writes, read);
            all.lags.extend(observed.lags);
            all.unmeasured += observed.unmeasured;
            self.waiting_digests += versions.waiting_digests();
            let is_gone = versions.current.is_empty() && versions.differs_since.is_none();
            !is_gone || versions.is_waiting()
        });
        self.add_changes(&all);
        let mut found = stale_rules(&self.services, live);
        found.extend(self.stale_chains(live));
        found.extend(differences_of_fixed_chains(live, options));
        let known = std::mem::take(&mut self.unowned);
        self.unowned = found
            .into_iter()
            .map(|difference| {
                let state = known.get(&difference).copied();
                (difference, state.unwrap_or((read, false)))
            })
            .collect();
        all.lags
    }

    fn add_changes(&mut self, observed: &ObservedChanges) {
        self.unmeasured += observed.unmeasured;
        for lag in &observed.lags {
            self.kube_proxy_lag.add(lag.lag);
            if lag.is_triggered {
                self.kube_proxy_triggered_lag.add(lag.lag);
            }
        }
    }

    /// Returns the Service chains in the kernel that no Service has.
    fn stale_chains(&mut self, live: &LiveTables) -> Vec<UnownedDifference> {
        self.former_owners
            .retain(|chain, _| live.chain(*chain).is_some());
        let current = self
            .services
            .values()
            .flat_map(|service| service.current.chains());
        let found = current.clone().filter(|chain| live.chain(*chain).is_some());
        // Usually there are none, and a set of all chains would take megabytes.
        if found.count() == live.chains().len() {
            return Vec::new();
        }
        let current: HashSet<ServiceChain> = current.collect();
        let stale = live.chains().filter(|chain| !current.contains(chain));
        stale
            .map(|chain| {
                let service = self
                    .former_owners
                    .get(&chain)
                    .map(ToString::to_string)
                    .unwrap_or_default();
                (service, ShadowKind::StaleChain, Table::Nat, chain.name())
            })
            .collect()
    }

    /// Returns the lags of all changes since the last sync of this program, which ended now.
    pub(super) fn synced(&mut self, now: Moment) -> Vec<Duration> {
        let lags: Vec<Duration> = std::mem::take(&mut self.awaiting_sync)
            .into_iter()
            .map(|(trigger, arrived)| match trigger {
                Some(trigger) => now.wall.duration_since(trigger).unwrap_or_default(),
                None => now.instant.saturating_duration_since(arrived),
            })
            .collect();
        for lag in &lags {
            self.own_lag.add(*lag);
        }
        lags
    }

    pub(super) fn counts(&self) -> ServiceCounts {
        let count = |is_counted: fn(&ServiceVersions) -> bool| {
            let services = self.services.values();
            services.filter(|service| is_counted(service)).count()
        };
        ServiceCounts {
            with_rules: count(|service| !service.current.is_empty()),
            waiting: count(ServiceVersions::is_waiting),
            differing: count(|service| service.differs_since.is_some()),
        }
    }

    /// Returns the differences to the last reading that are late by now, sorted.
    pub(super) fn late(&mut self, live: &LiveTables, now: Instant) -> LateDifferences {
        let mut late = LateDifferences::default();
        let age = |since: Instant| now.saturating_duration_since(since);
        for (name, versions) in &mut self.services {
            let Some(since) = versions.differs_since else {
                continue;
            };
            if age(since) < LATE_AFTER {
                continue;
            }
            late.waiting_services += usize::from(versions.is_waiting());
            let found = versions
                .differences(name, live)
                .map(|(kind, table, chain)| {
                    let is_waiting = versions.is_waiting();
                    let difference = (name.to_string(), kind, table, chain);
                    to_document(difference, age(since), is_waiting)
                });
            let found: Vec<_> = found.collect();
            if !versions.is_logged && !found.is_empty() {
                versions.is_logged = true;
                late.new.extend(found.iter().cloned());
            }
            late.all.extend(found);
        }
        for (difference, (since, is_logged)) in &mut self.unowned {
            if age(*since) < LATE_AFTER {
                continue;
            }
            let found = to_document(difference.clone(), age(*since), false);
            if !std::mem::replace(is_logged, true) {
                late.new.push(found.clone());
            }
            late.all.push(found);
        }
        // Those that affect packets first: only some are shown.
        late.all.sort_by(|one, other| {
            let key = |found: &ShadowDifference| !found.kind.affects_packets();
            key(one).cmp(&key(other)).then_with(|| one.cmp(other))
        });
        late.new.sort();
        late
    }
}

fn to_document(
    (service, kind, table, chain): UnownedDifference,
    age: Duration,
    is_waiting: bool,
) -> ShadowDifference {
    ShadowDifference {
        service,
        kind,
        table: table.to_string(),
        chain,
        seconds: age.as_secs(),
        is_waiting,
    }
}

/// Returns the rules in dispatch chains that no Service has. Those that a Service had before are a
/// difference of that Service.
fn stale_rules(
    services: &BTreeMap<ServiceName, ServiceVersions>,
    live: &LiveTables,
) -> Vec<UnownedDifference> {
    let known = services.values().flat_map(ServiceVersions::dispatch_rules);
    let found = known.clone().filter(|rule| live.has_rule(rule));
    if found.count() == live.dispatch_rules().len() {
        return Vec::new();
    }
    let known: HashSet<&DispatchKey> = known.collect();
    let unknown = live
        .dispatch_rules()
        .filter(|(rule, _)| !known.contains(rule));
    let differences = unknown.map(|((chain, _), service)| {
        let service = service.map(ToString::to_string).unwrap_or_default();
        let name = chain.name().to_owned();
        (service, ShadowKind::StaleRule, chain.table(), name)
    });
    differences.collect()
}

/// Returns the differences of fixed chains, entry jumps, and jumps to `KUBE-NODEPORTS`.
fn differences_of_fixed_chains(live: &LiveTables, options: &Options) -> Vec<UnownedDifference> {
    let mut found = Vec::new();
    let mut add = |kind, table, chain: &str| {
        found.push((String::new(), kind, table, chain.to_owned()));
    };
    for table in COMPARED {
        let state = GuardedChainState::of(table, live.listing(table), &[], options);
        for chain in state.incomplete_chains.iter().chain(&state.edited_chains) {
            add(ShadowKind::FixedChain, table, chain);
        }
        for jump in state.missing_jumps {
            add(ShadowKind::Jump, table, jump.from);
        }
    }
    let jumps = node_ports_jumps(options);
    let mut jumps = rules_of_lines(&jumps).map(|rule| digest_of_rules(std::iter::once(rule)));
    if jumps.any(|jump| !live.has_node_ports_jump(jump)) {
        add(ShadowKind::Jump, Table::Nat, KUBE_SERVICES);
    }
    found
}

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
                .map(|(chain, lines)| (chain, digest_of_rules(rules_of_lines(text(lines)))))
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
#[path = "tests/comparison.rs"]
mod comparison_tests;

#[cfg(test)]
#[path = "tests/versions.rs"]
mod versions_tests;
