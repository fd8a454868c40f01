//! Problems of nodes, and what clients elsewhere see of them.

use super::*;
use crate::status::{
    ConflictRecord, ConntrackStatus, FailureRecord, QuarantinedService, UndetectedPods,
    Verification, WatchStatus,
};

fn family(change: impl FnOnce(&mut FamilyStatus)) -> StatusDocument {
    let mut status = FamilyStatus {
        family: "IPv4".to_owned(),
        generation: 1,
        ..FamilyStatus::default()
    };
    change(&mut status);
    StatusDocument {
        families: vec![status],
        observed_at: Timestamp::from_second(1_000).unwrap(),
        ..StatusDocument::default()
    }
}

fn problems(mut status: StatusDocument) -> Vec<String> {
    status.find_problems();
    let problems = status.problems.iter();
    problems.map(|one| one.summary.clone()).collect()
}

#[test]
fn a_node_that_is_well_has_no_problems() {
    assert!(problems(StatusDocument::default()).is_empty());
    let clean = |status: &mut FamilyStatus| {
        status.waiting_since = Some(Timestamp::from_second(971).unwrap());
        status.verification = Some(Verification {
            is_clean: true,
            ..Verification::default()
        });
    };
    assert!(problems(family(clean)).is_empty());
}

#[test]
fn a_node_without_its_first_sync_is_not_well() {
    let new = |status: &mut FamilyStatus| status.generation = 0;
    let mut status = family(new);
    assert_eq!(problems(status.clone()), ["IPv4: no sync was applied yet"]);
    status.find_problems();
    assert!(!status.is_well() && status.problems[0].is_failure);
    // A failure has its own words, a disabled family has nothing to do, and a shadow writes
    // nothing.
    let failed = |status: &mut FamilyStatus| {
        new(status);
        status.failed_syncs = 1;
    };
    assert_eq!(
        problems(family(failed)),
        ["IPv4: 1 syncs in a row failed: "]
    );
    let disabled = |status: &mut FamilyStatus| {
        new(status);
        status.is_disabled = true;
    };
    assert!(problems(family(disabled)).is_empty());
    status.is_shadow = true;
    assert!(problems(status).is_empty());
}

#[test]
fn failures_come_first() {
    let mut status = family(|status| {
        status.quarantined = vec![QuarantinedService {
            service: "shop/web".to_owned(),
            ..QuarantinedService::default()
        }];
        status.failed_syncs = 3;
        status.last_failure = Some(FailureRecord {
            error: "exit code 2".to_owned(),
            ..FailureRecord::default()
        });
    });
    status.conntrack = Some(ConntrackStatus {
        entries: 95,
        max: 100,
    });
    status.watches = vec![WatchStatus {
        kind: "Service".to_owned(),
        age_seconds: 150.0,
    }];
    status.unknown_settings = vec!["featureGates.New".to_owned()];
    assert_eq!(
        problems(status),
        [
            "IPv4: 3 syncs in a row failed: exit code 2",
            "no event of Service for 150 s",
            "connection tracking is nearly full: 95 of 100 entries",
            "IPv4: 1 in quarantine: shop/web",
            "unknown settings: featureGates.New",
        ]
    );
}

#[test]
fn changes_that_wait_are_a_failure_unless_the_family_is_disabled() {
    let late = |status: &mut FamilyStatus| {
        status.waiting_since = Some(Timestamp::from_second(970).unwrap());
    };
    assert_eq!(problems(family(late)), ["IPv4: changes wait for 30 s"]);
    let disabled = |status: &mut FamilyStatus| {
        late(status);
        status.is_disabled = true;
    };
    assert!(problems(family(disabled)).is_empty());
}

#[test]
fn pods_outside_of_the_cluster_cidr_are_a_finding() {
    let undetected = |status: &mut FamilyStatus| {
        status.undetected_pods = Some(UndetectedPods {
            service_ports: 2,
            network: "10.244.0.0/16".to_owned(),
        });
    };
    let found = "IPv4: endpoints on this node are outside of the network of Pods, 10.244.0.0/16 \
                 (service ports: 2)";
    assert_eq!(problems(family(undetected)), [found]);
}

#[test]
fn a_table_without_a_maximum_is_never_full() {
    for (entries, max, is_problem) in [(90, 100, true), (89, 100, false), (90, 0, false)] {
        let found = ConntrackStatus { entries, max }.problem();
        assert_eq!(found.is_some(), is_problem, "{entries} of {max}");
    }
}

#[test]
fn a_missing_node_object_is_a_failure() {
    let mut status = family(|status| status.is_node_missing = true);
    status.node = "node9".to_owned();
    // Each family knows it.
    status.families.push(status.families[0].clone());
    assert_eq!(problems(status), ["no Node object has the name node9"]);
}

#[test]
fn clients_elsewhere_see_no_names() {
    let mut status = family(|status| {
        status.quarantined = vec![QuarantinedService {
            service: "shop/web".to_owned(),
            error: "line 3: -A KUBE-SVC-X -d 10.0.0.1".to_owned(),
            consequence: "it has no rules".to_owned(),
        }];
        status.conflicts = vec![ConflictRecord {
            service: "shop/a".to_owned(),
            kind: "ExternalIP".to_owned(),
            ip: "10.0.0.1".to_owned(),
            port: 80,
            protocol: "tcp".to_owned(),
            owner: "shop/b".to_owned(),
            ..ConflictRecord::default()
        }];
        status.conflict_count = 1;
        status.failed_syncs = 1;
        status.last_failure = Some(FailureRecord {
            error: "line 3: shop/web".to_owned(),
            ..FailureRecord::default()
        });
    });
    status.find_problems();
    let text = serde_json::to_string(&status.without_names()).unwrap();
    for hidden in ["shop", "10.0.0.1", "KUBE-SVC-X"] {
        assert!(!text.contains(hidden), "{text}");
    }
    assert!(text.contains("it has no rules"), "{text}");
    assert!(text.contains("1 syncs in a row failed"), "{text}");
}

#[test]
fn documents_of_other_versions_are_read() {
    let text = r#"{"node":"a","families":[{"family":"IPv4","new":1}],"alsoNew":{}}"#;
    let status: StatusDocument = serde_json::from_str(text).unwrap();
    assert_eq!((&*status.node, &*status.families[0].family), ("a", "IPv4"));
}
