//! Rules of other people that the iptables programs cannot show, on a real kernel.
//!
//! One such rule makes `iptables-nft-save` print nothing of a table, or fail; jumps must not be put
//! in again for that, and Services must be programmed.

#![allow(clippy::expect_used, reason = "failing is a test's job")]

use crate::support;

use support::daemon::{Backend, Daemon, backend_programs};
use support::node::{Node, SHOP, wait_for_looks, with_counted_restore};
use support::process::run;
use support::rules::endpoint_chain;
use support::wait::{PATIENCE, ensure, eventually};
use support::{Need, machine_has, on_both_backends};

/// The filter table counts as incompatible.
const STATES_IN_FILTER: &str = "table ip filter { chain INPUT { type filter hook input priority 0; \
    ct state established,related accept; }; }";

/// The nat table counts as incompatible, and the chain that is listed to see whether the kernel
/// answers cannot be listed.
const STATES_IN_NAT: &str = "table ip nat { chain POSTROUTING { type nat hook postrouting \
    priority 100; ct state established,related accept; }; }";

/// Saving the nat table fails with status 3.
const MAP_IN_NAT: &str =
    "table ip nat { chain custom { meta mark set tcp dport map { 7: 1, 8: 2 }; }; }";

/// Full syncs that have succeeded.
const FULL_SYNCS: &str = "kubeproxy_sync_full_proxy_rules_duration_seconds_count";

#[test]
fn states_in_the_filter_table_are_lived_with() {
    is_lived_with(STATES_IN_FILTER);
}

#[test]
fn states_in_the_nat_table_are_lived_with() {
    is_lived_with(STATES_IN_NAT);
}

#[test]
fn a_map_in_the_nat_table_is_lived_with() {
    is_lived_with(MAP_IN_NAT);
}

fn is_lived_with(rule: &str) {
    if !machine_has(Need::Kernel) {
        return;
    }
    let node = Node::new(Backend::Nft);
    run(node.netns.command("nft").arg(rule));
    let shops = [11, 12, 13].map(|last| SHOP.replace("10.4.0.12", &format!("10.4.0.{last}")));
    let calls = node.manifests.path().join(".calls");
    for (shop, last) in shops.iter().zip([11, 12, 13]) {
        node.write(shop);
        let mut daemon = node.start(with_counted_restore(Backend::Nft, &calls));
        wait_for_endpoint(&node, last);
        assert_jumps(&node, &daemon);
        wait_for_looks(&node, &calls, 5);
        assert_jumps(&node, &daemon);
        let log = daemon.log();
        assert_eq!(log.matches("stale chains stay").count(), 1, "{log}");
        assert!(
            log.matches("check of the rules in this table failed")
                .count()
                <= 1,
            "{log}"
        );
        for wrong in [
            "restore failed",
            "rules were flushed",
            "reading the rules in the kernel",
        ] {
            assert!(!log.contains(wrong), "{wrong}: {log}");
        }
        let once = format!("{FULL_SYNCS}{{ip_family=\"IPv4\"}} 1");
        assert!(node.metric(&once), "not one full sync: {log}");
        assert!(daemon.terminate().success());
    }
}

#[test]
fn a_flush_is_noticed_beside_a_map() {
    if !machine_has(Need::Kernel) {
        return;
    }
    let node = Node::new(Backend::Nft);
    run(node.netns.command("nft").arg(MAP_IN_NAT));
    let daemon = node.start(backend_programs(Backend::Nft));
    wait_for_endpoint(&node, 12);
    node.iptables(&["-t", "nat", "-F", "PREROUTING"]);
    eventually(PATIENCE, || {
        let jumps = jumps(&node, "nat");
        ensure(jumps == 3, || format!("{jumps} jumps\n{}", daemon.log()))
    });
    assert_jumps(&node, &daemon);
}

#[test]
fn a_rule_that_cannot_be_printed_is_removed_from_a_chain_of_ours() {
    if !machine_has(Need::Kernel) {
        return;
    }
    let node = Node::new(Backend::Nft);
    let daemon = node.start(backend_programs(Backend::Nft));
    wait_for_endpoint(&node, 12);
    let rule = "insert rule ip nat KUBE-POSTROUTING ct state established,related accept";
    run(node.netns.command("nft").arg(rule));
    eventually(PATIENCE, || {
        let listed = listed(&node, "nat");
        ensure(!listed.contains("established"), || {
            format!("{listed}\n{}", daemon.log())
        })
    });
    assert_jumps(&node, &daemon);
}

/// A rule that is put back again and again costs its chain and no full restore.
fn third_party_rules_in_a_fixed_chain_are_removed(backend: Backend) {
    let node = Node::new(backend);
    let daemon = node.start(backend_programs(backend));
    node.wait_for_full_restore("--to-destination 10.4.0.12:8080");
    let before = node.rules_alone();
    let rule = [
        "-t",
        "filter",
        "-A",
        "KUBE-FORWARD",
        "-s",
        "10.9.9.9",
        "-j",
        "ACCEPT",
    ];
    for times in 1..=3 {
        node.iptables(&rule);
        eventually(PATIENCE, || {
            let after = node.rules_alone();
            ensure(after == before, || {
                format!("{times}: {after:#?}\n{}", daemon.log())
            })
        });
    }
    let log = daemon.log();
    assert!(
        log.contains("third-party rules found in a kube-proxy chain"),
        "{log}"
    );
    assert!(
        log.contains("third-party rules are back in a kube-proxy chain"),
        "{log}"
    );
    let unflushed = r#"deltaproxy_full_syncs_total{ip_family="IPv4",reason="flushed"} 0"#;
    let repaired = r#"deltaproxy_chain_repairs_total{ip_family="IPv4",table="filter"} 3"#;
    for line in [unflushed, repaired] {
        assert!(node.metric(line), "no {line}: {log}");
    }
}

on_both_backends!(Kernel, third_party_rules_in_a_fixed_chain_are_removed);

/// 11 and 3 are kube-proxy's, in the built-in chains of each table.
#[track_caller]
fn assert_jumps(node: &Node, daemon: &Daemon) {
    let found = (jumps(node, "filter"), jumps(node, "nat"));
    assert_eq!(found, (11, 3), "{}", daemon.log());
}

/// The jumps from built-in chains to ours.
fn jumps(node: &Node, table: &str) -> usize {
    let (listed, mut is_built_in) = (listed(node, table), false);
    let mut count = 0;
    for line in listed.lines().map(str::trim) {
        if let Some(chain) = line.strip_prefix("chain ") {
            is_built_in = !chain.starts_with("KUBE-");
        } else if is_built_in && line.contains("jump KUBE-") {
            count += 1;
        }
    }
    count
}

#[track_caller]
fn wait_for_endpoint(node: &Node, last: u8) {
    let chain = endpoint_chain("default/shop:http", "tcp", &format!("10.4.0.{last}:8080"));
    eventually(PATIENCE, || {
        let listed = listed(node, "nat");
        ensure(listed.contains(&format!("jump {chain}")), || listed)
    });
}

/// What only `nft` can show; nothing, as long as there is no such table.
fn listed(node: &Node, table: &str) -> String {
    let mut command = node.netns.command("nft");
    let output = command.args(["list", "table", "ip", table]).output();
    let output = output.expect("run nft");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
