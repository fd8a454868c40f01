//! Detection of changes by other programs, on a real kernel: with another lock, next to restores by
//! a script, again and again, and not at all. `damage` has the repairs.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::daemon::{Backend, Daemon, backend_programs, real_program};
use crate::support::node::{Node, SHOP, replace_program, with_restore};
use crate::support::process::run;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, on_both_backends};
use tempfile::TempDir;

/// Far longer than any repair takes: nothing here is found by the check of each period.
const NO_PERIOD: &str = "--iptables-sync-period=10m";

const FULL: &str = "kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} ";

fn start(backend: Backend, flags: &[&str]) -> (Node, Daemon) {
    let node = Node::new(backend);
    let flags = [&[NO_PERIOD], flags].concat();
    let daemon = node.start_with(backend_programs(backend), &flags);
    node.wait_for_full_restore("--to-destination 10.4.0.12:8080");
    (node, daemon)
}

/// A line of the nat or filter table with all of these texts, without `-A `.
fn rule(node: &Node, texts: &[&str]) -> String {
    let rules = node.rules();
    let mut lines = rules.lines();
    let line = lines.find(|line| texts.iter().all(|text| line.contains(text)));
    let line = line.unwrap_or_else(|| panic!("no rule with {texts:?} in\n{rules}"));
    line.strip_prefix("-A ").expect("a rule").to_owned()
}

/// All rules, with the jumps of FORWARD in one order: a missing one is put back on top.
fn sorted(node: &Node) -> Vec<String> {
    let is_jump = |line: &String| line.starts_with("-A FORWARD ");
    let (mut jumps, mut rules): (Vec<_>, Vec<_>) =
        node.rules_alone().into_iter().partition(is_jump);
    jumps.sort();
    rules.extend(jumps);
    rules
}

fn wait_for_repair(node: &Node, daemon: &Daemon, before: &[String], what: &str) {
    eventually(PATIENCE, || {
        let after = sorted(node);
        ensure(after == before, || {
            format!("{what}: {after:#?}\n{}", daemon.log())
        })
    });
}

/// A container without the file of the host has another lock: no opening of it is noticed.
#[test]
fn a_rule_replaced_by_a_program_with_another_lock_is_repaired_on_legacy() {
    needs!(Kernel);
    let (node, daemon) = start(Backend::Legacy, &["--verify-interval=1s"]);
    let before = sorted(&node);
    // The last restore is followed by one verification; those after it are skipped.
    std::thread::sleep(Duration::from_secs(8));
    let mark = rule(
        &node,
        &["-A KUBE-SEP-", "-s 10.4.0.12/32", "-j KUBE-MARK-MASQ"],
    );
    let (chain, spec) = mark.split_once(' ').expect("a chain and a rule");
    let other = spec.replace("10.4.0.12", "10.4.0.13");
    let lock = node.manifests.path().join(".lock");
    let replaced = Instant::now();
    run(node
        .netns
        .command(real_program(Backend::Legacy, "iptables"))
        .env("XTABLES_LOCKFILE", lock)
        .args(["-w", "-t", "nat", "-R", chain, "1"])
        .args(other.split(' ')));
    wait_for_repair(&node, &daemon, &before, &other);
    eprintln!("repaired after {:?}", replaced.elapsed());
}

/// The process that writes the rules is not the one that was started, and another one works for
/// the other family at the same time.
#[test]
fn restores_behind_a_script_are_not_taken_for_those_of_another_program() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let script = "payload=$(cat)\nprintf '%s\\n' \"$payload\" | $REAL \"$@\"";
    let daemon = node.start_with(with_restore(Backend::Nft, script), &[NO_PERIOD]);
    for last in [12, 13, 14] {
        node.write(&SHOP.replace("10.4.0.12", &format!("10.4.0.{last}")));
        node.wait_for_rule(&format!("--to-destination 10.4.0.{last}:8080"));
    }
    let log = daemon.log();
    assert!(node.metric(&format!("{FULL}1")), "{log}");
    for wrong in ["rules were flushed", "changed by another program"] {
        assert!(!log.contains(wrong), "{wrong}: {log}");
    }
}

/// A program that deletes a rule again and again, such as a second proxy.
#[test]
fn repairs_of_a_contested_chain_back_off() {
    needs!(Kernel);
    let (node, daemon) = start(Backend::Nft, &[]);
    let before = sorted(&node);
    let started = Instant::now();
    for _ in 0..5 {
        node.iptables(&["-t", "nat", "-D", "KUBE-SERVICES", "1"]);
        wait_for_repair(&node, &daemon, &before, "contest");
    }
    // Three times at once, after 1 s and after 2 s.
    assert!(
        started.elapsed() > Duration::from_secs(3),
        "{}",
        daemon.log()
    );
    let log = daemon.log();
    assert_eq!(
        log.matches("rules changed by another program").count(),
        3,
        "{log}"
    );
    assert_eq!(
        log.matches("rules changed again by another program")
            .count(),
        2,
        "{log}"
    );
    assert!(log.contains("iptables"), "the program is not named: {log}");
    let contested = "deltaproxy_contested_chains{ip_family=\"IPv4\"} 1";
    assert!(node.metric(contested), "{log}");
    assert!(node.metric(&format!("{FULL}1")), "{log}");
}

/// The programs of a backend; each run of one adds its command line to this file.
fn counted_programs(backend: Backend, calls: &Path) -> TempDir {
    let bin = backend_programs(backend);
    for family in ["iptables", "ip6tables"] {
        for suffix in ["", "-save", "-restore"] {
            let name = format!("{family}{suffix}");
            let script = format!(
                "echo \"{name} $*\" >>{}\nexec $REAL \"$@\"",
                calls.display()
            );
            replace_program(&bin, backend, &name, &script);
        }
    }
    bin
}

/// Neither in each sync period nor in each verify interval, until another program does something.
/// On legacy a verification follows after six intervals.
fn nothing_is_run_while_nothing_changes(backend: Backend) {
    let node = Node::new(backend);
    let calls = node.manifests.path().join(".calls");
    let verify_interval = match backend {
        Backend::Nft => "--verify-interval=300ms",
        Backend::Legacy => "--verify-interval=3s",
    };
    let flags = ["--iptables-sync-period=300ms", verify_interval];
    let daemon = node.start_with(counted_programs(backend, &calls), &flags);
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    let count = || std::fs::read_to_string(&calls).unwrap_or_default();
    let mut before = count();
    let mut quiet_since = Instant::now();
    // The last restores are followed by one check and one comparison of each family.
    eventually(PATIENCE, || {
        let now = count();
        if now != before {
            before.clone_from(&now);
            quiet_since = Instant::now();
        }
        // A comparison may take half a percent of a CPU: a few milliseconds are a second or two.
        let is_quiet = quiet_since.elapsed() > Duration::from_secs(10);
        ensure(is_quiet, || format!("{now}\n{}", daemon.log()))
    });
    // Of the same size: on legacy only the lock tells of it.
    let mark = rule(
        &node,
        &["-A KUBE-SEP-", "-s 10.4.0.12/32", "-j KUBE-MARK-MASQ"],
    );
    let (chain, spec) = mark.split_once(' ').expect("a chain and a rule");
    let rules = sorted(&node);
    let other = spec.replace("10.4.0.12", "10.4.0.13");
    let replace = ["-t", "nat", "-R", chain, "1"];
    node.iptables(&[&replace[..], &other.split(' ').collect::<Vec<_>>()].concat());
    wait_for_repair(&node, &daemon, &rules, &other);
    assert_ne!(count(), before);
}

on_both_backends!(Kernel, nothing_is_run_while_nothing_changes);
