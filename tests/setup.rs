//! What is done to a machine once, and a daemon that may do no more than write rules.
//!
//! Settings of the kernel are those of a namespace made for the test, but for the two that are the
//! machine's own: these cannot be written.

use crate::support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::daemon::{Backend, backend_programs};
use crate::support::netns::Netns;
use crate::support::node::{Node, with_restore};
use crate::support::process::Process;
use crate::support::program::{PROGRAM, Ran, with_programs};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, on_both_backends};

const TIMEOUTS: [(&str, &str); 2] = [
    ("netfilter/nf_conntrack_tcp_timeout_established", "86400"),
    ("netfilter/nf_conntrack_tcp_timeout_close_wait", "3600"),
];

/// Flags of both: the limits of the machine are not a namespace's to set.
const FLAGS: [&str; 3] = [
    "run",
    "--conntrack-max-per-core=0",
    "--hostname-override=node1",
];

/// As the overlay `least-privilege` has it: nothing can be written but the lock, and nothing be
/// done but with two capabilities.
const CONFINE: &str = "\
set -e
touch /run/xtables.lock
mount --bind /run/xtables.lock /run/xtables.lock
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -o remount,bind,ro /
exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+net_admin,+net_raw \"$@\"
";

fn confined(node: &Node, bin: &Path, log: &Path, more: &[String]) -> Process {
    let mut command = with_programs(&node.netns, bin, "unshare");
    command.args(["--mount", "sh", "-c", CONFINE, "sh", PROGRAM]);
    command
        .args(FLAGS)
        .args(["--cluster-cidr=10.4.0.0/14", "--manifests"]);
    command.arg(node.manifests.path()).args(more);
    Process::start("a confined daemon", &mut command, log)
}

fn a_daemon_needs_few_privileges_once_all_is_set_up(backend: Backend) {
    let (node, bin) = (Node::new(backend), backend_programs(backend));
    let init = || {
        let mut command = with_programs(&node.netns, bin.path(), PROGRAM);
        Ran::of(command.args(FLAGS).arg("--init-only"))
    };
    let first = init();
    assert!(first.is_success(), "{first:#?}");
    let first = first.stderr;
    for (setting, expected) in TIMEOUTS {
        assert_eq!(node.netns.setting(setting), expected);
        assert!(first.contains(&format!("set net/{setting}: ")), "{first}");
    }
    assert_eq!(node.netns.setting("ipv4/conf/all/route_localnet"), "1");
    assert_guarded_only(&node);
    let again = init().stderr;
    assert!(!again.contains("set net/"), "{again}");
    assert!(first.contains("protects 127.0.0.0/8") && !again.contains("protects"));
    assert_guarded_only(&node);

    let mut daemon = confined(&node, bin.path(), &bin.path().join("log"), &[]);
    node.wait_for_rule("--to-destination 10.4.0.11:8080");
    node.write(&support::node::SHOP.replace("10.4.0.11", "10.4.0.13"));
    node.wait_for_rule("--to-destination 10.4.0.13:8080");
    daemon.assert_running();
    assert!(!daemon.log().contains("ERROR"), "{}", daemon.log());
}

/// The one rule of ours is the one without which the setting would open localhost to neighbors.
#[track_caller]
fn assert_guarded_only(node: &Node) {
    let rules = node.rules();
    let ours: Vec<&str> = rules
        .lines()
        .filter(|line| line.contains("KUBE-"))
        .collect();
    let is_guard = |line: &&&str| line.contains("block incoming localnet connections");
    assert_eq!(ours.iter().filter(is_guard).count(), 1, "{rules}");
    assert_eq!(
        ours.iter()
            .filter(|line| line.contains("-j KUBE-FIREWALL"))
            .count(),
        2
    );
    assert_eq!(ours.len(), 4, "{rules}");
}

/// While the first restore is awaited, nothing guards localhost.
fn localhost_is_opened_behind_its_guard(backend: Backend) {
    let node = Node::new(backend);
    let setting = "ipv4/conf/all/route_localnet";
    node.netns.sysctl(setting, "0");
    let (begun, over) = (
        node.manifests.path().join(".begun"),
        node.manifests.path().join(".over"),
    );
    let script = format!(
        "touch {}\nuntil [ -e {} ]; do sleep 0.1; done\nexec $REAL \"$@\"",
        begun.display(),
        over.display()
    );
    let daemon = node.start(with_restore(backend, &script));
    eventually(PATIENCE, || {
        ensure(begun.exists(), || "no restore yet".to_owned())
    });
    assert_eq!(node.netns.setting(setting), "0", "{}", daemon.log());
    std::fs::write(&over, "").expect("write a file");
    eventually(PATIENCE, || {
        let now = node.netns.setting(setting);
        ensure(now == "1", || daemon.log())
    });
    let rules = node.rules();
    assert!(
        rules.contains("block incoming localnet connections"),
        "{rules}"
    );
}

on_both_backends!(Kernel, localhost_is_opened_behind_its_guard);

/// Rules of an old kubelet in its chain stay, and what is there is not written twice.
#[test]
fn an_init_container_adds_what_the_guard_lacks() {
    needs!(Kernel);
    for backend in [Backend::Nft, Backend::Legacy] {
        let (node, bin) = (Node::new(backend), backend_programs(backend));
        let setting = "ipv4/conf/all/route_localnet";
        node.iptables(&["-N", "KUBE-FIREWALL"]);
        let martians = ["-m", "mark", "--mark", "0x8000/0x8000", "-j", "DROP"];
        node.iptables(&[&["-A", "KUBE-FIREWALL"], &martians[..]].concat());
        node.iptables(&["-I", "INPUT", "-j", "KUBE-FIREWALL"]);
        for flag in [
            "--iptables-localhost-nodeports=false",
            "--iptables-localhost-nodeports",
        ] {
            node.netns.sysctl(setting, "0");
            let mut init = with_programs(&node.netns, bin.path(), PROGRAM);
            init.args(FLAGS)
                .args(["--init-only", "--iptables-backend=path", flag]);
            Ran::of(&mut init).success();
            let is_wanted = !flag.ends_with("false");
            let rules = node.rules();
            let guard = rules.find("block incoming localnet connections");
            assert_eq!(guard.is_some(), is_wanted, "{rules}");
            assert_eq!(node.netns.setting(setting) == "1", is_wanted, "{flag}");
            assert!(guard < rules.find("0x8000"), "{rules}");
            let jumps = rules.matches("-j KUBE-FIREWALL").count();
            assert_eq!(jumps, if is_wanted { 2 } else { 1 }, "{rules}");
        }
    }
}

on_both_backends!(Kernel, a_daemon_needs_few_privileges_once_all_is_set_up);

/// A namespace may look at the machine's own settings, and not change them.
#[test]
fn a_limit_that_cannot_be_set_is_fatal_and_named() {
    needs!(Kernel);
    let netns = Netns::new("limits");
    let most: u64 = netns.setting("netfilter/nf_conntrack_max").parse().unwrap();
    let init = |min: u64| {
        let mut command = netns.command(PROGRAM);
        command.args(["run", "--init-only", "--conntrack-max-per-core=1"]);
        Ran::of(command.arg(format!("--conntrack-min={min}")))
    };
    let failed = init(most + 1);
    failed.fails(1, &[]);
    let text = failed.stderr;
    let (_, cause) = text
        .split_once("error: cannot write sysctl `net/netfilter/nf_conntrack_max`: ")
        .unwrap_or_else(|| panic!("{text}"));
    let (cause, hints) = cause
        .split_once("\nhint: run in the network namespace of the host (hostNetwork: true)")
        .unwrap_or_default();
    assert!(cause.contains("(os error "), "{text}");
    let needs = format!("\nhint: --conntrack-max-per-core requires {};", most + 1);
    assert!(hints.contains(&needs), "{text}");
    // A maximum that suffices is not written: it is read-only here, and never lowered.
    for enough in [most, most / 2] {
        init(enough).success();
        assert_eq!(
            netns.setting("netfilter/nf_conntrack_max"),
            most.to_string()
        );
    }
}

/// What cannot be written is not wanted any more in the next try, until nothing is left.
#[test]
fn each_setting_names_the_flag_that_leaves_it_alone() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let bin = backend_programs(node.backend);
    let mut flags = [
        "--conntrack-tcp-be-liberal",
        "--conntrack-udp-timeout=7s",
        "--conntrack-udp-timeout-stream=8s",
    ]
    .map(str::to_owned)
    .to_vec();
    for (name, without) in [
        ("--conntrack-tcp-timeout-established", "0s"),
        ("--conntrack-tcp-timeout-close-wait", "0"),
        ("--conntrack-tcp-be-liberal", "0"),
        ("--conntrack-udp-timeout", "0"),
        ("--conntrack-udp-timeout-stream", "0"),
        ("--iptables-localhost-nodeports", "false"),
    ] {
        let log = bin.path().join(name);
        let mut daemon = confined(&node, bin.path(), &log, &flags);
        let status = eventually(PATIENCE, || daemon.exited().ok_or("it runs".to_owned()));
        let text = daemon.log();
        assert_eq!(status.code(), Some(1), "{text}");
        let last = text.rsplit("error: ").next().unwrap();
        for part in ["cannot write sysctl `net/", "if only once with --init-only"] {
            assert!(last.contains(part), "{name}: {text}");
        }
        let needs = [" requires ", "=false"].map(|end| format!("{name}{end}"));
        assert!(needs.iter().any(|part| last.contains(part)), "{text}");
        flags.push(format!("{name}={without}"));
    }
    let _daemon = confined(&node, bin.path(), &bin.path().join("all"), &flags);
    node.wait_for_rule("--to-destination 10.4.0.11:8080");
}

/// Whatever is wrong with where Services come from is found before anything is written.
#[test]
fn a_daemon_without_a_source_sets_nothing() {
    needs!(Kernel);
    let netns = Netns::new("sourceless");
    for (flag, code, expected) in [
        ("--v=0", 64, "error: no source of Services: "),
        (
            "--kubeconfig=/nowhere/k",
            1,
            "error: cannot read kubeconfig",
        ),
        ("--manifests=/nowhere/m", 1, "error: `/nowhere/m`: "),
    ] {
        // What a Pod would have.
        let mut command = netns.command("env");
        command.args(["--unset=KUBERNETES_SERVICE_HOST", PROGRAM]);
        let failed = Ran::of(command.args(FLAGS).arg(flag));
        failed.fails(code, &[]);
        let text = failed.stderr;
        assert!(text.starts_with(expected), "{flag}: {text}");
        let errors = text.lines().filter(|line| !line.starts_with("hint: "));
        assert_eq!(errors.count(), 1, "{flag}: {text}");
        for (setting, set) in TIMEOUTS {
            assert_ne!(netns.setting(setting), set, "{flag}: {setting}");
        }
    }
}

#[test]
fn a_machine_without_programs_is_not_set_up() {
    needs!(Kernel);
    let (netns, bin) = (Netns::new("bare"), tempfile::tempdir().unwrap());
    let fails = |arguments: &[&str], expected: &str| {
        let mut command = netns.command("env");
        command.arg(format!("PATH={}", bin.path().display()));
        Ran::of(command.arg(PROGRAM).args(arguments)).fails(1, &[expected]);
    };
    let init = [FLAGS.as_slice(), &["--init-only"]].concat();
    let unusable = "iptables is not usable on this node: ";
    fails(&init, &format!("{unusable}cannot start `iptables`"));
    let iptables = bin.path().join("iptables");
    std::fs::write(&iptables, "#!/bin/sh\necho iptables v1.4.21\n").unwrap();
    std::fs::set_permissions(&iptables, PermissionsExt::from_mode(0o755)).unwrap();
    let too_old = "iptables 1.4.21 is too old: must be 1.6.2 or newer";
    fails(&init, &format!("{unusable}{too_old}"));
    fails(&["cleanup"], &format!("IPv4: {too_old}"));
}

/// Only the score of its own process, and only if it may.
#[test]
fn a_daemon_asks_not_to_be_killed_for_memory() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let daemon = node.start_with(backend_programs(node.backend), &["--oom-score-adj=7"]);
    let path = format!("/proc/{}/oom_score_adj", daemon.id());
    eventually(PATIENCE, || {
        let score = std::fs::read_to_string(&path).unwrap();
        ensure(score.trim() == "7", || format!("{path} is {score}"))
    });
}

/// Whether invalid packets are dropped depends on what the daemon itself has set before.
#[test]
fn rules_follow_what_was_set() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let invalid = "--ctstate INVALID";
    let mut strict = node.start(backend_programs(node.backend));
    node.wait_for_rule(invalid);
    strict.terminate();
    let flags = ["--conntrack-tcp-be-liberal", "--conntrack-udp-timeout=90s"];
    let _liberal = node.start_with(backend_programs(node.backend), &flags);
    for (setting, expected) in [("tcp_be_liberal", "1"), ("udp_timeout", "90")] {
        let held = node
            .netns
            .setting(&format!("netfilter/nf_conntrack_{setting}"));
        assert_eq!(held, expected, "{setting}");
    }
    eventually(PATIENCE, || {
        let rules = node.rules();
        ensure(!rules.contains(invalid), || rules)
    });
}

/// A Node whose addresses say that it cannot be served ends the daemon.
#[test]
fn a_node_of_the_wrong_family_is_fatal() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    node.netns.sysctl("ipv6/conf/all/disable_ipv6", "1");
    node.write(
        "apiVersion: v1\nkind: Node\nmetadata: {name: node1}\n\
         status: {addresses: [{type: InternalIP, address: 'fd00::1'}]}\n",
    );
    let bin = backend_programs(node.backend);
    let mut command = with_programs(&node.netns, bin.path(), PROGRAM);
    command
        .args(FLAGS)
        .arg("--manifests")
        .arg(node.manifests.path());
    let log = bin.path().join("log");
    let mut daemon = Process::start("the proxy", &mut command, &log);
    let status = eventually(PATIENCE, || daemon.exited().ok_or("it runs".to_owned()));
    let text = daemon.log();
    assert_eq!(status.code(), Some(1), "{text}");
    let last = text.rsplit("error: ").next().unwrap();
    assert!(
        last.starts_with(
            "the primary addresses of this node are IPv6, but iptables is not usable for IPv6"
        ),
        "{text}"
    );
}
