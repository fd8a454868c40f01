//! Tests of the versions of one Service, with chains as `iptables-save` prints them.

use std::time::{Duration, Instant, SystemTime};

use super::{
    ChangeLag, MOST_VERSIONS, Moment, NewVersion, ObservedChanges, ServiceVersion, ServiceVersions,
    TableWrite, TableWrites,
};
use crate::model::ServiceName;
use crate::rules::{ChainSet, Table};
use crate::ruleset::{DispatchChain, ServiceChain};
use crate::shadow::live::{LiveTables, digest_of_rule, digest_of_rules};
use crate::status::ShadowKind;

fn name() -> ServiceName {
    ServiceName::new("shop", "web")
}

const SVC: &str = "KUBE-SVC-AAAAAAAAAAAAAAAA";

/// Moments by seconds from one start.
struct Clock(Moment);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "tests count from any moment")]
    fn new() -> Self {
        Self(Moment {
            instant: Instant::now(),
            wall: SystemTime::UNIX_EPOCH,
        })
    }

    fn at(&self, seconds: u64) -> Moment {
        let Self(Moment { instant, wall }) = self;
        let after = Duration::from_secs(seconds);
        Moment {
            instant: *instant + after,
            wall: *wall + after,
        }
    }
}

/// Version with one chain, which has one rule, and one dispatch rule.
fn version(target: &str) -> ServiceVersion {
    ServiceVersion {
        chains: vec![(
            ServiceChain::parse(SVC).unwrap(),
            digest_of_rules([format!("-j {target}").as_str()].into_iter()),
        )],
        dispatch: vec![(
            DispatchChain::NatServices,
            digest_of_rule(&format!("-d 10.0.0.1/32 -j {SVC}")),
        )],
    }
}

fn add(
    versions: &mut ServiceVersions,
    version: ServiceVersion,
    triggers: Vec<SystemTime>,
    arrived: Moment,
    live: Option<&LiveTables>,
) -> Vec<ChangeLag> {
    let new = NewVersion {
        version,
        triggers,
        arrived,
    };
    let observed = versions.add(&name(), new, live, false);
    assert_eq!(observed.unmeasured, 0);
    observed.lags
}

/// The same in the kernel.
fn live(target: &str) -> LiveTables {
    let mut live = LiveTables::default();
    for line in [
        format!(":{SVC} - [0:0]"),
        format!("-A {SVC} -m comment --comment \"a/b:c -> d\" -j {target}"),
        format!("-A KUBE-SERVICES -d 10.0.0.1/32 -m comment --comment \"x\" -j {SVC}"),
    ] {
        live.read_line(Table::Nat, &line);
    }
    live
}

fn write(at: Moment, chain: &str) -> TableWrite {
    let mut chains = ChainSet::default();
    chains.add(Table::Nat, chain);
    TableWrite { at, chains }
}

/// All writes that there were.
fn writes<const N: usize>(all: [TableWrite; N]) -> TableWrites {
    TableWrites {
        all: all.into(),
        is_incomplete: false,
    }
}

fn measured<const N: usize>(lags: [ChangeLag; N]) -> ObservedChanges {
    ObservedChanges {
        lags: lags.into(),
        unmeasured: 0,
    }
}

/// Versions of a Service whose first one the kernel has.
fn settled(clock: &Clock) -> ServiceVersions {
    let mut versions = ServiceVersions::default();
    versions.replace(version("A"));
    let lags = versions.observe(&name(), &live("A"), &writes([]), clock.at(0).instant);
    assert_eq!((lags, versions.differs_since), (measured([]), None));
    versions
}

fn triggered(seconds: u64) -> ChangeLag {
    ChangeLag {
        lag: Duration::from_secs(seconds),
        is_triggered: true,
    }
}

#[test]
fn a_lag_ends_when_a_chain_of_the_service_is_written() {
    let clock = Clock::new();
    let mut versions = settled(&clock);
    let trigger = clock.at(1).wall;
    add(
        &mut versions,
        version("B"),
        vec![trigger],
        clock.at(2),
        Some(&live("A")),
    );
    assert!(versions.is_waiting());
    let all = writes([
        write(clock.at(1), SVC),
        write(clock.at(3), "KUBE-SVC-BBBBBBBBBBBBBBBB"),
        write(clock.at(4), SVC),
        write(clock.at(6), SVC),
    ]);
    // The reading is later than the write, and does not count.
    let lags = versions.observe(&name(), &live("B"), &all, clock.at(9).instant);
    assert_eq!(lags, measured([triggered(3)]));
    assert!(!versions.is_waiting());
    assert_eq!(versions.differs_since, None);
}

#[test]
fn writes_before_a_reading_without_the_version_do_not_end_its_lag() {
    let clock = Clock::new();
    let mut versions = settled(&clock);
    add(
        &mut versions,
        version("B"),
        vec![clock.at(1).wall],
        clock.at(1),
        None,
    );
    let first = writes([write(clock.at(2), SVC)]);
    assert_eq!(
        versions.observe(&name(), &live("A"), &first, clock.at(3).instant),
        measured([])
    );
    let both = writes([write(clock.at(2), SVC), write(clock.at(5), SVC)]);
    let lags = versions.observe(&name(), &live("B"), &both, clock.at(6).instant);
    assert_eq!(lags, measured([triggered(4)]));
}

#[test]
fn versions_that_are_overtaken_end_with_the_later_one() {
    let clock = Clock::new();
    let mut versions = settled(&clock);
    for (second, target) in [(1, "B"), (2, "C"), (3, "D")] {
        let at = clock.at(second);
        add(&mut versions, version(target), vec![at.wall], at, None);
    }
    let all = writes([write(clock.at(5), SVC)]);
    let lags = versions.observe(&name(), &live("C"), &all, clock.at(6).instant);
    assert_eq!(lags, measured([triggered(4), triggered(3)]));
    assert!(versions.is_waiting());
    assert_eq!(versions.differs_since, Some(clock.at(3).instant));
}

#[test]
fn a_version_that_the_kernel_has_on_arrival_has_no_lag_of_writing() {
    let clock = Clock::new();
    let mut versions = settled(&clock);
    let trigger = vec![clock.at(1).wall];
    let lags = add(
        &mut versions,
        version("B"),
        trigger,
        clock.at(2),
        Some(&live("B")),
    );
    assert_eq!(lags, [triggered(1)]);
    // With one that waits, the kernel may have the older one still.
    add(
        &mut versions,
        version("C"),
        vec![],
        clock.at(3),
        Some(&live("B")),
    );
    let lags = add(
        &mut versions,
        version("B"),
        vec![],
        clock.at(4),
        Some(&live("B")),
    );
    assert_eq!(lags, []);
    assert!(versions.is_waiting());
}

#[test]
fn a_deleted_service_waits_for_its_dispatch_rules_to_go() {
    let clock = Clock::new();
    let mut versions = settled(&clock);
    add(
        &mut versions,
        ServiceVersion::default(),
        vec![],
        clock.at(1),
        Some(&live("A")),
    );
    versions.observe(&name(), &live("A"), &writes([]), clock.at(2).instant);
    let stale = (
        ShadowKind::StaleRule,
        Table::Nat,
        "KUBE-SERVICES".to_owned(),
    );
    assert_eq!(
        versions
            .differences(&name(), &live("A"))
            .collect::<Vec<_>>(),
        [stale]
    );
    let gone = LiveTables::default();
    let all = writes([write(clock.at(4), "KUBE-SERVICES")]);
    let lags = versions.observe(&name(), &gone, &all, clock.at(5).instant);
    let arrival = ChangeLag {
        lag: Duration::from_secs(3),
        is_triggered: false,
    };
    assert_eq!(lags, measured([arrival]));
}

#[test]
fn an_edited_chain_differs_from_the_reading_that_finds_it() {
    let clock = Clock::new();
    let mut versions = settled(&clock);
    versions.observe(&name(), &live("X"), &writes([]), clock.at(7).instant);
    versions.observe(&name(), &live("X"), &writes([]), clock.at(8).instant);
    assert_eq!(versions.differs_since, Some(clock.at(7).instant));
    let changed = (ShadowKind::ChangedChain, Table::Nat, SVC.to_owned());
    assert_eq!(
        versions
            .differences(&name(), &live("X"))
            .collect::<Vec<_>>(),
        [changed]
    );
    versions.observe(&name(), &live("A"), &writes([]), clock.at(9).instant);
    assert_eq!(versions.differs_since, None);
}

#[test]
fn a_version_that_arrives_during_a_reading_waits_for_the_next_one() {
    let clock = Clock::new();
    let mut versions = settled(&clock);
    let trigger = vec![clock.at(1).wall];
    add(&mut versions, version("B"), trigger, clock.at(4), None);
    // The reading began before the arrival, and has read the chain after the write.
    let all = writes([write(clock.at(6), SVC)]);
    let during = versions.observe(&name(), &live("B"), &all, clock.at(3).instant);
    assert_eq!(during, measured([]));
    assert!(versions.is_waiting());
    let next = versions.observe(&name(), &live("B"), &all, clock.at(7).instant);
    assert_eq!(next, measured([triggered(5)]));
}

#[test]
fn a_version_whose_write_was_missed_is_not_measured() {
    let clock = Clock::new();
    for (is_incomplete, expected) in [(false, 0), (true, 2)] {
        let mut versions = settled(&clock);
        let triggers = vec![clock.at(1).wall; 2];
        add(&mut versions, version("B"), triggers, clock.at(2), None);
        let missed = TableWrites {
            all: Vec::new(),
            is_incomplete,
        };
        let observed = versions.observe(&name(), &live("B"), &missed, clock.at(4).instant);
        assert_eq!(observed.unmeasured, expected);
        assert_eq!(observed.lags.len() as u64, 2 - expected);
        assert!(!versions.is_waiting());
    }
}

#[test]
fn versions_beyond_the_limits_are_not_measured() {
    let clock = Clock::new();
    for (is_memory_full, kept) in [(false, MOST_VERSIONS), (true, 1)] {
        let mut versions = settled(&clock);
        let mut unmeasured = 0;
        for second in 1..=200 {
            let new = NewVersion {
                version: version(&second.to_string()),
                triggers: vec![clock.at(second).wall; 3],
                arrived: clock.at(second),
            };
            unmeasured += versions.add(&name(), new, None, is_memory_full).unmeasured;
        }
        assert_eq!(unmeasured, 3 * (200 - kept) as u64);
        // The chain of a version, and of it and the one before.
        assert_eq!(versions.waiting_digests(), 2 * kept);
        let all = writes([write(clock.at(201), SVC)]);
        let observed = versions.observe(&name(), &live("200"), &all, clock.at(202).instant);
        assert_eq!(observed.lags.len(), 3 * kept);
        assert_eq!(versions.waiting_digests(), 0);
    }
}

#[test]
fn a_former_rule_that_another_service_has_is_not_stale() {
    let clock = Clock::new();
    let reject = "-d 203.0.113.7/32 -p tcp -m tcp --dport 80 -j REJECT";
    let rejected = ServiceVersion {
        dispatch: vec![(
            DispatchChain::FilterExternalServices,
            digest_of_rule(reject),
        )],
        ..ServiceVersion::default()
    };
    for (service, is_stale) in [("shop/other", false), ("shop/web", true)] {
        let mut versions = ServiceVersions::default();
        versions.replace(rejected.clone());
        let mut live = LiveTables::default();
        let comment = format!("-m comment --comment \"{service}:http has no endpoints\"");
        let rule = format!("-A KUBE-EXTERNAL-SERVICES {comment} {reject}");
        live.read_line(Table::Filter, &rule);
        add(
            &mut versions,
            ServiceVersion::default(),
            vec![],
            clock.at(1),
            Some(&live),
        );
        let stale = versions.differences(&name(), &live).count();
        assert_eq!(
            (stale, versions.is_waiting()),
            (usize::from(is_stale), is_stale)
        );
    }
}
