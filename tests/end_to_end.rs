//! The daemon against a real API server and a real kernel, judged by the rules that are there.
//! [`packets`](crate::packets) has what becomes of packets.
//!
//! `PROXY_UNDER_TEST=<kube-proxy> cargo test --test all end_to_end` runs the same tests on
//! upstream.

use std::net::SocketAddr;

use crate::support::daemon::{Backend, Daemon, Program, wait_until_ok};
use crate::support::lab::{Lab, POD_PORT};
use crate::support::rules::{Family, endpoint_chain, plain, service_chain};
use crate::support::servers::tcp_request;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs, objects, on_both_backends};
use serde_json::{Value, json};

const DISPATCH: &str = "-A KUBE-SERVICES -d";

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
    lab.wait_for_rules(Family::V4, &lines(&web_rules(Family::V4)));
    lab.wait_for_rules(Family::V6, &lines(&web_rules(Family::V6)));
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

/// A second endpoint changes the probabilities; the first one leaves, and its chain with it.
fn endpoints_come_and_go(lab: &Lab, web: &Value) {
    let service = service_chain("KUBE-SVC-", "default/web:http", "tcp");
    let a = endpoint_chain("default/web:http", "tcp", "10.4.0.11:8080");
    let b = endpoint_chain("default/web:http", "tcp", "10.4.0.12:8080");
    let jump = |matches: &str, number: u8, chain: &str| {
        format!(
            "-A {service} -m comment --comment \"default/web:http -> 10.4.0.{number}:8080\" \
             {matches}-j {chain}"
        )
    };
    lab.control
        .api()
        .apply(&objects::slice(web, &["10.4.0.12", "10.4.0.11"]));
    let half = jump(
        "-m statistic --mode random --probability 0.50000000000 ",
        11,
        &a,
    );
    lab.wait_for_rules(Family::V4, &[&half, &jump("", 12, &b)]);

    lab.control
        .api()
        .apply(&objects::slice(web, &["10.4.0.12"]));
    lab.wait_until_gone(Family::V4, &a);
    lab.wait_for_rules(Family::V4, &[&jump("", 12, &b)]);
}

/// Affinity, a load-balancer address and source ranges each bring rules; the first goes again.
fn a_service_changes(lab: &Lab, web: &Value) {
    let api = lab.control.api();
    let a = endpoint_chain("default/web:http", "tcp", "10.4.0.12:8080");
    api.merge(web, &json!({"spec": {"sessionAffinity": "ClientIP"}}));
    let remembered = format!(
        "-A {a} -p tcp -m comment --comment \"default/web:http\" -m recent --set --name {a} \
         --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.4.0.12:8080"
    );
    eventually(PATIENCE, || {
        let saved = lab
            .rules(Family::V4)
            .replace("\"default/web:http\"", "default/web:http");
        let wanted = remembered.replace("\"default/web:http\"", "default/web:http");
        ensure(saved.contains(&wanted), || {
            format!("missing {wanted}\nin\n{saved}")
        })
    });
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
    let external = service_chain("KUBE-EXT-", "default/web:http", "tcp");
    lab.wait_for_rules(
        Family::V4,
        &[
            &format!(
                "{DISPATCH} 203.0.113.80/32 -p tcp -m comment --comment \
                 \"default/web:http loadbalancer IP\" -m tcp --dport 80 -j {firewall}"
            ),
            &format!(
                "-A {firewall} -s 192.0.2.0/24 -m comment --comment \
                 \"default/web:http loadbalancer IP\" -j {external}"
            ),
            &format!(
                "-A KUBE-PROXY-FIREWALL -d 203.0.113.80/32 -p tcp -m comment --comment \
                 \"default/web:http traffic not accepted by {firewall}\" -m tcp --dport 80 -j DROP"
            ),
        ],
    );
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
    lab.wait_for_rules(Family::V4, &lines(&web_rules(Family::V4)));
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

/// Rules of `web` with its one endpoint, as the save programs print them.
fn web_rules(family: Family) -> Vec<String> {
    let (cluster_ip, external_ip, endpoint) = match family {
        Family::V4 => ("10.96.1.1/32", "203.0.113.10/32", "10.4.0.11:8080"),
        Family::V6 => (
            "fd00:10:96::11/128",
            "2001:db8:cafe::10/128",
            "[fd00:10:4::11]:8080",
        ),
    };
    let not_local = match family {
        Family::V4 => "! -s 10.4.0.0/14",
        Family::V6 => "! -s fd00:10:4::/48",
    };
    let name = "default/web:http";
    let service = service_chain("KUBE-SVC-", name, "tcp");
    let external = service_chain("KUBE-EXT-", name, "tcp");
    let pod = endpoint_chain(name, "tcp", endpoint);
    vec![
        format!(
            "{DISPATCH} {cluster_ip} -p tcp -m comment --comment \"{name} cluster IP\" -m tcp \
             --dport 80 -j {service}"
        ),
        format!(
            "{DISPATCH} {external_ip} -p tcp -m comment --comment \"{name} external IP\" -m tcp \
             --dport 80 -j {external}"
        ),
        format!(
            "-A {service} {not_local} -d {cluster_ip} -p tcp -m comment --comment \
             \"{name} cluster IP\" -m tcp --dport 80 -j KUBE-MARK-MASQ"
        ),
        format!("-A {service} -m comment --comment \"{name} -> {endpoint}\" -j {pod}"),
        format!(
            "-A {external} -m comment --comment \"masquerade traffic for {name} external \
             destinations\" -j KUBE-MARK-MASQ"
        ),
        format!("-A {external} -j {service}"),
    ]
}

fn lines(owned: &[String]) -> Vec<&str> {
    owned.iter().map(String::as_str).collect()
}
