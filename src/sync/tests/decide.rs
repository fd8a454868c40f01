//! When a sync is full, and why.

use std::time::{Duration, Instant};

use super::*;
use crate::clock::instant;

const HOUR: Duration = Duration::from_secs(3600);

/// A history in which a full sync with `options` succeeded at `then`.
fn after_full(then: Instant, options: Options) -> SyncHistory {
    SyncHistory {
        last_full: Some(then),
        full_took: Duration::from_millis(1300),
        postponed_until: None,
        last_options: Some(options),
    }
}

fn scope(history: &SyncHistory, options: &Options, now: Instant) -> Scope {
    history.scope(options, HOUR, now)
}

#[test]
fn a_full_sync_is_due_after_its_period() {
    let (then, second) = (instant(), Duration::from_secs(1));
    let mut history = after_full(then, options(IpFamily::V4));
    for (full_took, period) in [
        (Duration::from_millis(1300), HOUR),
        // Half a minute of it each hour would be felt.
        (36 * second, 10 * HOUR),
        // A single one that waited for others does not put off the next for days.
        (300 * second, 24 * HOUR),
    ] {
        history.full_took = full_took;
        let after = |later| scope(&history, &options(IpFamily::V4), then + later);
        assert_eq!(after(Duration::ZERO), Scope::Partial, "{full_took:?}");
        assert_eq!(
            after(period.saturating_sub(second)),
            Scope::Partial,
            "{full_took:?}"
        );
        let periodic = Scope::Full(FullReason::Periodic);
        assert_eq!(after(period), periodic, "{full_took:?}");
    }
    // A clock that went back is no reason.
    let early = after_full(then + HOUR, options(IpFamily::V4));
    assert_eq!(scope(&early, &options(IpFamily::V4), then), Scope::Partial);
}

#[test]
fn a_change_that_affects_all_services_causes_a_full_sync() {
    let now = instant();
    let history = after_full(now, options(IpFamily::V4));
    let with = |change: fn(&mut Options)| {
        let mut options = options(IpFamily::V4);
        change(&mut options);
        scope(&history, &options, now)
    };
    let full = Scope::Full(FullReason::NodeChanged);
    assert_eq!(with(|_| {}), Scope::Partial);
    assert_eq!(with(|o| o.node_ip = ips(&["192.168.0.3"])[0]), full);
    let bridge = |o: &mut Options| o.local_traffic = LocalDetector::Bridge("b".into());
    assert_eq!(with(bridge), full);
    assert_eq!(with(|o| o.has_localhost_node_ports = false), full);
    // The way to NodePorts is one chain's tail, which partial syncs look after.
    let moved = |o: &mut Options| {
        o.node_port_addresses = NodePortAddresses::Only(ips(&["192.168.0.3"]));
    };
    assert_eq!(with(moved), Scope::Partial);
    let elsewhere = |o: &mut Options| o.topology.zone = Some("b".into());
    assert_eq!(with(elsewhere), Scope::Full(FullReason::ZoneChanged));
}
