//! The page about a Service that does not answer, followed from the symptom to each cause on nodes
//! that have it: each command prints what the page shows, and the remedy makes the Service answer.

mod page;
mod scene;

use std::fmt::Write as _;
use std::fs;
use std::ops::Range;

use serde_json::{Value, json};

use crate::conntrack::scene::{ask, connect};
use crate::support::daemon::{Backend, Daemon};
use crate::support::lab::Lab;
use crate::support::node::{copy_extensions, with_restore};
use crate::support::rules::Family;
use crate::support::servers::{Reply, tcp_request};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, objects};
use page::Page;
use scene::{GONE, HERE, OUTSIDE, Scene, Shell, answers, is_silent, web};

/// Rule of the endpoint on this node.
const DNAT: &str = "--to-destination 10.4.0.11:8080";

/// Deletes the jump of packets from Pods and from outside.
const DELETE_JUMP: &str = "iptables -t nat -D PREROUTING -m comment \
                           --comment 'kubernetes service portals' -j KUBE-SERVICES";

#[test]
fn no_endpoints() {
    needs!(Kernel);
    let scene = Scene::new();
    let _daemon = scene.start(&web("", ""), "has no endpoints", &[]);
    assert_eq!(scene.ask(), Reply::Refused);
    scene.finds("No endpoints", &[]);
    scene.node.write(&web("", HERE));
    answers(|| scene.ask());
}

#[test]
fn no_local_endpoint() {
    needs!(Kernel);
    let scene = Scene::new();
    let local = "type: LoadBalancer, externalTrafficPolicy: Local";
    let elsewhere = HERE.replace("node1", "node2");
    let _daemon = scene.start(&web(local, &elsewhere), DNAT, &[]);
    assert_eq!(scene.ask_from_outside(), Reply::TimedOut);
    scene.finds("No local endpoint", &[]);
    scene.node.write(&web(local, HERE));
    answers(|| scene.ask_from_outside());
}

#[test]
fn a_lost_rule() {
    needs!(Kernel);
    let scene = Scene::new();
    let heading = "A lost rule";
    let mut daemon = scene.start(&web("", HERE), DNAT, &[]);
    answers(|| scene.ask());
    scene.run(DELETE_JUMP);
    scene.leads_to(heading, &[]);
    let (while_it_runs, without_it) = scene.page.samples(heading).split_at(1);
    scene.check(while_it_runs);
    answers(|| scene.ask());

    assert!(daemon.terminate().success());
    scene.run(DELETE_JUMP);
    is_silent(&scene.ask());
    scene.leads_to(heading, &[]);
    // On a node with kube-proxy, the status of deltaproxy says nothing.
    scene.leads_to(heading, &[("deltaproxy status", "true")]);
    scene.check(without_it);
    let _daemon = scene.start(&web("", HERE), DNAT, &[]);
    answers(|| scene.ask());
}

#[test]
fn rules_of_an_old_proxy() {
    needs!(Kernel);
    let scene = Scene::new();
    let heading = "Rules of an old proxy";
    let _daemon = scene.start(&web("", HERE), DNAT, &[]);
    answers(|| scene.ask());
    // Another proxy has written rules to the backend legacy, with an endpoint that is gone. Tables
    // that are loaded later come first.
    let gone = scene.node.manifests.path().join(".gone");
    fs::write(&gone, web("", &HERE.replace("10.4.0.11", GONE))).unwrap();
    scene.run(&format!(
        "deltaproxy render --manifests {} --hostname-override=node1 --cluster-cidr=10.4.0.0/14 \
         | sed '/^# ip6tables/,$d' | iptables-legacy-restore -w --noflush",
        gone.display()
    ));
    assert_eq!(scene.ask(), Reply::TimedOut);
    // The third step finds them at once, the first one within ten seconds.
    scene.leads_to(heading, &[]);
    eventually(PATIENCE, || {
        let status = scene.run("deltaproxy status");
        ensure(status.contains("has rules of a proxy as well"), || status)
    });
    scene.finds(heading, &[]);
    answers(|| scene.ask());
}

#[test]
fn source_ranges() {
    needs!(Kernel);
    let scene = Scene::new();
    let limited = "type: LoadBalancer, loadBalancerSourceRanges: [198.51.100.0/24]";
    let _daemon = scene.start(&web(limited, HERE), "198.51.100.0/24", &[]);
    assert_eq!(scene.ask_from_outside(), Reply::TimedOut);
    scene.finds("Source ranges", &[("10.4.0.20", OUTSIDE)]);
    scene
        .node
        .write(&web(&limited.replace("198.51.100", "10.200.0"), HERE));
    answers(|| scene.ask_from_outside());
}

#[test]
fn a_stale_udp_flow() {
    needs!(Kernel);
    let scene = Scene::new();
    let dns = web("", HERE)
        .replace("name: http,", "name: dns, protocol: UDP,")
        .replace("port: 80}", "port: 53}")
        .replace("name: web", "name: kube-dns")
        .replace("namespace: shop", "namespace: kube-system")
        .replace("service-name: web", "service-name: kube-dns");
    let _daemon = scene.start(&dns, DNAT, &[]);
    // A rule of another program sends the first packet elsewhere, and is removed again.
    let rule = format!(
        "PREROUTING -t nat -p udp -d 10.96.0.10 --dport 53 -j DNAT --to-destination {GONE}:8080"
    );
    scene.run(&format!("iptables -I {rule}"));
    let client = connect(&scene.client.netns, "10.96.0.10", 53);
    ask(&client).unwrap_err();
    scene.run(&format!("iptables -D {rule}"));
    ask(&client).unwrap_err();

    let words = [("shop/web", "kube-system/kube-dns")];
    scene.finds("A stale UDP flow", &words);
    assert_eq!(ask(&client).unwrap(), "a");
}

#[test]
fn wrong_cluster_cidr() {
    needs!(Kernel);
    let scene = Scene::new();
    let wrong = ["--cluster-cidr=10.244.0.0/16"];
    let mut daemon = scene.start(&web("", HERE), DNAT, &wrong);
    // A network policy that admits the client.
    let [server, _] = &scene.servers;
    let policy = "iptables -A INPUT ! -s 10.4.0.20 -j DROP";
    scene.shell.run(&server.netns, policy);
    assert_eq!(scene.ask(), Reply::TimedOut);
    let direct = tcp_request(&scene.client.netns, "10.4.0.11:8080".parse().unwrap());
    assert_eq!(direct.server(), Ok("a"));
    scene.finds("Wrong cluster CIDR", &[]);
    assert!(daemon.terminate().success());
    let _daemon = scene.start(&web("", HERE), "! -s 10.4.0.0/14", &[]);
    answers(|| scene.ask());
}

#[test]
fn wrong_node_name() {
    needs!(Cluster);
    let (lab, page, shell) = (Lab::new(Backend::Nft), Page::read(), Shell::new());
    let in_shop = |mut object: Value| {
        object["metadata"]["namespace"] = json!("shop");
        object
    };
    let local = json!({
        "type": "NodePort", "externalTrafficPolicy": "Local", "clusterIP": "10.96.0.10",
        "ports": [{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080}],
    });
    let service = objects::service("web", local);
    let slice = objects::slice(&service, &["10.4.0.11"]);
    let api = lab.control.api();
    api.apply_all(&[objects::namespace("shop"), in_shop(service), in_shop(slice)]);
    let kubeconfig = format!("--kubeconfig={}", lab.control.kubeconfig().display());
    let start = |name: &str| {
        let args = [&*kubeconfig, "--cluster-cidr=10.4.0.0/14", name];
        let daemon = Daemon::start(&lab.node, Backend::Nft, &args);
        lab.wait_for_text(Family::V4, DNAT);
        daemon
    };
    let ask = || tcp_request(&lab.outside, "10.200.0.2:30080".parse().unwrap());

    let mut daemon = start("--hostname-override=node9");
    assert_eq!(ask(), Reply::TimedOut);
    let run = |line: &str| shell.run(&lab.node, line);
    assert_eq!(page.follow(&[], run), Ok("Wrong node name"));
    for sample in page.samples("Wrong node name") {
        sample.check(run);
    }
    assert!(daemon.terminate().success());
    let _daemon = start("--hostname-override=node1");
    answers(ask);
}

#[test]
fn connection_tracking_is_full() {
    needs!(Kernel);
    let scene = Scene::new();
    let _daemon = scene.start(&web("", HERE), DNAT, &[]);
    answers(|| scene.ask());
    let heading = "Connection tracking is full";
    let (nearly, full) = scene.page.samples(heading).split_at(1);
    fill_conntrack(&scene, 0..95);
    scene.leads_to(heading, &[]);
    scene.check(nearly);
    // Entries of closed connections would expire meanwhile, and make room for others.
    scene.run("conntrack -D -p tcp");
    fill_conntrack(&scene, 95..101);
    assert_eq!(scene.ask(), Reply::TimedOut);
    scene.leads_to(heading, &[]);
    scene.check(full);
    answers(|| scene.ask());
}

/// Adds flows of one client outside, these percentages of the maximum.
fn fill_conntrack(scene: &Scene, percentages: Range<u32>) {
    let max = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max").unwrap();
    let max: u32 = max.trim().parse().unwrap();
    let mut flows = String::new();
    let numbers = max / 100 * percentages.start..max / 100 * percentages.end;
    for number in numbers {
        let [_, x, y, z] = number.to_be_bytes();
        let (to, port) = (format!("198.18.{x}.{y}"), 1000 + u32::from(z));
        writeln!(
            flows,
            "-A -t 600 -u SEEN_REPLY,ASSURED -s {OUTSIDE} -d {to} -r {to} -q {OUTSIDE} -p udp \
             --sport {port} --dport 443 --reply-port-src 443 --reply-port-dst {port}"
        )
        .unwrap();
    }
    let file = scene.node.manifests.path().join(".flows");
    fs::write(&file, flows).unwrap();
    // The last ones of a full table are rejected.
    let mut restore = scene.node.netns.command("conntrack");
    restore.arg("-R").arg(&file).output().unwrap();
}

#[test]
fn quarantine() {
    needs!(Kernel);
    let scene = Scene::new();
    // The node lacks an extension of iptables that one port needs.
    let extensions = tempfile::tempdir().unwrap();
    copy_extensions(extensions.path(), "libxt_sctp.so");
    let script = format!(
        "XTABLES_LIBDIR={} exec $REAL \"$@\"",
        extensions.path().display()
    );
    let (http, sctp) = (
        "{name: http, port: 80",
        "{name: sig, protocol: SCTP, port: 80}, ",
    );
    let with_sctp = web("", HERE).replace(http, &[sctp, http].concat());
    scene.node.write(&with_sctp);
    let _daemon = scene.node.start(with_restore(Backend::Nft, &script));
    scene.leads_to("Quarantine", &[]);
    is_silent(&scene.ask());
    scene.check(scene.page.samples("Quarantine"));
    scene.node.write(&web("", HERE));
    answers(|| scene.ask());
}
