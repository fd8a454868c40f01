//! `run --state-dir` and `history`: records of syncs, on disks that work and that do not.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use crate::support::daemon::{Backend, Daemon, backend_programs};
use crate::support::http;
use crate::support::needs;
use crate::support::node::{Node, SHOP};
use crate::support::process::run;
use crate::support::program;
use crate::support::wait::{PATIENCE, ensure, eventually};
use deltaproxy::testing::cli::past_rules;
use deltaproxy::testing::rules::{RuleSet, Table};
use jiff::Timestamp;
use serde_json::Value;

const LOST: &str = "deltaproxy_history_lost_records_total{reason=\"write_failed\"}";

fn start(node: &Node, folder: &Path) -> Daemon {
    let flag = format!("--state-dir={}", folder.display());
    node.start_with(backend_programs(node.backend), &[&flag])
}

fn history(folder: &Path, more: &[&str]) -> String {
    let flag = format!("--state-dir={}", folder.display());
    program::run(&[&["history", &flag], more].concat()).success()
}

fn records(folder: &Path) -> Vec<Value> {
    let text = history(folder, &["-o", "json"]);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Changes the endpoint, and waits until the kernel has the rule.
#[track_caller]
fn change(node: &Node, last: u8) {
    let other = format!("10.4.0.{last}");
    node.write(&SHOP.replace("10.4.0.12", &other));
    node.wait_for_rule(&format!("--to-destination {other}:8080"));
}

fn lost(node: &Node) -> u64 {
    http::count(&node.metrics(), LOST)
}

/// A sync is recorded with its Service, payload and duration, a repair with the program that
/// changed the rules, and a copy of the folder tells the same.
#[test]
fn syncs_are_recorded_with_cause_and_payload() {
    needs!(Kernel);
    for backend in [Backend::Nft, Backend::Legacy] {
        let node = Node::new(backend);
        let folder = tempfile::tempdir().unwrap();
        let _daemon = start(&node, folder.path());
        node.wait_for_full_restore("--to-destination 10.4.0.12:8080");
        change(&node, 13);
        eventually(PATIENCE, || {
            let found = records(folder.path());
            let last = found.last().cloned().unwrap_or_default();
            let is_complete = last["scope"] == "partial"
                && last["services"][0] == "default/shop"
                && last["payload"].as_str().unwrap_or("").contains("10.4.0.13")
                && last["tookMs"].as_f64() > Some(0.0);
            ensure(is_complete, || format!("{found:?}"))
        });
        node.iptables(&["-t", "nat", "-F", "KUBE-SERVICES"]);
        eventually(PATIENCE, || {
            let found = records(folder.path());
            let repair = found.iter().find(|record| record["drift"].is_array());
            let drift = repair.map(|record| record["drift"][0].clone());
            let drift = drift.unwrap_or_default();
            let names = drift["names"].as_str().unwrap_or_default();
            let program = drift["program"].as_str().unwrap_or_default();
            // Only nft names the program.
            let is_named = backend == Backend::Legacy || program.contains("iptables");
            ensure(names.contains("KUBE-SERVICES") && is_named, || {
                format!("{found:?}")
            })
        });

        let copy = copy_of(folder.path());
        let text = history(copy.path(), &["shop"]);
        assert!(text.contains("default/shop"), "{text}");
        assert!(text.contains("    -A KUBE-SEP-"), "{text}");
        assert!(!history(copy.path(), &["cafe"]).contains("shop"));
        assert_eq!(history(copy.path(), &["--since", "0s"]), "");
    }
}

/// The command with the folder, as it succeeds or finds a difference.
fn past(folder: &Path, args: &[&str]) -> String {
    let flag = format!("--state-dir={}", folder.display());
    let output = program::run(&[args, &[&flag]].concat());
    assert!(matches!(output.code, Some(0 | 1)), "{output:#?}");
    output.stdout
}

/// Chains of Services and shared chains, with their rules; entry jumps are compared as well.
fn ours(rules: &RuleSet) -> Vec<String> {
    let mut lines = Vec::new();
    for table in Table::ALL {
        for (name, chain) in rules.chains(table) {
            let is_ours = name.starts_with("KUBE-");
            let rules = chain.rules.iter().filter(|rule| {
                let target = rule.target_chain().unwrap_or_default();
                is_ours || target.starts_with("KUBE-")
            });
            lines.extend(is_ours.then(|| format!("{table} :{name}")));
            lines.extend(rules.map(|rule| format!("{table} -A {name} {rule}")));
        }
    }
    lines
}

/// The rules of moments in a copied folder are those that iptables-save printed then: before and
/// after a change, after another program's damage, after a restart.
#[test]
fn past_rules_are_those_that_the_kernel_had() {
    needs!(Kernel);
    for backend in [Backend::Nft, Backend::Legacy] {
        let node = Node::new(backend);
        let folder = tempfile::tempdir().unwrap();
        let daemon = start(&node, folder.path());
        node.wait_for_full_restore("--to-destination 10.4.0.12:8080");
        let mut moments = Vec::new();
        let mut keep = |what: &str| {
            // A sync is recorded after the kernel has its rules.
            eventually(PATIENCE, || {
                let at = Timestamp::try_from(SystemTime::now()).unwrap();
                let kernel = ours(&RuleSet::parse(&node.rules()).unwrap());
                let rebuilt = past_rules(folder.path(), at);
                let rebuilt = rebuilt.map(|rules| ours(&rules));
                let is_same = rebuilt.as_ref().is_ok_and(|rebuilt| *rebuilt == kernel);
                ensure(is_same, || format!("{what}: {rebuilt:#?}\n{kernel:#?}"))?;
                moments.push((what.to_owned(), at, kernel));
                Ok(())
            });
        };
        keep("first");
        change(&node, 13);
        keep("changed");
        node.iptables(&["-t", "nat", "-F", "KUBE-SERVICES"]);
        node.iptables(&["-t", "nat", "-F", "PREROUTING"]);
        node.wait_for_rule("-A PREROUTING -m comment --comment \"kubernetes service portals\"");
        node.wait_for_rule("-A KUBE-SERVICES -d");
        keep("repaired");
        drop(daemon);
        let _daemon = start(&node, folder.path());
        change(&node, 14);
        keep("restarted");
        change(&node, 15);
        keep("last");

        let copy = copy_of(folder.path());
        for (what, at, kernel) in &moments {
            let rebuilt = ours(&past_rules(copy.path(), *at).unwrap());
            assert_eq!(rebuilt, *kernel, "{what}");
        }
        let [first, last] = [moments[0].1, moments[4].1].map(|at| at.to_string());
        let text = past(copy.path(), &["diff", "--at", &first, "--at", &last]);
        assert!(
            text.contains("10.4.0.12") && text.contains("10.4.0.15"),
            "{text}"
        );
        let text = past(
            copy.path(),
            &["explain", "shop", "--from=pod", "--at", &first],
        );
        assert!(
            text.contains("10.4.0.12") && !text.contains("10.4.0.15"),
            "{text}"
        );
        let text = past(copy.path(), &["services", "--at", "0s"]);
        assert!(text.contains("10.96.0.10"), "{text}");
    }
}

fn copy_of(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

/// Changes reach the kernel whatever becomes of the disk: it is full, and then gone.
#[test]
fn a_disk_that_is_full_or_gone_delays_no_sync() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs", path]));
    let daemon = start(&node, folder.path());
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    eventually(PATIENCE, || {
        let count = records_or_none(folder.path());
        ensure(count > 0, || daemon.log())
    });
    let filler = folder.path().join("filler");
    // Fails when no block is left.
    let _ = std::fs::write(&filler, vec![1; 64 << 10]);
    let mut last = 20;
    eventually(PATIENCE, || {
        last += 1;
        change(&node, last);
        ensure(lost(&node) > 0, || daemon.log())
    });
    eventually(PATIENCE, || {
        let is_logged = daemon.log().contains("cannot write the history");
        ensure(is_logged, || daemon.log())
    });
    std::fs::remove_file(&filler).unwrap();
    let before = records_or_none(folder.path());
    eventually(PATIENCE, || {
        last += 1;
        change(&node, last);
        let count = records_or_none(folder.path());
        ensure(count > before, || daemon.log())
    });

    run(Command::new("umount").args(["-l", path]));
    std::fs::remove_dir_all(folder.path()).unwrap();
    let before = lost(&node);
    change(&node, 12);
    eventually(PATIENCE, || {
        last += 1;
        change(&node, last);
        ensure(lost(&node) > before, || daemon.log())
    });
}

fn records_or_none(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names = entries.map(|entry| entry.unwrap().file_name());
    if names.any(|name| name.to_string_lossy().starts_with("history-")) {
        records(folder).len()
    } else {
        0
    }
}

/// Without the flag nothing is written or counted.
#[test]
fn without_a_folder_there_is_no_history() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let _daemon = node.start(backend_programs(node.backend));
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    assert!(!node.metrics().contains("deltaproxy_history"));
}
