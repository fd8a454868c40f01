//! Events in the API server, for operators.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use serde_json::{Value, json};

use super::scene::{PORT, Scene, balanced, loopback};
use crate::support::api::Api;
use crate::support::daemon::{Backend, Daemon, Program};
use crate::support::process::run;
use crate::support::rules::{Family, saved};
use crate::support::volume::Volume;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs, objects};

/// Events of the API server that are not in `known`, sorted by time.
fn events(api: &Api, known: &[Value]) -> Vec<Value> {
    let text = api.get("/apis/events.k8s.io/v1/events").unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    let mut events = list["items"].as_array().unwrap().clone();
    events.retain(|event| !known.contains(event) && event["reportingController"] == "kube-proxy");
    events.sort_by_key(|event| event["eventTime"].to_string());
    events
}

/// The same without what each event has its own of.
fn words(event: &Value) -> Value {
    let mut words = event.clone();
    let fields = words.as_object_mut().unwrap();
    for field in ["metadata", "eventTime", "series"] {
        fields.remove(field);
    }
    // The system's own words come last.
    let note = event["note"].as_str().unwrap_or_default();
    let known = note.split_inclusive(&format!("on port {PORT}: ")).next();
    fields.insert("note".to_owned(), known.unwrap_or_default().into());
    words["namespace"] = event["metadata"]["namespace"].clone();
    words
}

#[test]
fn operators_are_told_what_kube_proxy_tells() {
    needs!(Upstream);
    let mut scene = Scene::new();
    scene.api().apply(&balanced(PORT));
    let mut told = Vec::new();
    let mut known = Vec::new();
    for program in [Program::kube_proxy(), Program::Deltaproxy] {
        let node = scene.machine();
        let address = SocketAddr::from(([0, 0, 0, 0], PORT));
        let blocker = node.netns.enter(|| TcpListener::bind(address).unwrap());
        scene.run(&program, &["--iptables-sync-period=1s"]);
        let new = eventually(PATIENCE, || {
            let new = events(scene.api(), &known);
            ensure(new.len() >= 2, || format!("{new:#?}"))?;
            Ok(new)
        });
        told.push(new[..2].iter().map(words).collect::<Vec<_>>());
        known = events(scene.api(), &[]);
        if program.is_deltaproxy() {
            a_free_port_is_found(&scene, blocker);
            assert_eq!(events(scene.api(), &known), Vec::<Value>::new());
        } else {
            scene.nodes.last_mut().unwrap().daemon = None;
            known = events(scene.api(), &[]);
        }
    }
    assert_eq!(told[0], told[1]);
    let reasons: Vec<&Value> = told[1].iter().map(|event| &event["reason"]).collect();
    assert_eq!(reasons, ["Starting", "FailedToStartServiceHealthcheck"]);
}

/// Neither syncs nor time make further events, and no sync is needed once the port is free.
fn a_free_port_is_found(scene: &Scene, blocker: TcpListener) {
    let ours = scene.nodes.last().unwrap();
    ours.answers(loopback(Family::V6, PORT));
    let other = objects::service("other", json!({"clusterIP": "10.96.1.2"}));
    for addresses in [["10.4.0.11"], ["10.4.0.12"]] {
        scene
            .api()
            .apply_all(&[other.clone(), objects::slice(&other, &addresses)]);
        eventually(PATIENCE, || {
            let rules = saved(&ours.netns, Backend::Nft, Family::V4);
            ensure(rules.contains(addresses[0]), || rules)
        });
    }
    drop(blocker);
    ours.answers(loopback(Family::V4, PORT));
    // The words that an operator searches for, once each.
    let words = [
        "cannot serve the health check node port: cannot listen on ",
        "until it is served, load balancers may send the Service no traffic through this node",
        "Find the program that listens on it",
        "health check node port is served now",
    ];
    eventually(PATIENCE, || {
        let log = ours.daemon.as_ref().map_or_else(String::new, Daemon::log);
        let is_logged_once = |words: &str| log.matches(words).count() == 1;
        ensure(words.iter().all(|words| is_logged_once(words)), || {
            log.clone()
        })
    });
}

pub fn a_process_that_must_end_says_why(scene: &mut Scene) {
    for (port, reason) in [
        (10_256, "FailedToStartProxierHealthcheck"),
        (10_249, "FailedToStartMetricServer"),
    ] {
        let node = scene.machine();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let _blocker = node.netns.enter(|| TcpListener::bind(address).unwrap());
        let flags = [
            "--bind-address-hard-fail",
            "--healthz-bind-address=127.0.0.1:10256",
        ];
        scene.run(&Program::Deltaproxy, &flags);
        let daemon = scene.nodes.last_mut().unwrap().daemon.as_mut().unwrap();
        eventually(PATIENCE, || {
            ensure(daemon.exited().is_some(), || "it runs".to_owned())
        });
        daemon.assert_logged("\nerror: --bind-address-hard-fail: cannot serve ");
        let told = events(scene.api(), &[]);
        let event = told.iter().find(|event| event["reason"] == reason);
        let event = event.unwrap_or_else(|| panic!("no {reason} in {told:#?}"));
        assert_eq!(event["type"], "Warning");
        let regarding = json!({"apiVersion": "v1", "kind": "Node", "name": objects::NODE});
        assert_eq!(event["regarding"], regarding);
        let text = event["note"].as_str().unwrap();
        assert!(text.contains(&port.to_string()), "{text}");
    }
}

pub fn a_dry_run_listens_and_writes_nowhere(scene: &mut Scene) {
    scene.api().apply(&balanced(PORT));
    scene.machine();
    scene.run(&Program::Deltaproxy, &["--dry-run"]);
    let node = scene.nodes.last_mut().unwrap();
    let daemon = node.daemon.as_mut().unwrap();
    daemon.wait_for_log("--dport 32100");
    std::thread::sleep(Duration::from_millis(300));
    node.is_silent(loopback(Family::V4, PORT));
    assert_eq!(events(scene.api(), &[]), Vec::<Value>::new());
}

pub fn rules_that_another_program_keeps_changing_make_an_event(scene: &mut Scene) {
    scene.start(&Program::Deltaproxy, &["--iptables-sync-period=10m"]);
    let node = scene.nodes.last().unwrap();
    eventually(PATIENCE, || {
        let rules = saved(&node.netns, Backend::Nft, Family::V4);
        ensure(rules.contains("-A KUBE-MARK-MASQ "), || rules)
    });
    let event = eventually(PATIENCE, || {
        let mut flush = node.netns.command("iptables-nft");
        run(flush.args(["-w", "-t", "nat", "-F", "KUBE-MARK-MASQ"]));
        let told = events(scene.api(), &[]);
        let contested = told
            .into_iter()
            .find(|event| event["reason"] == "RulesContested");
        contested.ok_or_else(|| node.daemon.as_ref().map_or_else(String::new, Daemon::log))
    });
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["regarding"]["kind"], "Node");
    assert_eq!(event["regarding"]["name"], objects::NODE);
    let text = event["note"].as_str().unwrap();
    let begin = format!(
        "node {}: IPv4 rules are changed again and again by another program (",
        objects::NODE
    );
    assert!(text.starts_with(&begin), "{text}");
    assert!(text.contains("chains nat KUBE-MARK-MASQ"), "{text}");
}

fn configuration(scene: &Scene, oom_score: i32) -> String {
    format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n\
         kind: KubeProxyConfiguration\n\
         mode: iptables\n\
         oomScoreAdj: {oom_score}\n\
         clusterCIDR: 10.4.0.0/14,fd00:10:4::/48\n\
         conntrack: {{maxPerCore: 0}}\n\
         clientConnection: {{kubeconfig: '{}'}}\n",
        scene.kubeconfig().display()
    )
}

/// The ConfigMap of both programs is swapped, and then a file is written in place.
pub fn a_swap_ends_neither_program_and_a_write_ends_both(scene: &mut Scene) {
    let mut volume = Volume::new(&configuration(scene, -1));
    scene.both(&[&format!("--config={}", volume.path().display())]);
    // The last one: kube-proxy, which acts on an event at once, has seen each swap by then.
    let reports = |scene: &Scene, stale: u8, invalid: u8, reason: &str| {
        let ours = scene.nodes.last().unwrap();
        eventually(PATIENCE, || {
            let page = http::metrics(&ours.netns, Daemon::METRICS);
            let expected = [("stale", stale), ("invalid", invalid)];
            let holds = expected.iter().all(|(name, value)| {
                page.contains(&format!("\ndeltaproxy_config_{name} {value}\n"))
            });
            let told = events(scene.api(), &[]);
            let is_told = told.iter().any(|event| event["reason"] == reason);
            ensure(holds && is_told, || {
                format!("{expected:?}: {page}{told:#?}")
            })
        });
    };
    volume.swap(&configuration(scene, -2));
    reports(scene, 1, 0, "ConfigurationStale");
    volume.swap("mode: nonsense\n");
    reports(scene, 0, 1, "ConfigurationRefused");
    for node in &mut scene.nodes {
        node.daemon.as_mut().unwrap().assert_running();
    }

    let volume = Volume::new(&configuration(scene, -1));
    scene.both(&[&format!("--config={}", volume.path().display())]);
    reports(scene, 0, 0, "ConfigurationStale");
    fs::write(volume.path(), configuration(scene, -2)).unwrap();
    for node in &mut scene.nodes {
        let daemon = node.daemon.as_mut().unwrap();
        let status = eventually(PATIENCE, || daemon.exited().ok_or("it runs".to_owned()));
        assert_eq!(status.code(), Some(1), "{}", daemon.log());
    }
}
