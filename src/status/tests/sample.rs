//! State of a node: well, or failing.

use jiff::Timestamp;

use super::{
    ConflictRecord, ConntrackStatus, DriftRecord, FailureRecord, FamilyStatus, LimitRecord,
    QuarantinedService, StatusDocument, SyncRecord, Verification, WatchStatus,
};

const NOW: i64 = 1_800_000_000;

fn before(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW - seconds).unwrap()
}

fn sync(seconds: i64, scope: &str, reason: &str, bytes: u64, took_ms: f64) -> SyncRecord {
    SyncRecord {
        at: before(seconds),
        scope: scope.to_owned(),
        reason: reason.to_owned(),
        took_ms,
        bytes,
        services: 2,
        lock_wait_ms: took_ms / 2.0,
        ..SyncRecord::default()
    }
}

pub(crate) fn family(name: &str) -> FamilyStatus {
    let full = sync(7_300, "full", "first", 16_638_732, 1_234.0);
    let partial = sync(4, "partial", "", 900, 3.2);
    FamilyStatus {
        family: name.to_owned(),
        backend: "nft".to_owned(),
        backend_reason: "hint of kubelet".to_owned(),
        iptables_version: "1.8.9 (nft)".to_owned(),
        generation: 12,
        endpoints: 50_000,
        rules: 224_000,
        recent_syncs: vec![full.clone(), partial.clone()],
        last_full: Some(full),
        last_partial: Some(partial),
        verification: Some(Verification {
            at: before(9),
            is_clean: true,
        }),
        ..FamilyStatus::default()
    }
}

pub(crate) fn node(families: Vec<FamilyStatus>) -> StatusDocument {
    let mut status = StatusDocument {
        node: "node1".to_owned(),
        version: "0.1.0, in place of kube-proxy v1.37.2".to_owned(),
        started_at: before(266_400),
        observed_at: before(0),
        families,
        watches: vec![
            WatchStatus {
                kind: "EndpointSlice".to_owned(),
                age_seconds: 0.4,
            },
            WatchStatus {
                kind: "Service".to_owned(),
                age_seconds: 12.0,
            },
        ],
        conntrack: Some(ConntrackStatus {
            entries: 1_234,
            max: 262_144,
        }),
        ..StatusDocument::default()
    };
    status.find_problems();
    status
}

pub(crate) fn failing_node() -> StatusDocument {
    let mut failing = family("IPv4");
    failing.failed_syncs = 3;
    failing.pending_services = 2;
    failing.waiting_since = Some(before(75));
    failing.last_failure = Some(FailureRecord {
        at: before(5),
        scope: "partial".to_owned(),
        error: "`iptables-nft-restore` failed with exit code 2: line 12: `-A KUBE-SVC-XPGD46QRK7WJZT7O \
                -m comment --comment \"shop/web\" -j KUBE-SEP-AAAAAAAAAAAAAAAA`"
            .to_owned(),
        consequence: "retrying in 2 s".to_owned(),
    });
    failing.quarantined = vec![QuarantinedService {
        service: "shop/web".to_owned(),
        error: "exit code 2".to_owned(),
        consequence: "its changes are not applied".to_owned(),
    }];
    failing.verification = Some(Verification {
        at: before(100),
        is_clean: false,
    });
    failing.drift = vec![DriftRecord {
        at: before(100),
        chains: 1,
        names: "KUBE-SVC-XPGD46QRK7WJZT7O".to_owned(),
        program: "nft[4711]".to_owned(),
    }];
    failing.conflict_count = 1;
    failing.conflicts = vec![ConflictRecord {
        service: "shop/b".to_owned(),
        kind: "ExternalIP".to_owned(),
        ip: "192.0.2.7".to_owned(),
        port: 80,
        protocol: "tcp".to_owned(),
        owner: "shop/a".to_owned(),
        ..ConflictRecord::default()
    }];
    failing.over_limits = vec![LimitRecord {
        limit: "endpoints".to_owned(),
        services: 4,
    }];
    let mut status = node(vec![failing, family("IPv6")]);
    status.configuration_invalid = true;
    status.watches[1].age_seconds = 400.0;
    status.find_problems();
    status
}
