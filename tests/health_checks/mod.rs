//! Health as load balancers and probes see it, and Events for operators, next to a real
//! kube-proxy: both programs watch one API server, each in a namespace of its own.

mod events;
mod failing;
mod scene;

use std::net::SocketAddr;

use crate::support::daemon::{Backend, Daemon, Program};
use crate::support::reply::alike;
use crate::support::rules::{Family, saved};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs, objects};
use scene::{Node, OTHER_PORT, PORT, Scene, balanced, loopback, node};
use serde_json::json;

#[test]
fn both_programs_tell_of_health_alike() {
    needs!(Upstream);
    let mut scene = Scene::new();
    scene.both(&[]);
    services_are_healthy_where_their_endpoints_are(&scene);
    traffic_moves_away_from_a_node_that_is_about_to_go(&scene);
    checks_are_answered_where_node_ports_are(&mut scene);
    events::a_swap_ends_neither_program_and_a_write_ends_both(&mut scene);
}

#[test]
fn a_node_is_followed_and_operators_are_told() {
    needs!(Cluster);
    let mut scene = Scene::new();
    events::a_dry_run_listens_and_writes_nowhere(&mut scene);
    events::a_process_that_must_end_says_why(&mut scene);
    events::rules_that_another_program_keeps_changing_make_an_event(&mut scene);
    the_nodes_zone_and_pod_network_are_followed(&mut scene);
}

fn services_are_healthy_where_their_endpoints_are(scene: &Scene) {
    let (api, lb) = (scene.api(), balanced(PORT));
    let (v4, v6) = (Family::V4, Family::V6);
    let slice = |addresses: &[&str]| api.apply(&objects::slice(&lb, addresses));
    api.apply(&lb);
    scene.say(v4, PORT, 503, 0);
    scene.say(v6, PORT, 503, 0);
    slice(&["10.4.0.11"]);
    scene.say(v4, PORT, 200, 1);
    // Each family counts its own.
    scene.say(v6, PORT, 503, 0);
    slice(&["10.4.0.11", "10.4.0.12", "10.4.0.13"]);
    slice(&["fd00:10:4::11"]);
    scene.say(v4, PORT, 200, 3);
    scene.say(v6, PORT, 200, 1);

    let mut mixed = objects::slice(&lb, &["10.4.0.11", "10.4.0.12", "10.4.0.13"]);
    mixed["endpoints"][0]["conditions"] =
        json!({"ready": false, "serving": true, "terminating": true});
    mixed["endpoints"][1]["nodeName"] = "node2".into();
    api.apply(&mixed);
    scene.say(v4, PORT, 200, 1);
    mixed["endpoints"][2]["conditions"]["ready"] = false.into();
    api.apply(&mixed);
    scene.say(v4, PORT, 503, 0);
    slice(&["10.4.0.12"]);
    scene.say(v4, PORT, 200, 1);
    every_request_is_answered_alike(scene);

    // The port is the Service's no more, and then it is another one.
    let cluster =
        json!({"spec": {"externalTrafficPolicy": "Cluster", "healthCheckNodePort": null}});
    api.merge(&lb, &cluster);
    scene.are_silent(v4, PORT);
    scene.are_silent(v6, PORT);
    let local =
        json!({"spec": {"externalTrafficPolicy": "Local", "healthCheckNodePort": OTHER_PORT}});
    api.merge(&lb, &local);
    scene.say(v4, OTHER_PORT, 200, 1);
    scene.say(v6, OTHER_PORT, 200, 1);
    api.delete(&lb);
    scene.are_silent(v4, OTHER_PORT);
    scene.are_silent(v6, OTHER_PORT);
}

fn every_request_is_answered_alike(scene: &Scene) {
    let ports = [PORT, Daemon::HEALTH.port()];
    let lines = [
        "GET /healthz",
        "HEAD /healthz",
        "POST /healthz?verbose",
        "DELETE /livez",
        "HEAD /livez",
        "GET /healthz/",
        "GET /livez/x",
        "GET /",
        "HEAD /none",
        "OPTIONS /healthz",
        "PURGE /livez",
        "GET http://other/healthz",
    ];
    for (family, port) in [Family::V4, Family::V6]
        .into_iter()
        .flat_map(|family| ports.map(|port| (family, port)))
    {
        for line in lines {
            let [theirs, ours] = [0, 1].map(|at| {
                let node: &Node = &scene.nodes[at];
                let reply = http::ask(&node.netns, loopback(family, port), line).unwrap();
                alike(&reply)
            });
            assert_eq!(theirs, ours, "{line} at {port}, {family:?}");
        }
    }
}

fn checks_are_answered_where_node_ports_are(scene: &mut Scene) {
    scene.both(&[
        "--nodeport-addresses=10.200.0.0/16",
        "--iptables-sync-period=1s",
    ]);
    scene.api().apply(&balanced(PORT));
    // The other family was not thought of; its slice is still there.
    scene.say(Family::V6, PORT, 200, 1);
    for (host, node) in (2..).zip(&scene.nodes) {
        node.answers(SocketAddr::from(([10, 200, 0, host], PORT)));
        node.is_silent(loopback(Family::V4, PORT));
    }
    // An address comes, and goes; the cluster is quiet meanwhile. kube-proxy never looks again.
    let ours = scene.nodes.pop().unwrap();
    ours.netns.address("lo", "10.200.7.7/32");
    let late = SocketAddr::from(([10, 200, 7, 7], PORT));
    ours.answers(late);
    ours.netns.ip("address del 10.200.7.7/32 dev lo");
    ours.netns.address("lo", "10.200.8.8/32");
    ours.answers(SocketAddr::from(([10, 200, 8, 8], PORT)));
    ours.answers(SocketAddr::from(([10, 200, 0, 3], PORT)));
}

fn traffic_moves_away_from_a_node_that_is_about_to_go(scene: &Scene) {
    let (api, node) = (scene.api(), node());
    let taint =
        json!([{"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}]);
    for (taints, wanted) in [(taint, 503), (json!(null), 200)] {
        api.merge(&node, &json!({"spec": {"taints": taints}}));
        for machine in &scene.nodes {
            machine.says("/healthz", wanted);
            machine.says("/livez", 200);
        }
        // Neither family has a status before its first sync.
        eventually(PATIENCE, || {
            let [theirs, ours] = [0, 1].map(|at| {
                let node: &Node = &scene.nodes[at];
                let reply = http::ask(&node.netns, Daemon::HEALTH, "GET /healthz").unwrap();
                alike(&reply)
            });
            ensure(theirs == ours, || format!("{theirs}\n\n{ours}"))
        });
    }
    // kube-proxy goes by the last it saw of a Node that is gone.
    api.delete(&node);
    let ours = scene.nodes.last().unwrap();
    ours.says("/healthz", 503);
    ours.says("/livez", 200);
    api.apply(&node);
    ours.says("/healthz", 200);
}

fn the_nodes_zone_and_pod_network_are_followed(scene: &mut Scene) {
    scene.start(&Program::Deltaproxy, &["--detect-local-mode=NodeCIDR"]);
    let (api, mut node) = (scene.api(), node());
    let ours = scene.nodes.last().unwrap();
    let has = |wanted: &str, unwanted: &str| {
        eventually(PATIENCE, || {
            let rules = saved(&ours.netns, Backend::Nft, Family::V4);
            let is_so = rules.contains(wanted) && !rules.contains(unwanted);
            ensure(is_so, || format!("{wanted} and not {unwanted}:\n{rules}"))
        });
    };
    let web = objects::service("web", json!({"clusterIP": "10.96.1.3"}));
    let mut slice = objects::slice(&web, &["10.4.0.11", "10.4.0.12"]);
    for (at, zone) in ["zone-a", "zone-b"].into_iter().enumerate() {
        slice["endpoints"][at]["zone"] = zone.into();
        slice["endpoints"][at]["hints"] = json!({"forZones": [{"name": zone}]});
    }
    api.apply_all(&[web, slice]);
    has("10.4.0.11:8080", "10.4.0.12:8080");
    has("! -s 10.4.0.0/24", "! -s 10.4.9.0/24");
    let zone = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "zone-b"}}});
    api.merge(&node, &zone);
    has("10.4.0.12:8080", "10.4.0.11:8080");

    // A pod network is given once, so another one means another Node of the same name. kube-proxy
    // would end, to be started anew.
    api.delete(&node);
    node["spec"] = json!({"podCIDR": "10.4.9.0/24", "podCIDRs": ["10.4.9.0/24"]});
    api.apply(&node);
    has("! -s 10.4.9.0/24", "! -s 10.4.0.0/24");
    has("10.4.0.11:8080", "10.4.0.12:8080");
}
