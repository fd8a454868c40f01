//! The real programs against a real kernel, in network namespaces made for the test.

use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;

use crate::host::{
    BackendChoice, Exec, Iptables, Options, Programs, RestoreError, excerpt, interface_addresses,
};
use crate::net::IpFamily;
use crate::rules::{Table, Text};

use super::{block_on, turn};

/// Runs `test` on a thread in a fresh network namespace, for both backends and families.
fn in_namespace(test: fn(Exec)) {
    let _turn = turn();
    if !geteuid().is_root() {
        eprintln!("skipped: making a network namespace needs root");
        return;
    }
    for choice in [BackendChoice::Nft, BackendChoice::Legacy] {
        for family in IpFamily::ALL {
            let thread = std::thread::spawn(move || {
                unshare(CloneFlags::CLONE_NEWNET).unwrap();
                match block_on(Programs::discover(choice, family)) {
                    Ok(programs) => test(Exec::new(programs, Options::default())),
                    Err(error) => eprintln!("skipped: {error}"),
                }
            });
            thread.join().unwrap();
        }
    }
}

fn text(lines: &[&str]) -> Text {
    Text::new((lines.join("\n") + "\n").into_bytes())
}

#[test]
fn both_tables_arrive_and_can_be_read_back() {
    in_namespace(|exec| {
        let mut payload = text(&[
            "*filter",
            ":KUBE-A - [0:0]",
            "-A KUBE-A -j DROP",
            "COMMIT",
            "*nat",
            ":KUBE-B - [0:0]",
            "-A KUBE-B -j RETURN",
            "COMMIT",
        ]);
        block_on(async {
            exec.programs().probe().await.unwrap();
            exec.restore(&mut payload).await.unwrap();
            let filter = exec.save(Table::Filter).await.unwrap();
            assert!(filter.contains("-A KUBE-A -j DROP\n"), "{filter}");
            let nat = exec.save(Table::Nat).await.unwrap();
            assert!(nat.contains("-A KUBE-B -j RETURN\n"), "{nat}");
            assert!(!nat.contains("KUBE-A"), "{nat}");
        });
    });
}

#[test]
fn refused_lines_are_found() {
    in_namespace(|exec| {
        let refused = |bad: &'static str| {
            let lines = [
                "*filter",
                ":KUBE-A - [0:0]",
                "-A KUBE-A -j DROP",
                bad,
                "COMMIT",
            ];
            match block_on(exec.restore(&mut text(&lines))) {
                Err(RestoreError::Refused { line, .. }) => {
                    // Either program may find out only at the commit.
                    assert!(line == 4 || line == 5, "line {line} for {bad}");
                    let shown = excerpt(&mut text(&lines), line).to_string();
                    assert!(shown.contains(bad), "{shown}");
                }
                other => panic!("{other:?} for {bad}"),
            }
            let saved = block_on(exec.save(Table::Filter)).unwrap();
            assert!(!saved.contains("KUBE-A"), "half applied: {saved}");
        };
        refused("-A KUBE-A -j NOSUCH");
        refused("-A KUBE-NONE -j DROP");
        refused("-A KUBE-A --no-such-option 3 -j DROP");
        refused("-A KUBE-A -p tcp --dport 99999 -j DROP");
        refused("-A KUBE-A -m nosuchmatch -j DROP");
        refused("-D KUBE-A -j ACCEPT");
        refused("-X KUBE-NONE");
        refused("-A KUBE-A -j MASQUERADE");
        refused("hello");
    });
}

#[test]
fn a_missing_commit_is_refused() {
    in_namespace(|exec| {
        let error = block_on(exec.restore(&mut text(&["*filter", ":KUBE-A - [0:0]"]))).unwrap_err();
        assert!(
            matches!(error, RestoreError::Refused { line: 3, .. }),
            "{error}"
        );
    });
}

#[test]
fn a_fresh_namespace_has_few_addresses() {
    in_namespace(|_| {
        let all = interface_addresses().unwrap();
        assert!(
            all.iter().all(|address| address.ip.is_loopback()),
            "{all:?}"
        );
    });
}
