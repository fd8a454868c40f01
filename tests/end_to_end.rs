//! The daemon against a real API server and a real kernel: rules follow the cluster.
//! [`conformance`](crate::conformance) compares each rule with that of kube-proxy, and
//! [`packets`](crate::packets) has what becomes of packets.
//!
//! `PROXY_UNDER_TEST=<kube-proxy> cargo test --test all end_to_end` runs the same tests on
//! upstream.

use std::net::SocketAddr;

use crate::support::daemon::{Backend, Daemon, Program, wait_until_ok};
use crate::support::lab::{Lab, POD_PORT};
use crate::support::rules::{Family, plain, service_chain};
use crate::support::servers::tcp_request;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs, objects, on_both_backends};
use serde_json::{Value, json};

on_both_backends!(Cluster, rules_follow_the_cluster);

fn rules_follow_the_cluster(backend: Backend) {
    let lab = Lab::new(backend);
    let api = lab.control.api();
    let web = web();
    let slices = [
        objects::slice(&web, &["10.4.0.11"]),
        objects::slice(&web, &["fd00:10:4::11"]),
    ];
    // One object before the daemon starts, one after.
    api.apply_all(&[web.clone(), slices[0].clone()]);
    let mut daemon = lab.start_daemon();
    api.apply(&slices[1]);
    wait_until_ok(&lab.node, "/healthz");
    for (family, endpoint) in Family::ALL.into_iter().zip(ENDPOINTS) {
        lab.wait_for_text(family, &format!("--to-destination {endpoint}"));
    }
    for cluster_ip in ["10.96.1.1:80", "[fd00:10:96::11]:80"] {
        let reply = tcp_request(&lab.client.netns, cluster_ip.parse().unwrap());
        assert_eq!(reply.server(), Ok("a"), "{cluster_ip}");
    }

    endpoints_come_and_go(&lab, &web);
    a_service_changes(&lab, &web);
    a_service_is_deleted(&lab, &[&web, &slices[0], &slices[1]]);

    let before = lab.rules(Family::V4);
    let status = daemon.terminate();
    // Upstream installs no handler and dies of the signal.
    assert!(
        status.success() || !Program::under_test().is_deltaproxy(),
        "ended with {status}"
    );
    let after = lab.rules(Family::V4);
    assert!(
        plain(&after).eq(plain(&before)),
        "{before}\nbecame\n{after}"
    );
}

/// Endpoint of each family.
const ENDPOINTS: [&str; 2] = ["10.4.0.11:8080", "[fd00:10:4::11]:8080"];

/// A second endpoint comes, and the first one leaves.
fn endpoints_come_and_go(lab: &Lab, web: &Value) {
    let apply = |addresses: &[&str]| lab.control.api().apply(&objects::slice(web, addresses));
    apply(&["10.4.0.12", "10.4.0.11"]);
    lab.wait_for_text(Family::V4, "--probability 0.50000000000");
    apply(&["10.4.0.12"]);
    lab.wait_until_gone(Family::V4, "10.4.0.11");
    lab.wait_for_text(Family::V4, "--to-destination 10.4.0.12:8080");
}

/// Affinity, a load-balancer address and source ranges each bring rules; the first goes again.
fn a_service_changes(lab: &Lab, web: &Value) {
    let api = lab.control.api();
    api.merge(web, &json!({"spec": {"sessionAffinity": "ClientIP"}}));
    lab.wait_for_text(Family::V4, "--rsource");
    api.merge(
        web,
        &json!({"spec": {"sessionAffinity": "None", "sessionAffinityConfig": null}}),
    );
    lab.wait_until_gone(Family::V4, "--rsource");

    let mut balanced = web.clone();
    balanced["spec"]["type"] = "LoadBalancer".into();
    balanced["spec"]["loadBalancerSourceRanges"] = json!(["192.0.2.0/24"]);
    balanced["status"] = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.80"}]}});
    api.apply(&balanced);
    let firewall = service_chain("KUBE-FW-", "default/web:http", "tcp");
    for rule in [
        "-A KUBE-SERVICES -d 203.0.113.80/32",
        "-A KUBE-PROXY-FIREWALL -d 203.0.113.80/32",
        &format!("-A {firewall} -s 192.0.2.0/24"),
    ] {
        lab.wait_for_text(Family::V4, rule);
    }
}

fn a_service_is_deleted(lab: &Lab, objects: &[&Value]) {
    for object in objects {
        lab.control.api().delete(object);
    }
    for family in Family::ALL {
        lab.wait_until_gone(family, "default/web");
        for prefix in ["KUBE-SVC-", "KUBE-EXT-", "KUBE-FW-"] {
            lab.wait_until_gone(family, &service_chain(prefix, "default/web:http", "tcp"));
        }
    }
}

#[test]
fn rules_outlive_an_outage_of_the_api_server_and_follow_again() {
    needs!(Cluster);
    let mut lab = Lab::new(Backend::Nft);
    let web = web();
    lab.control
        .api()
        .apply_all(&[web.clone(), objects::slice(&web, &["10.4.0.11"])]);
    let is_ours = Program::under_test().is_deltaproxy();
    let mut daemon = lab.start(&Program::under_test(), &["-v=4"]);
    lab.wait_for_text(Family::V4, "--to-destination 10.4.0.11:8080");
    if is_ours {
        build_info_has_the_version_of_the_api_server(&lab, &daemon);
        requests_are_counted(&lab, "200");
    }

    lab.control.stop_server();
    for path in ["/healthz", "/livez"] {
        wait_until_ok(&lab.node, path);
    }
    if is_ours {
        requests_are_counted(&lab, "<error>");
    }
    let cluster_ip: SocketAddr = "10.96.1.1:80".parse().unwrap();
    assert_eq!(tcp_request(&lab.client.netns, cluster_ip).server(), Ok("a"));

    lab.control.start_server();
    // Changed in one direction and deleted in the other, so that a relist has both to find.
    lab.control
        .api()
        .apply(&objects::slice(&web, &["10.4.0.12"]));
    lab.wait_until_gone(Family::V4, "10.4.0.11:8080");
    assert_eq!(tcp_request(&lab.client.netns, cluster_ip).server(), Ok("b"));
    daemon.assert_running();
}

/// `KubeVersionMismatch` compares it with the metric of the API server.
fn build_info_has_the_version_of_the_api_server(lab: &Lab, daemon: &Daemon) {
    let answer = lab.control.api().get("/version").unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let version = answer["gitVersion"].as_str().unwrap();
    let release = version.split(['-', '+']).next().unwrap();
    eventually(PATIENCE, || {
        let metrics = http::metrics(&lab.node, Daemon::METRICS);
        let is_info = |line: &&str| line.starts_with("kubernetes_build_info{");
        let info = metrics.lines().find(is_info).unwrap_or_default();
        let expected = format!("git_version=\"{release}+deltaproxy-");
        ensure(info.contains(&expected), || format!("{version}: {info}"))?;
        // A server of the default's release has the same metric without a request.
        let (log, line) = (daemon.log(), "read the version of the API server");
        let is_read = |found: &str| found.contains(line) && found.contains(release);
        ensure(log.lines().any(is_read), || log.clone())
    });
}

/// Waits until requests with this result are counted: one watch for each kind, at least.
fn requests_are_counted(lab: &Lab, code: &str) {
    let series = format!(
        "rest_client_requests_total{{code=\"{code}\",host=\"10.200.0.1:6443\",method=\"GET\"}} "
    );
    eventually(PATIENCE, || {
        let page = http::metrics(&lab.node, Daemon::METRICS);
        ensure(http::count(&page, &series) >= 3, || page)
    });
}

/// Dual stack, on every kind of address.
pub(crate) fn web() -> Value {
    let spec = json!({
        "type": "NodePort",
        "clusterIP": "10.96.1.1",
        "clusterIPs": ["10.96.1.1", "fd00:10:96::11"],
        "ipFamilyPolicy": "RequireDualStack",
        "ipFamilies": ["IPv4", "IPv6"],
        "externalIPs": ["203.0.113.10", "2001:db8:cafe::10"],
        "ports": [
            {"name": "http", "protocol": "TCP", "port": 80, "targetPort": POD_PORT, "nodePort": 30080},
        ],
    });
    objects::service("web", spec)
}
