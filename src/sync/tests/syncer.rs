//! Syncs over a fake kernel.

use std::time::{Duration, SystemTime};

use super::*;
use crate::clock::instant;
use crate::host::{Fake, Fault};
use crate::model::{Change, Kind, Service, ServiceName, ServicePort};
use crate::render::PartialRestore;
use crate::rules::{RuleSet, Table};
use crate::tracker::Tracker;

/// Interval of full syncs.
pub(super) const PERIOD: Duration = Duration::from_secs(3600);

/// A Service, or its deletion.
pub(crate) fn service(number: u8, is_there: bool) -> Change {
    let service = Service::plain(
        IpAddr::from([10, 96, 0, number]),
        Box::new([ServicePort::tcp("p", 80)]),
    );
    let name = ServiceName::new("ns", &number.to_string());
    Change::Service(name, is_there.then(|| Box::new(service)))
}

/// Applies changes to the tracker, for the next sync.
pub(super) fn apply(syncer: &mut Syncer<Fake>, changes: impl IntoIterator<Item = Change>) {
    for change in changes {
        syncer.tracker.apply(change);
    }
}

pub(super) fn syncer_options(node_port_addresses: Vec<NodePortAddressItem>) -> SyncerOptions {
    SyncerOptions {
        render_settings: RenderSettings {
            fixed: options(IpFamily::V4),
            local_mode: LocalMode::ClusterCidr(Vec::new()),
            node_port_addresses,
            bind_address: None,
        },
        partial_restore: PartialRestore::ChangedChains,
        full_sync_interval: PERIOD,
    }
}

/// Knows of one Service, and has done nothing.
pub(crate) fn syncer(clock: Clock, node_port_addresses: Vec<NodePortAddressItem>) -> Syncer<Fake> {
    let options = syncer_options(node_port_addresses);
    let mut tracker = Tracker::new(SystemTime::UNIX_EPOCH);
    tracker.apply(service(1, true));
    for kind in Kind::ALL {
        tracker.apply(Change::Listed(kind));
    }
    Syncer::new(Fake::default(), tracker, options, clock)
}

/// A syncer whose first full sync has succeeded.
pub(super) async fn synced() -> Syncer<Fake> {
    let mut syncer = syncer(instant, Vec::new());
    let outcome = syncer.once(&[]).await;
    assert_eq!(outcome.result(), SyncResult::Applied, "{outcome:?}");
    syncer.iptables().take_payloads();
    syncer
}

#[tokio::test]
async fn an_adoption_that_fails_before_anything_is_written_is_retried() {
    let mut first = synced().await;
    first.tracker.apply(service(2, true));
    let kernel = first.iptables().rules();
    let mut second = syncer(instant, Vec::new());
    second.iptables().set_rules(kernel);
    second.tracker.apply(service(2, true));
    for (fault, expected) in [
        (Some(Fault::Save), SyncResult::Failed),
        (Some(Fault::List), SyncResult::Failed),
        (Some(Fault::Locked), SyncResult::Failed),
        (None, SyncResult::Applied),
    ] {
        if let Some(fault) = fault {
            second.iptables().inject(fault);
        }
        let outcome = second.once(&[]).await;
        assert_eq!((outcome.result(), outcome.attempts.len()), (expected, 1));
        assert_eq!(outcome.attempts[0].scope, Scope::Adoption, "{fault:?}");
    }
    // The deadline of a trial follows from it.
    assert_ne!(second.restore_took, Duration::ZERO);
    first.once(&[]).await;
    assert_eq!(second.iptables().rules(), first.iptables().rules());
}

/// The other tables are read each time, which must not hide that one gives no answer.
#[tokio::test]
async fn an_adoption_that_can_never_list_the_canary_becomes_a_full_restore() {
    let first = synced().await;
    let mut second = syncer(instant, Vec::new());
    second.iptables().set_rules(first.iptables().rules());
    for _ in 0..3 {
        second.iptables().inject(Fault::List);
        let outcome = second.once(&[]).await;
        assert_eq!(outcome.result(), SyncResult::Failed);
    }
    second.iptables().inject(Fault::List);
    let outcome = second.once(&[]).await;
    assert_eq!(outcome.attempts[0].scope, Scope::Full(FullReason::First));
    assert_eq!(outcome.result(), SyncResult::Applied);
    assert_eq!(second.iptables().rules(), first.iptables().rules());
}

/// Jumps are still asked for one by one, so that none is written twice.
#[tokio::test]
async fn tables_that_give_no_answer_for_long_are_written_without_being_read() {
    let mut syncer = synced().await;
    let rules = syncer.iptables().rules();
    syncer.iptables().set_rules(RuleSet::default());
    syncer.force_full(FullReason::Flushed);
    for _ in 0..3 {
        syncer.iptables().inject(Fault::Save);
        assert_eq!(syncer.once(&[]).await.result(), SyncResult::Failed);
    }
    for _ in [Table::Filter, Table::Nat] {
        syncer.iptables().inject(Fault::Save);
    }
    let outcome = syncer.once(&[]).await;
    assert_eq!(outcome.result(), SyncResult::Applied);
    assert_eq!(outcome.notices.newly_unreadable.len(), 2);
    assert_eq!(syncer.iptables().rules(), rules);
    syncer.force_full(FullReason::Flushed);
    assert_eq!(syncer.once(&[]).await.result(), SyncResult::Applied);
    assert_eq!(syncer.iptables().rules(), rules);
    // Afterwards a single failure is only a reason to try again.
    syncer.iptables().inject(Fault::Save);
    syncer.force_full(FullReason::Flushed);
    assert_eq!(syncer.once(&[]).await.result(), SyncResult::Failed);
}

/// They are looked for in the kernel's connections, and load balancers ask there.
#[tokio::test]
async fn node_port_addresses_are_those_of_the_last_sync_that_succeeded() {
    let within = networks(&["192.168.0.0/16"]);
    let mut syncer = syncer(instant, within);
    let all = ips(&["10.0.0.1", "192.168.0.2", "192.168.0.3"]);
    let in_force = |syncer: &Syncer<Fake>| {
        let written = syncer.applied_options();
        let written = written.map(|options| &options.node_port_addresses);
        assert_eq!(written, syncer.last_node_port_addresses());
        match written {
            Some(NodePortAddresses::Only(ips)) => ips.len(),
            other => panic!("{other:?}"),
        }
    };
    syncer.once(&all[..2]).await;
    assert_eq!(in_force(&syncer), 1);
    assert!(syncer.node_port_addresses_changed(&all));
    // Without the lock, the rules are those of before.
    syncer.iptables().inject(Fault::Locked);
    syncer.once(&all).await;
    assert_eq!(in_force(&syncer), 1);
    let outcome = syncer.once(&all).await;
    assert_eq!(outcome.attempts[0].scope, Scope::Partial);
    assert_eq!(in_force(&syncer), 2);
    assert!(!syncer.node_port_addresses_changed(&all));
}
