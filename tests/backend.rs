//! Which set of iptables programs writes the rules, on a real kernel.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::daemon::{Backend, backend_programs, real_program};
use crate::support::needs;
use crate::support::node::{Node, replace_program, write_script};
use crate::support::process::run;
use crate::support::wait::{PATIENCE, ensure, eventually};

const RULE: &str = "--to-destination 10.4.0.12:8080";

fn kubelet_hints(node: &Node) {
    node.iptables(&["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
}

/// The tables that legacy programs have made, in both families.
fn legacy_tables(node: &Node) -> String {
    let lists = ["ip_tables_names", "ip6_tables_names"].map(|list| format!("/proc/net/{list}"));
    run(node.netns.command("cat").args(lists))
}

#[test]
fn rules_go_where_kubelet_s_are() {
    needs!(Kernel);
    for (kubelets, plain) in [
        (Backend::Legacy, Backend::Nft),
        (Backend::Nft, Backend::Legacy),
    ] {
        let node = Node::new(kubelets);
        kubelet_hints(&node);
        let daemon = node.start_with(backend_programs(plain), &["--iptables-backend=auto"]);
        node.wait_for_rule(RULE);
        drop(daemon);
        if kubelets == Backend::Nft {
            assert_eq!(legacy_tables(&node), "");
        }
    }
}

#[test]
fn another_choice_than_kubelet_s_is_told() {
    needs!(Kernel);
    let node = Node::new(Backend::Legacy);
    kubelet_hints(&node);
    let daemon = node.start_with(backend_programs(Backend::Nft), &[]);
    daemon.wait_for_log("kubelet uses backend legacy, but rules are written with nft");
}

/// iptables is not usable for one family, and was tried before the other was there: health is about
/// the other alone.
#[test]
fn a_family_that_is_given_up_is_not_unhealthy() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let bin = backend_programs(Backend::Nft);
    let found = bin.path().join("found");
    for (program, script) in [
        ("ip6tables", "exit 127".to_owned()),
        (
            "iptables",
            format!("[ -e {} ] || exit 127\nexec $REAL \"$@\"", found.display()),
        ),
    ] {
        replace_program(&bin, Backend::Nft, program, &script);
    }
    let daemon = node.start(bin);
    daemon.wait_for_log("is not usable for IPv4; retrying in");
    // Twice the sync period is over, and nothing works.
    node.wait_for_health(503);
    std::fs::write(found, "").expect("write a file");
    node.wait_for_rule(RULE);
    daemon.wait_for_log("IPv6 is disabled: IPv6 rules of Services are no longer updated");
    node.wait_for_health(200);
}

/// Programs that read all rules, whatever they are asked, take seconds in a large cluster: `nft`,
/// and `-S` without a chain on nft. The others are known to be cheap. Without a hint of kubelet,
/// plain names are used, and none makes a table that each packet would have to pass from then on.
#[test]
fn a_start_asks_for_no_more_than_it_has_to() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let bin = backend_programs(Backend::Nft);
    let calls = bin.path().join("calls");
    for family in ["iptables", "ip6tables"] {
        for suffix in ["", "-save", "-restore"] {
            let plain = format!("{family}{suffix}");
            for (backend, infix) in [
                (Backend::Nft, ""),
                (Backend::Nft, "-nft"),
                (Backend::Legacy, "-legacy"),
            ] {
                let name = format!("{family}{infix}{suffix}");
                let path = bin.path().join(&name);
                let script = format!(
                    "echo {name} \"$@\" >>{}\nexec $REAL \"$@\"",
                    calls.display()
                );
                // Those of the plain names are links.
                let _ = std::fs::remove_file(&path);
                write_script(&path, &real_program(backend, &plain), &script);
            }
        }
    }
    let nft = format!("echo nft \"$@\" >>{}", calls.display());
    write_script(&bin.path().join("nft"), Path::new("/bin/true"), &nft);
    let _daemon = node.start_with(
        bin,
        &["--iptables-backend=auto", "--iptables-sync-period=1h"],
    );
    let known = [
        " --version",
        " -w 5 -S POSTROUTING -t nat",
        // Both tables once, as there may be rules to take over.
        " -t filter -S",
        " -t nat -S",
        "-restore -w 5 --noflush --counters",
        // The other backend, where there is nothing.
        "-legacy --version",
        "-legacy-save",
    ];
    let families = ["iptables", "ip6tables"];
    let known: BTreeSet<_> = families
        .iter()
        .flat_map(|family| known.map(|call| format!("{family}{call}")))
        .collect();
    let made = eventually(PATIENCE, || {
        let calls = std::fs::read_to_string(&calls).unwrap_or_default();
        let made: BTreeSet<_> = calls.lines().map(|c| c.trim_end().to_owned()).collect();
        ensure(made.is_superset(&known), || calls)?;
        Ok(made)
    });
    assert_eq!(made, known);
    assert_eq!(legacy_tables(&node), "");
}

/// Plain names of legacy on a kernel without ip_tables.
#[test]
fn without_legacy_tables_rules_go_to_nft() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let bin = backend_programs(Backend::Legacy);
    for name in ["iptables", "ip6tables"] {
        let script = "[ \"$*\" != --version ] || exec $REAL --version\n\
                      echo \"can't initialize iptables table \\`nat': Table does not exist\" >&2\n\
                      exit 3";
        replace_program(&bin, Backend::Legacy, name, script);
    }
    let daemon = node.start_with(bin, &["--iptables-backend=auto"]);
    node.wait_for_rule(RULE);
    assert_eq!(legacy_tables(&node), "");
    daemon.wait_for_log("(nft)");
}
