//! Damage in chains of ours whose rules never change, on a real kernel: it is repaired within a few
//! periods, and what is whole is left alone.

#![allow(clippy::expect_used, reason = "failing is a test's job")]

use crate::support;

use support::daemon::{Backend, Daemon};
use support::node::{Node, wait_for_looks, with_counted_restore};
use support::wait::{PATIENCE, ensure, eventually};
use support::{Need, machine_has};

/// What somebody does, as words behind `iptables -w -t`.
const DAMAGES: [&str; 6] = [
    "nat -F KUBE-MARK-MASQ",
    "filter -D KUBE-FORWARD 1",
    "nat -D KUBE-POSTROUTING 1",
    "nat -I KUBE-POSTROUTING -s 10.9.9.9 -j ACCEPT",
    "filter -A KUBE-FORWARD -j ACCEPT",
    "nat -R KUBE-MARK-MASQ 1 -j MARK --set-xmark 0x1/0x1",
];

/// The same, where the chain is ours to fill.
const FIREWALL_DAMAGES: [&str; 2] = [
    "filter -F KUBE-FIREWALL",
    "filter -I KUBE-FIREWALL -s 10.9.9.9 -j RETURN",
];

#[test]
fn nft_damage_is_repaired() {
    is_repaired(Backend::Nft, &[], &FIREWALL_DAMAGES);
}

#[test]
fn legacy_damage_is_repaired() {
    is_repaired(Backend::Legacy, &[], &FIREWALL_DAMAGES);
}

#[test]
fn damage_is_told_from_what_options_ask_for_on_nft() {
    options_differ(Backend::Nft);
}

#[test]
fn damage_is_told_from_what_options_ask_for_on_legacy() {
    options_differ(Backend::Legacy);
}

fn options_differ(backend: Backend) {
    is_repaired(
        backend,
        &["--iptables-masquerade-bit=31", "--masquerade-all"],
        &[],
    );
    let flags = [
        "--iptables-localhost-nodeports=false",
        "--conntrack-tcp-be-liberal",
    ];
    is_repaired(backend, &flags, &[]);
}

fn is_repaired(backend: Backend, flags: &[&str], more: &[&str]) {
    if !machine_has(Need::Kernel) {
        return;
    }
    let node = Node::new(backend);
    take_over(&node);
    let calls = node.manifests.path().join(".calls");
    let daemon = node.start_with(with_counted_restore(backend, &calls), flags);
    node.wait_for_full_restore("--to-destination 10.4.0.12:8080");
    let before = node.rules_alone();
    wait_for_looks(&node, &calls, 3);
    let log = daemon.log();
    assert!(
        !log.contains("rules were flushed or deleted"),
        "{flags:?}: {log}"
    );
    for damage in DAMAGES.iter().chain(more) {
        let args: Vec<&str> = ["-t"].into_iter().chain(damage.split(' ')).collect();
        node.iptables(&args);
        eventually(PATIENCE, || {
            let after = node.rules_alone();
            ensure(after == before, || {
                format!("{flags:?}, {damage}: {after:#?}\n{}", daemon.log())
            })
        });
    }
    let damages: Vec<&str> = DAMAGES.iter().chain(more).copied().collect();
    assert_noticed(&daemon, &damages);
    wait_for_looks(&node, &calls, 3);
    assert_noticed(&daemon, &damages);
}

/// Each damage once, and never again. A rule that was added is told from one that was lost.
#[track_caller]
fn assert_noticed(daemon: &Daemon, damages: &[&str]) {
    let log = daemon.log();
    let adds = |damage: &&&str| damage.contains(" -A ") || damage.contains(" -I ");
    let added = damages.iter().filter(adds).count();
    let lost = damages.len() - added;
    assert!(!log.contains("rules were flushed or deleted"), "{log}");
    assert!(
        log.matches("rules changed by another program").count() >= lost,
        "{log}"
    );
    assert_eq!(log.matches("third-party rules").count(), added, "{log}");
}

/// What an earlier kube-proxy has left, and rules of other people beside it.
fn take_over(node: &Node) {
    for words in [
        "filter -N KUBE-FORWARD",
        "filter -A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT",
        "filter -A FORWARD -j KUBE-FORWARD -m comment --comment kubernetes",
        "filter -A INPUT -s 10.9.9.9 -m conntrack --ctstate NEW -j ACCEPT",
        "nat -N KUBE-MARK-MASQ",
        "nat -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
        "nat -A POSTROUTING -s 10.9.9.9 -j MASQUERADE",
    ] {
        let args: Vec<&str> = ["-t"].into_iter().chain(words.split(' ')).collect();
        node.iptables(&args);
    }
}
