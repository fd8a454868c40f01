//! Rules that are flushed, as a whole or by a firewall that writes its own.

use std::process::Stdio;

use crate::support::daemon::{Backend, backend_programs, real_program};
use crate::support::on_both_backends;
use crate::support::process::run;
use crate::survival::scene::Scene;

/// Tables emptied and rewritten by a firewall in one restore.
const RELOAD: &str = "*mangle\nCOMMIT\n*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\n\
    COMMIT\n*nat\n:PREROUTING ACCEPT\n:POSTROUTING ACCEPT\n:OUTPUT ACCEPT\nCOMMIT\n";

/// Chains of a kubelet, which are not ours to change.
const KUBELET: &str = "*mangle\n:KUBE-KUBELET-CANARY -\nCOMMIT\n*nat\n:KUBE-MARK-DROP -\n\
    :KUBE-KUBELET-CANARY -\n-A KUBE-MARK-DROP -j MARK --or-mark 0x8000\nCOMMIT\n";

fn restore(scene: &Scene, flags: &[&str], text: &str) {
    let file = scene.node.manifests.path().join(".rules");
    std::fs::write(&file, text).expect("write rules");
    let program = real_program(scene.node.backend, "iptables-restore");
    let input = std::fs::File::open(file).expect("open rules");
    let mut command = scene.node.netns.command(program);
    run(command.arg("-w").args(flags).stdin(Stdio::from(input)));
}

fn flushes_are_survived(backend: Backend) {
    let scene = Scene::new(backend);
    let daemon = scene.start(backend_programs(backend));
    // In one transaction: a repair between `-F` and `-X` would fill the chains again.
    let flush = |table: &str| restore(&scene, &[], &format!("*{table}\nCOMMIT\n"));
    for table in ["nat", "filter", "mangle"] {
        scene.survives(&daemon, &format!("flush of {table}"), || flush(table));
    }
    scene.survives(&daemon, "flush of all tables", || {
        ["nat", "filter", "mangle"].into_iter().for_each(flush);
    });
    scene.survives(&daemon, "reload of a firewall", || {
        restore(&scene, &[], RELOAD);
    });
    if backend == Backend::Nft {
        scene.survives(&daemon, "nft flush ruleset", || {
            run(scene.node.netns.command("nft").args(["flush", "ruleset"]));
        });
    }
}

on_both_backends!(Kernel, flushes_are_survived);

fn chains_of_the_kubelet_stay(backend: Backend) {
    let scene = Scene::new(backend);
    restore(&scene, &["--noflush"], KUBELET);
    let daemon = scene
        .node
        .start_with(backend_programs(backend), &crate::survival::scene::FLAGS);
    let has_all = || {
        let rules = scene.node.rules_alone();
        let count = |text: &str| rules.iter().filter(|line| line.starts_with(text)).count();
        assert_eq!(count(":KUBE-KUBELET-CANARY"), 2, "{rules:#?}");
        assert_eq!(count("-A KUBE-MARK-DROP"), 1, "{rules:#?}");
    };
    scene.node.wait_for_rule("--to-destination 10.4.0.12:8080");
    has_all();
    scene.change();
    scene.node.wait_for_rule("--to-destination 10.4.0.13:8080");
    scene.node.iptables(&["-t", "nat", "-F", "KUBE-SERVICES"]);
    scene.node.wait_for_rule("-d 10.96.0.10/32");
    has_all();
    drop(daemon);
}

on_both_backends!(Kernel, chains_of_the_kubelet_stay);
