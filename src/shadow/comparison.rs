//! Comparison of the rules in the kernel with the desired ones: which Services differ since when,
//! and how long changes took.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use hashbrown::{HashMap, HashSet};

use super::live::{DispatchKey, LiveTables, digest_of_rules};
use super::versions::{
    ChangeLag, Moment, NewVersion, ObservedChanges, ServiceVersion, ServiceVersions, TableWrites,
};
use crate::model::ServiceName;
use crate::render::{GuardedChainState, Options, node_ports_jumps};
use crate::rules::{Table, rules_of_lines};
use crate::ruleset::{KUBE_SERVICES, ServiceChain};
use crate::status::{LagHistogram, ShadowDifference, ShadowKind};

/// Age from which a difference is reported. kube-proxy syncs changes after its minimum sync period,
/// by default a second, and retries a sync that failed after its sync period, by default 30 s; in
/// large clusters it keeps stale chains for as long. Twice that leaves room for a sync that takes
/// long.
pub(super) const LATE_AFTER: Duration = Duration::from_secs(60);

/// Interval of checks while there are late differences, whose ages are reported.
const LATE_INTERVAL: Duration = Duration::from_secs(10);

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
    /// Nothing has changed since the last check for late differences.
    is_checked: bool,
    /// Time from which that check has another result all the same.
    next_check: Option<Instant>,
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
        self.is_checked = false;
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
        self.is_checked = false;
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
        self.is_checked = false;
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
        self.is_checked = false;
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

    /// Reports whether [`late`](Self::late) or a figure may have another result than at the last
    /// call of that.
    pub(super) fn is_check_due(&self, now: Instant) -> bool {
        !self.is_checked || self.next_check.is_some_and(|at| at <= now)
    }

    /// Returns the differences to the last reading that are late by now, sorted.
    pub(super) fn late(&mut self, live: &LiveTables, now: Instant) -> LateDifferences {
        let mut late = LateDifferences::default();
        let age = |since: Instant| now.saturating_duration_since(since);
        let mut next_check: Option<Instant> = None;
        let mut check_at = |at| next_check = Some(next_check.map_or(at, |next| next.min(at)));
        for (name, versions) in &mut self.services {
            let Some(since) = versions.differs_since else {
                continue;
            };
            if age(since) < LATE_AFTER {
                check_at(since + LATE_AFTER);
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
                check_at(*since + LATE_AFTER);
                continue;
            }
            let found = to_document(difference.clone(), age(*since), false);
            if !std::mem::replace(is_logged, true) {
                late.new.push(found.clone());
            }
            late.all.push(found);
        }
        if !late.all.is_empty() || late.waiting_services > 0 {
            check_at(now + LATE_INTERVAL);
        }
        (self.is_checked, self.next_check) = (true, next_check);
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

#[cfg(test)]
#[path = "tests/comparison.rs"]
mod tests;
