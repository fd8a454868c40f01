//! The daemon while another program holds the xtables lock, on a real kernel.

use crate::support::daemon::Backend;
use crate::support::node::{Node, SHOP, wait_for_looks, with_restore};
use crate::support::rules::endpoint_chain;
use crate::support::{needs, on_both_backends};

/// A check that does not get the lock is no reason to write all rules, least of all while another
/// program holds it.
fn a_lock_that_is_held_is_no_flush(backend: Backend) {
    let node = Node::new(backend);
    let file = |name: &str| node.manifests.path().join(name);
    let (held, calls) = (file(".held"), file(".calls"));
    let script = format!(
        "[ -e {held} ] || exec $REAL \"$@\"\necho >>{calls}\n\
         echo 'Another app is currently holding the xtables lock.' >&2; exit 4",
        held = held.display(),
        calls = calls.display()
    );
    let daemon = node.start(with_restore(backend, &script));
    node.wait_for_full_restore("--to-destination 10.4.0.12:8080");
    std::fs::write(&held, "").expect("write a file");
    wait_for_looks(&node, &calls, 3);
    let log = daemon.log();
    // Once for each table.
    assert_eq!(
        log.matches("check of the rules in this table failed")
            .count(),
        3,
        "{log}"
    );
    assert!(!log.contains("rules were flushed or deleted"), "{log}");
    let full = "kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1";
    assert!(node.metric(full), "{log}");
    let unflushed = r#"deltaproxy_full_syncs_total{ip_family="IPv4",reason="flushed"} 0"#;
    assert!(node.metric(unflushed), "{log}");

    // A flush during that time is found afterwards.
    node.iptables(&["-t", "nat", "-F", "PREROUTING"]);
    std::fs::remove_file(&held).expect("remove a file");
    node.wait_for_rule("-A PREROUTING -m comment --comment \"kubernetes service portals\"");
}

on_both_backends!(Kernel, a_lock_that_is_held_is_no_flush);

/// The lock is taken for each table. What was written before it was missed must not be written
/// again, and what was not is written as it is.
#[test]
fn a_restore_that_misses_the_lock_is_tried_again_as_it_is() {
    needs!(Kernel);
    let node = Node::new(Backend::Legacy);
    let (before, _) = SHOP.split_once("---").expect("two manifests");
    node.write(before);
    let held = node.manifests.path().join(".held");
    let script = format!(
        "payload=$(cat)\ncase $payload in '*nat'*-j*) [ ! -e {} ] || {{ echo 'Another app is \
         currently holding the xtables lock.' >&2; exit 4; }};; esac\n\
         printf '%s\\n' \"$payload\" | $REAL \"$@\"",
        held.display()
    );
    let daemon = node.start(with_restore(Backend::Legacy, &script));
    node.wait_for_rule("has no endpoints");
    // The first sync writes nat after filter; it is not to miss the lock.
    node.wait_for_rule("-A KUBE-MARK-MASQ");
    std::fs::write(&held, "").expect("write a file");
    // No rule of the filter table rejects it any more, and chains of nat come to it.
    node.write(SHOP);
    daemon.wait_for_log("while another program holds the xtables lock");
    let rules = node.rules();
    assert!(!rules.contains("has no endpoints"), "{rules}");
    assert!(!rules.contains("10.4.0.12"), "{rules}");
    std::fs::remove_file(&held).expect("remove a file");
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    daemon.wait_for_log("sync succeeded after failures");
    let chain = endpoint_chain("default/shop:http", "tcp", "10.4.0.12:8080");
    let rules = node.rules();
    assert_eq!(rules.matches(&format!(":{chain}")).count(), 1, "{rules}");
    assert_eq!(rules.matches("-d 10.96.0.10/32").count(), 2, "{rules}");
    for reason in ["restore_failed", "flushed"] {
        let line =
            format!("deltaproxy_full_syncs_total{{ip_family=\"IPv4\",reason=\"{reason}\"}} 0");
        assert!(node.metric(&line), "{}", daemon.log());
    }
}
