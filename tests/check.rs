//! `check` on nodes that suit the daemon, and on such that do not.

use std::fs;
use std::path::Path;

use crate::support::daemon::{Backend, Daemon, backend_programs, real_program};
use crate::support::kube::ControlPlane;
use crate::support::netns::Netns;
use crate::support::node::write_script;
use crate::support::program::{PROGRAM, Ran, with_programs};
use crate::support::rules::{Family, saved};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, objects, on_both_backends};
use serde_json::{Value, json};

/// A node that forwards packets, as kubelet and the network plugin leave it.
fn node() -> Netns {
    let netns = Netns::new("check");
    netns.forward();
    netns.sysctl("ipv4/conf/all/rp_filter", "0");
    netns.sysctl("ipv4/conf/default/rp_filter", "0");
    netns
}

fn shell(netns: &Netns, script: &str) {
    let status = netns.command("sh").args(["-ec", script]).status().unwrap();
    assert!(status.success(), "{script}");
}

/// Runs `check` with the programs in a folder first in PATH.
fn check_with(netns: &Netns, programs: &Path, args: &[&str]) -> Ran {
    let mut command = with_programs(netns, programs, PROGRAM);
    Ran::of(command.arg("check").args(args))
}

/// Runs `check --pre` on the examples, for a backend.
fn check_examples(netns: &Netns, programs: &Path, backend: Backend) -> Ran {
    let backend = format!("--iptables-backend={}", backend.name());
    let examples = "--manifests=deploy/examples";
    let args = ["--pre", "--proxy-mode=iptables", examples, &backend];
    check_with(netns, programs, &args)
}

/// What all programs of both backends print of the rules.
fn rules(netns: &Netns) -> String {
    let backends = [Backend::Nft, Backend::Legacy];
    let saves = backends.map(|backend| Family::ALL.map(|family| saved(netns, backend, family)));
    let text = saves.concat().concat();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn has_line(output: &Ran, line: &str) {
    let text = &output.stdout;
    let is_there = text.lines().any(|found| found.trim_start() == line);
    assert!(is_there, "no line `{line}` in\n{text}");
}

on_both_backends!(Kernel, a_node_that_suits_passes_and_is_not_changed);

fn a_node_that_suits_passes_and_is_not_changed(backend: Backend) {
    let netns = node();
    shell(&netns, "iptables-nft -A FORWARD -s 192.0.2.9 -j DROP");
    let before = rules(&netns);
    let programs = backend_programs(backend);
    let output = check_examples(&netns, programs.path(), backend);
    let text = &output.stdout;
    assert!(output.is_success(), "{text}");
    assert!(!text.contains("WARN"), "{text}");
    let name = backend.name();
    for family in ["IPv4", "IPv6"] {
        has_line(
            &output,
            &format!("ok   {family}: tables filter and nat of {name}"),
        );
        has_line(
            &output,
            &format!("ok   {family}: the other backend has no rules of a proxy"),
        );
    }
    assert_eq!(rules(&netns), before);
}

/// A program that rejects one match, as a kernel without its module does.
fn without_match(backend: Backend, name: &str) -> tempfile::TempDir {
    let folder = backend_programs(backend);
    for family in ["iptables", "ip6tables"] {
        let plain = format!("{family}-restore");
        let script = format!(
            "input=$(cat)\ncase \"$input\" in *'-m {name} '*)\n\
             echo \"{plain}: line 3 failed\" >&2; exit 1;; esac\n\
             printf '%s\\n' \"$input\" | exec $REAL \"$@\""
        );
        let path = folder
            .path()
            .join(format!("{family}-{}-restore", backend.name()));
        write_script(&path, &real_program(backend, &plain), &script);
    }
    folder
}

on_both_backends!(Kernel, a_missing_match_is_named_with_what_needs_it);

fn a_missing_match_is_named_with_what_needs_it(backend: Backend) {
    let netns = node();
    let programs = without_match(backend, "statistic");
    let output = check_examples(&netns, programs.path(), backend);
    assert!(output.is_success(), "{output:#?}");
    let named = "WARN IPv4: statistic, for Services with several endpoints: ";
    assert!(output.stdout.contains(named), "{output:#?}");

    let programs = without_match(backend, "comment");
    let output = check_examples(&netns, programs.path(), backend);
    assert_eq!(output.code, Some(1), "{output:#?}");
    let named = "FAIL IPv6: comment, for all rules: ";
    assert!(output.stdout.contains(named), "{output:#?}");
}

/// A node with a cause of each kind.
fn seeded() -> Netns {
    let netns = node();
    netns.sysctl("ipv4/ip_forward", "0");
    netns.sysctl("ipv4/conf/all/rp_filter", "1");
    let seed = "iptables-nft -P FORWARD DROP
        iptables-nft -t mangle -N KUBE-IPTABLES-HINT
        iptables-legacy -t nat -N KUBE-SERVICES
        nft add table ip kube-proxy
        ip link add kube-ipvs0 type veth peer name other
        ip link add cni0 type bridge";
    shell(&netns, seed);
    // Exists in each namespace if the kernel has br_netfilter.
    let _ = fs::metadata("/proc/sys/net/bridge")
        .map(|_| netns.sysctl("bridge/bridge-nf-call-iptables", "0"));
    netns
}

/// Each cause is seeded, and named by a check with a hint.
#[test]
fn what_does_not_suit_is_named() {
    needs!(Kernel);
    let netns = seeded();
    let programs = backend_programs(Backend::Nft);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let config = "apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
featureGates: {NoSuchGate: true}
";
    fs::write(&file, config).unwrap();
    let file = format!("--config={}", file.display());
    let args = [
        "--pre",
        "-o=json",
        &file,
        "--iptables-backend=legacy",
        "--manifests=deploy/examples",
    ];
    let output = check_with(&netns, programs.path(), &args);
    assert_eq!(output.code, Some(1), "{output:#?}");
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    let groups = document["groups"].as_array().unwrap();
    let checks: Vec<&Value> = groups
        .iter()
        .flat_map(|group| group["checks"].as_array().unwrap())
        .collect();
    let expected = [
        ("warning", "proxy mode is not set"),
        ("warning", "NoSuchGate"),
        (
            "failed",
            "kubelet uses nft, and rules would be written with legacy",
        ),
        ("failed", "interface `kube-ipvs0`"),
        (
            "warning",
            "table `kube-proxy` of kube-proxy's nftables mode",
        ),
        ("failed", "net.ipv4.ip_forward is 0"),
        ("warning", "rp_filter is strict"),
        ("warning", "this node has a bridge"),
    ];
    for (status, text) in expected {
        let found = checks.iter().find(|check| {
            check["found"].as_str().unwrap().contains(text) && check["status"] == status
        });
        let found = found.unwrap_or_else(|| panic!("no {status} `{text}` in {document:#}"));
        assert!(found["hint"].is_string(), "{found}");
    }
}

/// With the backend of kubelet, the other has rules of a proxy.
#[test]
fn rules_in_the_other_backend_are_named() {
    needs!(Kernel);
    let netns = seeded();
    let programs = backend_programs(Backend::Nft);
    let output = check_with(
        &netns,
        programs.path(),
        &["--pre", "--manifests=deploy/examples"],
    );
    let text = &output.stdout;
    let other = "WARN IPv4: backend legacy has rules of a proxy as well; packets traverse both";
    has_line(&output, other);
    assert!(
        text.contains("WARN IPv4: the policy of FORWARD is DROP"),
        "{text}"
    );
}

/// With the user of a proxy, on a real API server.
#[test]
fn a_cluster_is_examined_as_the_daemon_sees_it() {
    needs!(Cluster);
    let control = ControlPlane::start();
    let netns = node();
    control.attach(&netns, 21);
    // A Node with a Pod of a Service.
    let web = objects::service("web", json!({}));
    let slice = objects::slice(&web, &["10.4.0.5"]);
    let api = control.api();
    api.apply_all(&[objects::node("10.200.0.21", "fd00:200::21"), slice]);
    let programs = backend_programs(Backend::Nft);
    let kubeconfig = format!("--kubeconfig={}", control.proxy_kubeconfig().display());
    let check = |args: &[&str]| {
        let args = [&[kubeconfig.as_str(), "--proxy-mode=iptables"], args].concat();
        check_with(&netns, programs.path(), &args)
    };

    let good = [
        "--pre",
        "--hostname-override=node1",
        "--cluster-cidr=10.4.0.0/16",
    ];
    let output = check(&good);
    assert!(output.is_success(), "{output:#?}");
    for line in [
        "ok   the clock is that of the API server",
        "ok   this user may list and watch Services, EndpointSlices and Nodes, and create Events",
        "ok   this node is Node `node1`",
        "ok   1 Pods of Services on this node are all in 10.4.0.0/16",
    ] {
        has_line(&output, line);
    }

    let output = check(&[
        "--pre",
        "--hostname-override=node1",
        "--cluster-cidr=10.1.0.0/16",
    ]);
    assert_eq!(output.code, Some(1), "{output:#?}");
    let outside = "FAIL 1 of 1 Pods of Services on this node, such as 10.4.0.5, are outside of \
                   10.1.0.0/16: their packets would be masqueraded";
    has_line(&output, outside);

    let output = check(&[
        "--pre",
        "--hostname-override=node2",
        "--cluster-cidr=10.4.0.0/16",
    ]);
    let unknown = "FAIL no Node has the name `node2`: no endpoint would count as local";
    has_line(&output, unknown);

    // Without the role, what the user may not do is named.
    api.delete(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "system:node-proxier"},
    }));
    eventually(PATIENCE, || {
        let output = check(&good);
        let text = output.stdout;
        ensure(
            text.contains("FAIL this user may not watch endpointslices"),
            || text,
        )
    });
    assert_eq!(check(&good).code, Some(1));
}

/// Without --pre, a daemon has to answer.
#[test]
fn a_daemon_has_to_answer() {
    needs!(Kernel);
    let netns = node();
    let programs = backend_programs(Backend::Nft);
    let check = |args: &[&str]| check_with(&netns, programs.path(), args);
    let output = check(&["--manifests=deploy/examples"]);
    let absent = "FAIL no daemon answers at 127.0.0.1:10249: ";
    assert!(output.stdout.contains(absent), "{output:#?}");
    let args = ["--manifests=deploy/examples", "--hostname-override=node1"];
    let _daemon = Daemon::start(&netns, Backend::Nft, &args);
    eventually(PATIENCE, || {
        let text = check(&args).stdout;
        ensure(text.contains("runs as node node1"), || text)
    });
}
