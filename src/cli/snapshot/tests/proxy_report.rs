//! Tests of `proxy_report`.

use super::*;
use crate::status::QuarantinedService;

fn status(family: &str) -> FamilyStatus {
    FamilyStatus {
        family: family.to_owned(),
        conflict_count: 12,
        conflicts: vec![ConflictRecord {
            service: "shop/thief".to_owned(),
            port_name: "http".to_owned(),
            kind: "ExternalIP".to_owned(),
            ip: "fd00::1".to_owned(),
            port: 80,
            protocol: "tcp".to_owned(),
            owner: "shop/web".to_owned(),
        }],
        quarantined: vec![QuarantinedService {
            service: "shop/a".to_owned(),
            ..QuarantinedService::default()
        }],
        ..FamilyStatus::default()
    }
}

#[test]
fn conflicts_of_a_report_are_added_to_their_family() {
    let found = of_daemon([status("IPv6"), status("IPv9")].iter()).0;
    assert_eq!(found.v4, Conflicts::default());
    assert_eq!(found.v6.count, 12);
    let [conflict] = &found.v6.lost[..] else {
        panic!("{found:?}");
    };
    let shown = format!("{conflict} {} {}", conflict.loser, conflict.owner);
    assert_eq!(shown, "[fd00::1]:80/tcp shop/thief:http/tcp shop/web");
    assert_eq!(conflict.kind, FrontendKind::ExternalIp);
}

#[test]
fn an_unnamed_port_of_the_node_is_added() {
    let mut status = status("IPv4");
    status.conflicts[0].ip.clear();
    status.conflicts[0].port_name.clear();
    let found = of_daemon([status].iter()).0.v4.lost;
    let shown = format!("{} {}", found[0], found[0].loser);
    assert_eq!(shown, "*:80/tcp shop/thief/tcp");
}

#[test]
fn a_conflict_of_an_unknown_kind_or_address_is_left_out() {
    let change: [fn(&mut ConflictRecord); 2] = [
        |conflict| conflict.kind = "Other".to_owned(),
        |conflict| conflict.ip = "fd00".to_owned(),
    ];
    for change in change {
        let mut status = status("IPv4");
        change(&mut status.conflicts[0]);
        assert_eq!(of_daemon([status].iter()).0.v4.lost, []);
    }
}

#[test]
fn services_in_quarantine_are_added_to_their_family() {
    let found = of_daemon([status("IPv4")].iter()).1;
    assert!(found.v4.has(("shop", "a")) && !found.v4.has(("shop", "b")));
    assert_eq!(found.v6, ServiceNames::default());
}
