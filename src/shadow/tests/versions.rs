//! Tests of the versions of one Service, with chains as `iptables-save` prints them.

use std::time::{Duration, Instant, SystemTime};

use super::{ChangeLag, Moment, NewVersion, ServiceVersion, ServiceVersions, Touch};
use crate::rules::{ChainSet, Table};
use crate::ruleset::{DispatchChain, ServiceChain};
use crate::shadow::live::{LiveTables, digest_of_rule, digest_of_rules};
use crate::status::ShadowKind;

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
    versions.add(new, live)
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

fn touch(at: Moment, chain: &str) -> Touch {
    let mut chains = ChainSet::default();
    chains.add(Table::Nat, chain);
    Touch { at, chains }
}

/// Versions of a Service whose first one the kernel has.
fn settled(clock: &Clock) -> ServiceVersions {
    let mut versions = ServiceVersions::default();
    versions.replace(version("A"));
    let lags = versions.observe(&live("A"), &[], clock.at(0).instant);
    assert_eq!((lags, versions.differs_since), (vec![], None));
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
    let touches = [
        touch(clock.at(1), SVC),
        touch(clock.at(3), "KUBE-SVC-BBBBBBBBBBBBBBBB"),
        touch(clock.at(4), SVC),
        touch(clock.at(6), SVC),
    ];
    // The reading is later than the write, and does not count.
    let lags = versions.observe(&live("B"), &touches, clock.at(9).instant);
    assert_eq!(lags, [triggered(3)]);
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
    let first = [touch(clock.at(2), SVC)];
    assert_eq!(
        versions.observe(&live("A"), &first, clock.at(3).instant),
        []
    );
    let both = [touch(clock.at(2), SVC), touch(clock.at(5), SVC)];
    let lags = versions.observe(&live("B"), &both, clock.at(6).instant);
    assert_eq!(lags, [triggered(4)]);
}

#[test]
fn versions_that_are_overtaken_end_with_the_later_one() {
    let clock = Clock::new();
    let mut versions = settled(&clock);
    for (second, target) in [(1, "B"), (2, "C"), (3, "D")] {
        let at = clock.at(second);
        add(&mut versions, version(target), vec![at.wall], at, None);
    }
    let write = [touch(clock.at(5), SVC)];
    let lags = versions.observe(&live("C"), &write, clock.at(6).instant);
    assert_eq!(lags, [triggered(4), triggered(3)]);
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
    versions.observe(&live("A"), &[], clock.at(2).instant);
    let stale = (
        ShadowKind::StaleRule,
        Table::Nat,
        "KUBE-SERVICES".to_owned(),
    );
    assert_eq!(
        versions.differences(&live("A")).collect::<Vec<_>>(),
        [stale]
    );
    let gone = LiveTables::default();
    let write = [touch(clock.at(4), "KUBE-SERVICES")];
    let lags = versions.observe(&gone, &write, clock.at(5).instant);
    let arrival = ChangeLag {
        lag: Duration::from_secs(3),
        is_triggered: false,
    };
    assert_eq!(lags, [arrival]);
}

#[test]
fn an_edited_chain_differs_from_the_reading_that_finds_it() {
    let clock = Clock::new();
    let mut versions = settled(&clock);
    versions.observe(&live("X"), &[], clock.at(7).instant);
    versions.observe(&live("X"), &[], clock.at(8).instant);
    assert_eq!(versions.differs_since, Some(clock.at(7).instant));
    let changed = (ShadowKind::ChangedChain, Table::Nat, SVC.to_owned());
    assert_eq!(
        versions.differences(&live("X")).collect::<Vec<_>>(),
        [changed]
    );
    versions.observe(&live("A"), &[], clock.at(9).instant);
    assert_eq!(versions.differs_since, None);
}
