//! Tests of the comparison of all Services, with rules as `iptables-save` prints them.

use std::time::{Duration, Instant, SystemTime};

use super::{
    COMPARED, Comparison, LATE_AFTER, MOST_WAITING_DIGESTS, Moment, NewVersion, ServiceVersion,
    TableWrites,
};
use crate::model::ServiceName;
use crate::net::IpFamily;
use crate::render::Options;
use crate::rules::Table;
use crate::ruleset::ServiceChain;
use crate::shadow::live::{LiveTables, digest_of_rule};
use crate::status::ShadowKind;

#[expect(clippy::disallowed_methods, reason = "tests count from any moment")]
fn start() -> Moment {
    Moment {
        instant: Instant::now(),
        wall: SystemTime::UNIX_EPOCH,
    }
}

fn live(lines: &[&str]) -> LiveTables {
    let mut live = LiveTables::default();
    for line in lines {
        live.read_line(Table::Nat, line);
    }
    live
}

fn name() -> ServiceName {
    ServiceName::new("shop", "web")
}

/// A comparison that has read these tables.
fn observed(tables: &LiveTables, at: Moment) -> Comparison {
    let mut comparison = Comparison::default();
    observe(&mut comparison, tables, at.instant);
    comparison
}

fn observe(comparison: &mut Comparison, tables: &LiveTables, at: Instant) {
    let options = Options::defaults(IpFamily::V4);
    comparison.observe(tables, &options, &TableWrites::default(), at);
}

/// Kinds and Services of late differences, without those of fixed chains, which these tables lack.
fn late(comparison: &mut Comparison, live: &LiveTables, at: Instant) -> Vec<(ShadowKind, String)> {
    let late = comparison.late(live, at).all.into_iter();
    let late =
        late.filter(|found| !matches!(found.kind, ShadowKind::FixedChain | ShadowKind::Jump));
    late.map(|found| (found.kind, found.service)).collect()
}

#[test]
fn rules_of_no_service_are_named_by_their_comment_after_a_minute() {
    let start = start();
    let tables = live(&[
        ":KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]",
        "-A KUBE-SERVICES -d 10.0.0.1/32 -m comment --comment \"shop/web:http cluster IP\" -j \
         KUBE-SVC-AAAAAAAAAAAAAAAA",
    ]);
    let mut comparison = observed(&tables, start);
    let early = start.instant + LATE_AFTER / 2;
    assert_eq!(late(&mut comparison, &tables, early), []);
    let found = late(&mut comparison, &tables, start.instant + LATE_AFTER);
    let stale_chain = (ShadowKind::StaleChain, String::new());
    let stale_rule = (ShadowKind::StaleRule, "shop/web".to_owned());
    // What affects packets comes first.
    assert_eq!(found, [stale_rule, stale_chain]);
    // A later reading without them ends it.
    let (gone, end) = (live(&[]), start.instant + LATE_AFTER);
    observe(&mut comparison, &gone, end);
    assert_eq!(late(&mut comparison, &gone, end + LATE_AFTER), []);
}

#[test]
fn each_difference_is_late_after_a_minute_and_new_once() {
    let (tables, start) = (live(&[]), start());
    let mut comparison = observed(&tables, start);
    let mut late = |seconds| {
        let at = start.instant + Duration::from_secs(seconds);
        comparison.late(&tables, at)
    };
    assert_eq!(late(59).all, []);
    let (first, second) = (late(60), late(60));
    assert!(!first.new.is_empty());
    assert_eq!(first.new, first.all);
    assert!(second.new.is_empty());
    assert_eq!(second.all, first.all);
}

#[test]
fn a_change_that_leaves_the_rules_as_they_are_is_not_measured() {
    let start = start();
    let mut comparison = Comparison::default();
    comparison.replace_all(vec![(name(), ServiceVersion::default())]);
    // The same rules: nothing to write, nothing to measure.
    let new = NewVersion {
        version: ServiceVersion::default(),
        triggers: vec![start.wall],
        arrived: start,
    };
    comparison.change(&name(), new, None);
    assert!(comparison.synced(start).is_empty());
    assert_eq!(comparison.kube_proxy_lag.count, 0);
}

#[test]
fn every_kind_of_table_that_is_compared_has_an_entry_jump() {
    let (tables, start) = (live(&[]), start());
    let mut comparison = observed(&tables, start);
    let found = comparison.late(&tables, start.instant + LATE_AFTER).all;
    for table in COMPARED {
        let mut jumps = found.iter().filter(|one| one.kind == ShadowKind::Jump);
        assert!(
            jumps.any(|one| one.table == table.as_str()),
            "{table}: {found:?}"
        );
    }
}

#[test]
fn versions_of_all_services_that_wait_have_a_limit() {
    let start = start();
    let mut comparison = Comparison::default();
    let chain = ServiceChain::parse("KUBE-SVC-AAAAAAAAAAAAAAAA").unwrap();
    let mut change = |service: usize, round: usize| {
        let rules = digest_of_rule(&format!("-j TARGET-{round}"));
        let version = ServiceVersion {
            chains: vec![(chain, rules); 1000],
            ..ServiceVersion::default()
        };
        let new = NewVersion {
            version,
            triggers: Vec::new(),
            arrived: start,
        };
        comparison.change(&ServiceName::new("shop", &service.to_string()), new, None);
        comparison.waiting_digests
    };
    let most = (0..90).flat_map(|round| (0..20).map(move |service| (service, round)));
    let digests = most.map(|(service, round)| change(service, round));
    let most = digests.max().unwrap();
    // One version more, and one of each Service.
    assert!(most <= MOST_WAITING_DIGESTS + 21 * 1001, "{most}");
    assert!(comparison.unmeasured > 0);
}
