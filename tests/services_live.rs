//! `deltaproxy services` of a kernel that has two sets of rules, of which programs see one.

#![allow(clippy::unwrap_used, reason = "failing is a test's job")]

use crate::support;

use std::io::Write;
use std::process::Stdio;

use support::netns::Netns;
use support::{Need, machine_has};

const RULES: &str = "*nat\n:KUBE-SERVICES - [0:0]\n-A OUTPUT -j KUBE-SERVICES\nCOMMIT\n";

/// Rules of one backend, and what is said of the other.
#[track_caller]
fn check(has: &str, shown: &str, expected: Option<&str>) {
    let node = Netns::new("services");
    let mut restore = node.command(format!("iptables-{has}-restore"));
    let mut restore = restore.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = restore.stdin.take().unwrap();
    stdin.write_all(RULES.as_bytes()).unwrap();
    drop(stdin);
    assert!(restore.wait().unwrap().success());
    let mut services = node.command(env!("CARGO_BIN_EXE_deltaproxy"));
    let services = services.args(["services", "--iptables-backend", shown]);
    let output = services.env_remove("RUST_LOG").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.contains("warning: "), expected.is_some(), "{said}");
    assert!(said.contains(expected.unwrap_or_default()), "{said}");
}

#[test]
fn rules_of_the_other_backend_are_pointed_out() {
    if !machine_has(Need::Kernel) {
        return;
    }
    check(
        "legacy",
        "nft",
        Some("backend legacy has: use --iptables-backend=legacy"),
    );
    check(
        "nft",
        "legacy",
        Some("backend nft has: use --iptables-backend=nft"),
    );
    check("nft", "nft", None);
    check("legacy", "legacy", None);
}
