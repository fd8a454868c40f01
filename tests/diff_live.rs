//! `diff` beside running proxies: nothing differs while they are healthy, whichever they are and
//! whichever backend they use, and what is said when the cluster went on without them.

use std::ffi::OsString;

use crate::end_to_end::web;
use crate::support::daemon::{Backend, Program, backend_programs, real_program};
use crate::support::lab::{CLUSTER_CIDR, Lab, POD_PORT};
use crate::support::process::run;
use crate::support::program::{PROGRAM, Ran};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{objects, on_both_backends};
use serde_json::{Value, json};

on_both_backends!(Upstream, nothing_differs_beside_a_proxy);

/// kube-proxy, and then deltaproxy in its place.
fn nothing_differs_beside_a_proxy(backend: Backend) {
    let lab = Lab::new(backend);
    let api = lab.control.api();
    api.apply_all(&cluster());
    foreign_rules(&lab, backend);
    let kube_proxy = lab.start(&Program::kube_proxy(), &[]);
    agrees(&lab, backend);

    // The cluster goes on without the proxy; its rules stay.
    drop(kube_proxy);
    let web = web();
    api.apply(&objects::slice(
        &web,
        &["10.4.0.11", "10.4.0.12", "10.4.0.13"],
    ));
    api.merge(&web, &json!({"spec": {"externalTrafficPolicy": "Local"}}));
    api.delete(&empty());
    let output = diff(&lab, backend, &[]);
    let said = &output.stdout;
    assert_eq!(output.code, Some(1), "{said}");
    assert_eq!(effects(said), EXPECTED, "{said}");
    let output = diff(&lab, backend, &["--unified"]);
    let said = &output.stdout;
    assert!(
        said.starts_with("--- LIVE/IPv4\n+++ DESIRED/IPv4\n@@ "),
        "{said}"
    );

    let output = diff(&lab, backend, &["--hostname-override=nobody"]);
    let said = &output.stderr;
    assert_eq!(output.code, Some(2), "{said}");
    assert!(
        said.contains("node `nobody` is not in the cluster\nhint: "),
        "{said}"
    );

    let _deltaproxy = lab.start(&Program::Deltaproxy, &[]);
    agrees(&lab, backend);
}

/// What is said of service ports, without chains.
fn effects(said: &str) -> String {
    let lines = said.lines();
    let is_chain = |line: &str| {
        let is_table = |table: &str| {
            line.strip_prefix("  ")
                .is_some_and(|rest| rest.starts_with(table))
        };
        is_table("nat ") || is_table("filter ") || line.starts_with("    ") || line.is_empty()
    };
    let lines = lines
        .skip_while(|line| !line.starts_with("desired: "))
        .skip(1);
    let lines = lines.filter(|line| !is_chain(line));
    let lines: Vec<&str> = lines.collect();
    lines.join("\n")
}

const EXPECTED: &str = "\
default/empty:http/tcp disappears (IPv4)
  - cluster IP 10.96.1.9:80/tcp
default/web:http/tcp changes (IPv4)
  external policy Cluster -> Local
  10.96.1.1:80/tcp: 1 -> 3 endpoints, +10.4.0.12:8080, +10.4.0.13:8080
  203.0.113.10:80/tcp, *:30080/tcp: 1 -> 3 local endpoints, +10.4.0.12:8080, +10.4.0.13:8080
default/web:http/tcp changes (IPv6)
  external policy Cluster -> Local";

/// Waits until nothing differs, not even a comment.
#[track_caller]
fn agrees(lab: &Lab, backend: Backend) {
    let expected = format!(
        "no differences; 2 third-party rules ignored\n\
         live: the kernel's rules ({})\ndesired: the cluster\n",
        backend.name()
    );
    eventually(PATIENCE, || {
        let output = diff(lab, backend, &["--strict"]);
        let said = output.stdout + &output.stderr;
        ensure(said == expected, || said)
    });
    assert_eq!(diff(lab, backend, &["--strict"]).code, Some(0));
}

fn diff(lab: &Lab, backend: Backend, flags: &[&str]) -> Ran {
    let bin = backend_programs(backend);
    let mut path = OsString::from("PATH=");
    path.push(bin.path());
    let [kubeconfig, hostname] = lab.control.flags();
    let mut command = lab.node.command("/usr/bin/env");
    command
        .arg(path)
        .args([PROGRAM, "diff"])
        .args([kubeconfig.as_str(), &hostname, CLUSTER_CIDR])
        .args(flags)
        .env("RUST_LOG", "error");
    Ran::ended(command.output().unwrap())
}

/// What others have on a node: a chain with a jump to it.
fn foreign_rules(lab: &Lab, backend: Backend) {
    for args in [
        "-t nat -N CALI-PREROUTING",
        "-t nat -A CALI-PREROUTING -p tcp -m tcp --dport 9099 -j RETURN",
        "-t nat -A PREROUTING -j CALI-PREROUTING",
    ] {
        let mut command = lab.node.command(real_program(backend, "iptables"));
        run(command.arg("-w").args(args.split_whitespace()));
    }
}

/// Services of all kinds.
fn cluster() -> Vec<Value> {
    let web = web();
    let [balanced, balanced_slice] = balanced();
    let dns = dns();
    vec![
        objects::slice(&web, &["10.4.0.11"]),
        objects::slice(&web, &["fd00:10:4::11"]),
        objects::slice(&dns, &["10.4.0.11", "10.4.0.12"]),
        web,
        dns,
        balanced,
        balanced_slice,
        empty(),
    ]
}

/// UDP, with affinity.
fn dns() -> Value {
    let spec = json!({
        "clusterIP": "10.96.1.53",
        "sessionAffinity": "ClientIP",
        "ports": [{"name": "dns", "protocol": "UDP", "port": 53, "targetPort": POD_PORT}],
    });
    objects::service("dns", spec)
}

/// A load balancer with policy Local and source ranges.
fn balanced() -> [Value; 2] {
    let spec = json!({
        "type": "LoadBalancer",
        "clusterIP": "10.96.1.7",
        "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 32007,
        "loadBalancerSourceRanges": ["192.0.2.0/24"],
        "ports": [
            {"name": "http", "protocol": "TCP", "port": 80, "targetPort": POD_PORT, "nodePort": 30087},
        ],
    });
    let mut service = objects::service("balanced", spec);
    service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.80"}]}});
    let slice = objects::slice(&service, &["10.4.0.12"]);
    [service, slice]
}

/// Without endpoints.
fn empty() -> Value {
    objects::service("empty", json!({"clusterIP": "10.96.1.9"}))
}
