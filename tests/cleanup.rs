//! Removing all rules of a proxy, on a real kernel: of both backends, and no third-party rules.

use std::os::unix::fs::PermissionsExt;

use crate::support::daemon::{Backend, backend_programs};
use crate::support::kube::binary;
use crate::support::needs;
use crate::support::netns::Netns;
use crate::support::node::Node;
use crate::support::process::run;
use crate::support::program::{PROGRAM, Ran, run_in, with_programs};
use crate::support::rules::{Family, plain, saved};
use crate::support::wait::{PATIENCE, ensure, eventually};

const BACKENDS: [Backend; 2] = [Backend::Nft, Backend::Legacy];
const ENDPOINT: &str = "--to-destination 10.4.0.11:8080";

/// Third-party rules: kubelet's chains, and the rules of a network plugin.
const OTHERS: &str = "\
*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*nat
:CNI-7 - [0:0]
-A CNI-7 -s 192.0.2.7/32 -j ACCEPT
-A PREROUTING -j CNI-7
COMMIT
*filter
:CNI-7 - [0:0]
-A FORWARD -i cni7 -j CNI-7
COMMIT
";

/// A namespace with a proxy's rules of this backend, left by a daemon that has ended.
fn left_by_a_daemon(backends: &[Backend]) -> Node {
    let mut node = Node::new(Backend::Nft);
    for backend in backends {
        node.backend = *backend;
        node.restore(OTHERS);
        let mut daemon = node.start(backend_programs(*backend));
        node.wait_for_rule(ENDPOINT);
        wait_for_canaries(&node);
        daemon.terminate();
    }
    node
}

fn wait_for_canaries(node: &Node) {
    for family in Family::ALL {
        eventually(PATIENCE, || {
            let save = saved(&node.netns, node.backend, family);
            ensure(save.matches(":KUBE-PROXY-CANARY").count() == 3, || save)
        });
    }
}

/// All that is there, of both families, without dates and counters.
fn everything(netns: &Netns, backend: Backend) -> Vec<String> {
    let saves = Family::ALL.map(|family| saved(netns, backend, family));
    let lines = saves.iter().flat_map(|save| plain(save));
    lines.map(str::to_owned).collect()
}

/// The lines that name a chain of a proxy.
fn ours(lines: &[String]) -> Vec<&String> {
    let kubelets = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY", "KUBE-FIREWALL"];
    let is_ours = |line: &&String| {
        line.contains("KUBE-") && !kubelets.iter().any(|chain| line.contains(chain))
    };
    lines.iter().filter(is_ours).collect()
}

#[test]
fn rules_of_both_backends_go_and_others_stay() {
    needs!(Kernel);
    let node = left_by_a_daemon(&BACKENDS);
    run(node
        .netns
        .command("nft")
        .args(["add", "table", "ip6", "kube-proxy"]));
    let before = BACKENDS.map(|backend| everything(&node.netns, backend));
    let shown = run_in(&node.netns, &["cleanup", "--dry-run"]).success();
    assert!(shown.contains("# IPv4 nft filter\n*filter\n:"), "{shown}");
    assert!(shown.contains("# IPv6 legacy mangle\n*mangle\n"), "{shown}");
    assert!(
        shown.ends_with("\n# IPv6: the table of mode nftables\n"),
        "{shown}"
    );
    assert_eq!(
        BACKENDS.map(|backend| everything(&node.netns, backend)),
        before
    );

    let done = run_in(&node.netns, &["cleanup"]).success();
    for backend in BACKENDS {
        let left = everything(&node.netns, backend);
        assert_eq!(ours(&left), Vec::<&String>::new());
        for line in [
            "-A CNI-7 -s 192.0.2.7/32 -j ACCEPT",
            "-A PREROUTING -j CNI-7",
        ] {
            assert!(left.iter().any(|held| held == line), "{left:#?}");
        }
        for chain in ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY", "KUBE-FIREWALL"] {
            assert!(left.iter().any(|held| held.contains(chain)), "{left:#?}");
        }
        let name = backend.name();
        for place in [
            format!("IPv4 {name} nat: removed 3 jumps and "),
            format!("IPv6 {name} mangle: "),
        ] {
            assert!(done.contains(&place), "{done}");
        }
    }
    assert!(
        done.contains("IPv6: removed the table of mode nftables\n"),
        "{done}"
    );
    let again = run_in(&node.netns, &["cleanup"]);
    assert_eq!(
        (&*again.stderr, &*again.stdout),
        ("", "nothing to remove\n")
    );
    // What is shown can be restored, even if it says nothing.
    let shown = run_in(&node.netns, &["cleanup", "--dry-run"]).stdout;
    assert_eq!(shown, "# nothing to remove\n");
}

#[test]
fn rules_that_a_running_daemon_restores_are_reported() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let mut daemon = node.start(backend_programs(Backend::Nft));
    node.wait_for_rule(ENDPOINT);
    wait_for_canaries(&node);
    let failed = run_in(&node.netns, &["cleanup"]);
    let (done, said) = (&failed.stdout, &failed.stderr);
    assert_eq!(failed.code, Some(1), "{done}");
    assert!(done.contains("IPv4 nft nat: removed 3 jumps"), "{done}");
    for text in [
        "error: IPv4 nft nat: another program has written rules again\n",
        "error: IPv6 nft nat: another program has written rules again\n",
        "hint: a proxy still runs on this node",
    ] {
        assert_eq!(said.matches(text).count(), 1, "{said}");
    }
    daemon.terminate();
    let done = run_in(&node.netns, &["cleanup"]);
    assert_eq!((done.code, &*done.stderr), (Some(0), ""));
    let left = everything(&node.netns, Backend::Nft);
    assert_eq!(ours(&left), Vec::<&String>::new());
}

/// It takes other programs to remove.
#[test]
fn what_mode_ipvs_left_is_told() {
    needs!(Kernel);
    let netns = Netns::new("cleanup");
    let link = "link add kube-ipvs0 type veth peer name other";
    run(netns.command("ip").args(link.split(' ')));
    let done = run_in(&netns, &["cleanup"]).success();
    let expected = "nothing to remove\nmode ipvs: `kube-ipvs0` is not removed; remove it with `ipvsadm --clear`, ";
    assert!(done.starts_with(expected), "{done}");
}

/// Each place is reported once, and the remedy once for all.
#[test]
fn who_may_not_is_told_so_once() {
    needs!(Kernel);
    // A folder of any user.
    let bin = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(bin.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = bin.path().join("deltaproxy");
    std::fs::copy(PROGRAM, &program).unwrap();
    let netns = Netns::new("cleanup");
    let mut command = netns.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    let failed = Ran::of(command.arg(program).arg("cleanup"));
    failed.fails(1, &[]);
    let said = failed.stderr;
    for place in ["nft", "legacy"].map(|backend| format!("error: IPv4 {backend}: ")) {
        assert_eq!(said.matches(&place).count(), 1, "{said}");
    }
    assert_eq!(said.matches("\nhint: run as root, ").count(), 1, "{said}");
    assert!(said.lines().last().unwrap().starts_with("hint: "), "{said}");
}

/// One that a plugin's rule leads to cannot be deleted, and must not keep the others.
#[test]
fn a_chain_that_others_need_is_emptied() {
    needs!(Kernel);
    for backend in BACKENDS {
        let node = left_by_a_daemon(&[backend]);
        let jump = "*nat\n-A CNI-7 -s 192.0.2.8/32 -j KUBE-MARK-MASQ\nCOMMIT\n";
        node.restore(jump);
        let name = backend.name();
        let only = format!("--iptables-backend={name}");
        let done = run_in(&node.netns, &["cleanup", &only]).success();
        let kept = format!(
            "IPv4 {name} nat: `KUBE-MARK-MASQ` is emptied but kept, as third-party rules jump to it\n"
        );
        assert!(done.contains(&kept), "{done}");
        let left = everything(&node.netns, backend);
        let ours = ours(&left);
        assert_eq!(ours.len(), 2, "{ours:#?}");
        assert!(ours[0].starts_with(":KUBE-MARK-MASQ"), "{ours:#?}");
        assert_eq!(ours[1], "-A CNI-7 -s 192.0.2.8/32 -j KUBE-MARK-MASQ");
    }
}

#[test]
fn what_fails_is_told_and_keeps_nothing_else() {
    needs!(Kernel);
    let node = left_by_a_daemon(&BACKENDS);
    let bin = tempfile::tempdir().unwrap();
    for (program, told) in [
        ("iptables-legacy-save", "`iptables-legacy-save`"),
        ("iptables-legacy-restore", "`iptables-restore`"),
    ] {
        let broken = bin.path().join(program);
        std::fs::write(&broken, "#!/bin/sh\necho broken >&2\nexit 3\n").unwrap();
        std::fs::set_permissions(&broken, PermissionsExt::from_mode(0o755)).unwrap();
        // As kube-proxy's flag.
        let mut command = with_programs(&node.netns, bin.path(), PROGRAM);
        let failed = Ran::of(command.arg("--cleanup"));
        std::fs::remove_file(&broken).unwrap();
        failed.fails(1, &[]);
        let said = failed.stderr;
        let last = said.lines().last().unwrap_or_default();
        assert!(last.starts_with("error: IPv4 legacy"), "{said}");
        let expected = format!(": {told} exited with status 3: broken");
        assert!(last.ends_with(&expected), "{said}");
        assert_eq!(ours(&everything(&node.netns, Backend::Nft)).len(), 0);
        let v6 = saved(&node.netns, Backend::Legacy, Family::V6);
        assert!(!v6.contains("KUBE-SERVICES"), "{v6}");
        assert!(node_has_rules(&node, Backend::Legacy));
    }
    run_in(&node.netns, &["cleanup"]).success();
    assert!(!node_has_rules(&node, Backend::Legacy));
}

fn node_has_rules(node: &Node, backend: Backend) -> bool {
    saved(&node.netns, backend, Family::V4).contains(ENDPOINT)
}

/// The rules of the other backend are left alone, and reported.
#[test]
fn a_daemon_tells_of_rules_that_it_does_not_keep() {
    needs!(Kernel);
    for (left, used) in [
        (Backend::Legacy, Backend::Nft),
        (Backend::Nft, Backend::Legacy),
    ] {
        let mut node = left_by_a_daemon(&[left]);
        run(node
            .netns
            .command("nft")
            .args(["add", "table", "ip", "kube-proxy"]));
        let before = everything(&node.netns, left);
        node.backend = used;
        let daemon = node.start(backend_programs(used));
        node.wait_for_rule(ENDPOINT);
        let left_name = left.name();
        let warning = format!(
            "backend {left_name} has rules of a proxy as well, and packets traverse both; \
             `deltaproxy cleanup --iptables-backend={left_name}` removes them"
        );
        // One for each family, of which either may be first.
        eventually(PATIENCE, || {
            let text = daemon.log();
            ensure(text.matches(&warning).count() == 2, || text)
        });
        assert_eq!(everything(&node.netns, left), before);
        // That of another mode is of no use.
        let tables = run(node.netns.command("nft").args(["list", "tables"]));
        assert!(!tables.contains("kube-proxy"), "{tables}");
        drop(daemon);
        let only = format!("--iptables-backend={left_name}");
        run_in(&node.netns, &["cleanup", &only]).success();
        assert!(!node_has_rules(&node, left) && node_has_rules(&node, used));
    }
}

/// What kube-proxy leaves behind, we leave behind.
#[test]
fn kube_proxy_would_leave_the_same() {
    needs!(Upstream);
    for backend in BACKENDS {
        let left = ["kube-proxy", "deltaproxy"].map(|who| {
            let node = left_by_a_daemon(&[backend]);
            let bin = backend_programs(backend);
            let program = match who {
                "kube-proxy" => binary("kube-proxy").unwrap(),
                _ => PROGRAM.into(),
            };
            let mut command = with_programs(&node.netns, bin.path(), program);
            Ran::of(command.arg("--cleanup")).success();
            everything(&node.netns, backend)
        });
        assert_eq!(left[0], left[1], "{}", backend.name());
    }
}

/// A map in a chain of another program, and rules in a chain of ours and behind our jump in a
/// built-in one.
#[test]
fn rules_that_cannot_be_printed_keep_nothing_of_ours() {
    needs!(Kernel);
    let node = left_by_a_daemon(&[Backend::Nft]);
    let nft = |args: &[&str]| run(node.netns.command("nft").args(args));
    nft(&["table ip nat { chain custom { meta mark set tcp dport map { 7: 1, 8: 2 }; }; }"]);
    for chain in ["KUBE-SERVICES", "PREROUTING"] {
        nft(&[&format!("add rule ip nat {chain} meta mark set 5")]);
    }
    let done = run_in(&node.netns, &["cleanup"]).success();
    for place in [
        "IPv4 nft filter: removed ",
        "IPv4 nft nat: removed ",
        "IPv6 nft nat: removed ",
    ] {
        assert!(done.contains(place), "{done}");
    }
    let left = nft(&["list", "ruleset"]);
    let lines: Vec<String> = left.lines().map(str::to_owned).collect();
    assert_eq!(ours(&lines), Vec::<&String>::new());
    // What is not ours stays as it was.
    for text in ["CNI-7", "chain custom", "mark set 0x00000005"] {
        assert!(left.contains(text), "{text}: {left}");
    }
}
