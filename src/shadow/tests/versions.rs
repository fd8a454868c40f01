//! Tests of the versions of one Service, with chains as `iptables-save` prints them.

use std::time::{Duration, SystemTime};

use super::{
    ChangeLag, MOST_VERSIONS, Moment, NewVersion, ObservedChanges, ServiceVersion, ServiceVersions,
    TableWrite, TableWrites,
};
use crate::clock::instant;
use crate::model::ServiceName;
use crate::rules::{ChainSet, Table};
use crate::ruleset::{DispatchChain, ServiceChain};
use crate::shadow::live::{LiveTables, digest_of_rule, digest_of_rules};
use crate::status::ShadowKind;

fn name() -> ServiceName {
    ServiceName::new("shop", "web")
}

const SVC: &str = "KUBE-SVC-AAAAAAAAAAAAAAAA";

/// Versions of a Service, with moments by seconds from one start.
struct Scene {
    start: Moment,
    versions: ServiceVersions,
}

impl Scene {
    fn with(first: ServiceVersion) -> Self {
        let start = Moment {
            instant: instant(),
            wall: SystemTime::UNIX_EPOCH,
        };
        let mut versions = ServiceVersions::default();
        versions.replace(first);
        Self { start, versions }
    }

    /// The kernel has the first version, `A`.
    fn settled() -> Self {
        let mut scene = Self::with(version("A"));
        assert_eq!(scene.observe(&live("A"), &[], 0), measured([]));
        assert_eq!(scene.differs_since(), None);
        scene
    }

    fn at(&self, seconds: u64) -> Moment {
        let Moment { instant, wall } = self.start;
        let after = Duration::from_secs(seconds);
        Moment {
            instant: instant + after,
            wall: wall + after,
        }
    }

    /// A version with changes at these seconds.
    fn new_version(&self, version: ServiceVersion, triggers: &[u64], arrived: u64) -> NewVersion {
        NewVersion {
            version,
            triggers: triggers.iter().map(|at| self.at(*at).wall).collect(),
            arrived: self.at(arrived),
        }
    }

    fn add(
        &mut self,
        version: ServiceVersion,
        triggers: &[u64],
        arrived: u64,
        live: Option<&LiveTables>,
    ) -> Vec<ChangeLag> {
        let new = self.new_version(version, triggers, arrived);
        let observed = self.versions.add(&name(), new, live, false);
        assert_eq!(observed.unmeasured, 0);
        observed.lags
    }

    /// A reading that begins at this second, after writes of chains at seconds before.
    fn observe(&mut self, live: &LiveTables, writes: &[(u64, &str)], at: u64) -> ObservedChanges {
        let all = writes.iter().map(|(second, chain)| {
            let mut chains = ChainSet::default();
            chains.add(Table::Nat, chain);
            let at = self.at(*second);
            TableWrite { at, chains }
        });
        let writes = TableWrites {
            all: all.collect(),
            is_incomplete: false,
        };
        let at = self.at(at).instant;
        self.versions.observe(&name(), live, &writes, at)
    }

    fn differs_since(&self) -> Option<u64> {
        let since = self.versions.differs_since?;
        Some((since - self.start.instant).as_secs())
    }

    fn differences(&self, live: &LiveTables) -> Vec<(ShadowKind, Table, String)> {
        self.versions.differences(&name(), live).collect()
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

fn measured<const N: usize>(lags: [ChangeLag; N]) -> ObservedChanges {
    ObservedChanges {
        lags: lags.into(),
        unmeasured: 0,
    }
}

fn triggered(seconds: u64) -> ChangeLag {
    ChangeLag {
        lag: Duration::from_secs(seconds),
        is_triggered: true,
    }
}

#[test]
fn a_lag_ends_when_a_chain_of_the_service_is_written() {
    let mut scene = Scene::settled();
    scene.add(version("B"), &[1], 2, Some(&live("A")));
    assert!(scene.versions.is_waiting());
    let other = "KUBE-SVC-BBBBBBBBBBBBBBBB";
    let writes = [(1, SVC), (3, other), (4, SVC), (6, SVC)];
    // The reading is later than the write, and does not count.
    let lags = scene.observe(&live("B"), &writes, 9);
    assert_eq!(lags, measured([triggered(3)]));
    assert!(!scene.versions.is_waiting());
    assert_eq!(scene.differs_since(), None);
}

#[test]
fn writes_before_a_reading_without_the_version_do_not_end_its_lag() {
    let mut scene = Scene::settled();
    scene.add(version("B"), &[1], 1, None);
    assert_eq!(scene.observe(&live("A"), &[(2, SVC)], 3), measured([]));
    let lags = scene.observe(&live("B"), &[(2, SVC), (5, SVC)], 6);
    assert_eq!(lags, measured([triggered(4)]));
}

#[test]
fn versions_that_are_overtaken_end_with_the_later_one() {
    let mut scene = Scene::settled();
    for (second, target) in [(1, "B"), (2, "C"), (3, "D")] {
        scene.add(version(target), &[second], second, None);
    }
    let lags = scene.observe(&live("C"), &[(5, SVC)], 6);
    assert_eq!(lags, measured([triggered(4), triggered(3)]));
    assert!(scene.versions.is_waiting());
    assert_eq!(scene.differs_since(), Some(3));
}

#[test]
fn a_version_that_the_kernel_has_on_arrival_has_no_lag_of_writing() {
    let mut scene = Scene::settled();
    let lags = scene.add(version("B"), &[1], 2, Some(&live("B")));
    assert_eq!(lags, [triggered(1)]);
    // With one that waits, the kernel may have the older one still.
    scene.add(version("C"), &[], 3, Some(&live("B")));
    assert_eq!(scene.add(version("B"), &[], 4, Some(&live("B"))), []);
    assert!(scene.versions.is_waiting());
}

#[test]
fn a_deleted_service_waits_for_its_dispatch_rules_to_go() {
    let mut scene = Scene::settled();
    scene.add(ServiceVersion::default(), &[], 1, Some(&live("A")));
    scene.observe(&live("A"), &[], 2);
    let chain = "KUBE-SERVICES";
    let stale = (ShadowKind::StaleRule, Table::Nat, chain.to_owned());
    assert_eq!(scene.differences(&live("A")), [stale]);
    let lags = scene.observe(&LiveTables::default(), &[(4, chain)], 5);
    let arrival = ChangeLag {
        lag: Duration::from_secs(3),
        is_triggered: false,
    };
    assert_eq!(lags, measured([arrival]));
}

#[test]
fn an_edited_chain_differs_from_the_reading_that_finds_it() {
    let mut scene = Scene::settled();
    scene.observe(&live("X"), &[], 7);
    scene.observe(&live("X"), &[], 8);
    assert_eq!(scene.differs_since(), Some(7));
    let changed = (ShadowKind::ChangedChain, Table::Nat, SVC.to_owned());
    assert_eq!(scene.differences(&live("X")), [changed]);
    scene.observe(&live("A"), &[], 9);
    assert_eq!(scene.differs_since(), None);
}

#[test]
fn a_version_that_arrives_during_a_reading_waits_for_the_next_one() {
    let mut scene = Scene::settled();
    scene.add(version("B"), &[1], 4, None);
    // The reading began before the arrival, and has read the chain after the write.
    assert_eq!(scene.observe(&live("B"), &[(6, SVC)], 3), measured([]));
    assert!(scene.versions.is_waiting());
    let next = scene.observe(&live("B"), &[(6, SVC)], 7);
    assert_eq!(next, measured([triggered(5)]));
}

#[test]
fn a_version_whose_write_was_missed_is_not_measured() {
    for (is_incomplete, expected) in [(false, 0), (true, 2)] {
        let mut scene = Scene::settled();
        scene.add(version("B"), &[1, 1], 2, None);
        let missed = TableWrites {
            all: Vec::new(),
            is_incomplete,
        };
        let at = scene.at(4).instant;
        let observed = scene.versions.observe(&name(), &live("B"), &missed, at);
        assert_eq!(observed.unmeasured, expected);
        assert_eq!(observed.lags.len() as u64, 2 - expected);
        assert!(!scene.versions.is_waiting());
    }
}

#[test]
fn versions_beyond_the_limits_are_not_measured() {
    for (is_memory_full, kept) in [(false, MOST_VERSIONS), (true, 1)] {
        let mut scene = Scene::settled();
        let mut unmeasured = 0;
        for second in 1..=200 {
            let new = scene.new_version(version(&second.to_string()), &[second; 3], second);
            let observed = scene.versions.add(&name(), new, None, is_memory_full);
            unmeasured += observed.unmeasured;
        }
        assert_eq!(unmeasured, 3 * (200 - kept) as u64);
        // The chain of a version, and of it and the one before.
        assert_eq!(scene.versions.waiting_digests(), 2 * kept);
        let observed = scene.observe(&live("200"), &[(201, SVC)], 202);
        assert_eq!(observed.lags.len(), 3 * kept);
        assert_eq!(scene.versions.waiting_digests(), 0);
    }
}

#[test]
fn a_former_rule_that_another_service_has_is_not_stale() {
    let reject = "-d 203.0.113.7/32 -p tcp -m tcp --dport 80 -j REJECT";
    let chain = DispatchChain::FilterExternalServices;
    for (service, is_stale) in [("shop/other", false), ("shop/web", true)] {
        let mut scene = Scene::with(ServiceVersion {
            dispatch: vec![(chain, digest_of_rule(reject))],
            ..ServiceVersion::default()
        });
        let mut live = LiveTables::default();
        let comment = format!("-m comment --comment \"{service}:http has no endpoints\"");
        let rule = format!("-A KUBE-EXTERNAL-SERVICES {comment} {reject}");
        live.read_line(Table::Filter, &rule);
        scene.add(ServiceVersion::default(), &[], 1, Some(&live));
        let found = (scene.differences(&live).len(), scene.versions.is_waiting());
        assert_eq!(found, (usize::from(is_stale), is_stale));
    }
}
