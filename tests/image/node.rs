//! Runs the containers of the overlay `least-privilege` and the command line of kubeadm on a node:
//! rules are there, with no more rights than the manifest grants.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::container::Bundle;
use crate::support::daemon::{Backend, real_program, wait_until_ok};
use crate::support::lab::Lab;
use crate::support::process::{Process, run};
use crate::support::rules::Family;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, objects, on_both_backends};

const MANIFEST: &str = include_str!("../../deploy/rendered/kustomize-least-privilege.yaml");
const KUBEADM: &str = include_str!("../config/kubeadm.yaml");
/// As kubeadm's DaemonSet has it, with the name of the Node in place of its variable.
const KUBEADM_COMMAND: [&str; 3] = [
    "/usr/local/bin/kube-proxy",
    "--config=/var/lib/kube-proxy/config.conf",
    "--hostname-override=node1",
];
/// `CAP_NET_ADMIN` and `CAP_NET_RAW`, as the kernel prints them.
const TWO_CAPABILITIES: &str = "0000000000003000";

/// Returns a container of the DaemonSet: the first of `initContainers` or `containers`.
fn container(list: &str) -> Value {
    let documents: Vec<Value> = serde_saphyr::from_multiple(MANIFEST).unwrap();
    let is_daemon_set = |object: &&Value| object["kind"] == "DaemonSet";
    let daemon_set = documents.iter().find(is_daemon_set).unwrap();
    let mut container = daemon_set["spec"]["template"]["spec"][list][0].clone();
    let command = container["command"].as_array_mut().unwrap();
    for argument in command.iter_mut() {
        *argument = argument
            .as_str()
            .unwrap()
            .replace("$(NODE_NAME)", objects::NODE)
            .into();
    }
    container
}

/// Writes the ConfigMap `kube-proxy` of kubeadm as a volume.
fn volumes(lab: &Lab) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("kube-proxy");
    fs::create_dir(&volume).unwrap();
    // The limits of the machine are not a namespace's to set.
    let config = KUBEADM.replace("maxPerCore: null", "maxPerCore: 0");
    fs::write(volume.join("config.conf"), config).unwrap();
    let kubeconfig = volume.join("kubeconfig.conf");
    fs::copy(lab.control.proxy_kubeconfig(), kubeconfig).unwrap();
    folder
}

/// Makes the chain by which kubelet shows its backend.
fn hint(lab: &Lab, backend: Backend) {
    let program = real_program(backend, "iptables");
    let mut command = lab.node.command(program);
    run(command.args(["-w", "5", "-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]));
}

fn sets_up(bundle: &Bundle, lab: &Lab, volumes: &Path) {
    let mut init = bundle.start("init", &lab.node, &container("initContainers"), volumes);
    let status = eventually(PATIENCE, || init.exited().ok_or("it runs".to_owned()));
    let log = init.log();
    assert!(status.success(), "{log}");
    assert!(log.contains("privileged setup is complete"), "{log}");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}

/// Fails unless the only process in the namespace has two capabilities and filtered system calls.
fn assert_confined(lab: &Lab) {
    let pids = lab.node.pids();
    let named = |name: &str| {
        let status = pids.iter().find_map(|pid| {
            let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            text.lines().next()?.contains("proxy").then_some(text)
        });
        let text = status.unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(named("CapEff"), TWO_CAPABILITIES);
    assert_eq!(named("CapBnd"), TWO_CAPABILITIES);
    assert_eq!(named("NoNewPrivs"), "1");
    assert_eq!(named("Seccomp:"), "2");
}

fn wait_for_endpoint(lab: &Lab, proxy: &mut Process, endpoint: &str) {
    wait_until_ok(&lab.node, "/healthz");
    eventually(PATIENCE, || {
        proxy.assert_running();
        let rules = lab.rules(Family::V4);
        ensure(
            rules.contains(&format!("--to-destination {endpoint}:8080")),
            || rules,
        )
    });
}

fn containers_write_rules(backend: Backend) {
    let lab = Lab::new(backend);
    hint(&lab, backend);
    let web = objects::service("web", json!({"clusterIP": "10.96.0.80"}));
    let api = lab.control.api();
    api.apply_all(&[web.clone(), objects::slice(&web, &["10.4.0.11"])]);
    let volumes = volumes(&lab);
    let bundle = Bundle::unpack();
    sets_up(&bundle, &lab, volumes.path());

    let ours = container("containers");
    let mut kubeadm = ours.clone();
    kubeadm["command"] = json!(KUBEADM_COMMAND);
    for (name, container, endpoint) in [
        ("kubeadm", &kubeadm, "10.4.0.12"),
        ("daemonset", &ours, "10.4.0.11"),
    ] {
        api.apply(&objects::slice(&web, &[endpoint]));
        let mut proxy = bundle.start(name, &lab.node, container, volumes.path());
        wait_for_endpoint(&lab, &mut proxy, endpoint);
        assert_confined(&lab);
        assert!(proxy.terminate(PATIENCE).success(), "{}", proxy.log());
        let log = proxy.log();
        assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    }
}

on_both_backends!(Image, containers_write_rules);

#[test]
fn an_image_without_iptables_names_the_package() {
    needs!(Image);
    let lab = Lab::new(Backend::Nft);
    let volumes = volumes(&lab);
    let bundle = Bundle::unpack();
    fs::remove_dir_all(bundle.root().join("usr/sbin")).unwrap();
    let names_package = |log: &str| {
        log.contains("cannot start `iptables`: ") && log.contains("install the package `iptables`")
    };
    let mut init = bundle.start(
        "init",
        &lab.node,
        &container("initContainers"),
        volumes.path(),
    );
    let status = eventually(PATIENCE, || init.exited().ok_or("it runs".to_owned()));
    let log = init.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(names_package(&log), "{log}");

    // The daemon retries, as for a node where iptables is installed later.
    let mut daemon = container("containers");
    // Nothing but the programs is missing: no setting is in its way.
    daemon["securityContext"]["privileged"] = true.into();
    let mut proxy = bundle.start("proxy", &lab.node, &daemon, volumes.path());
    eventually(PATIENCE, || {
        proxy.assert_running();
        ensure(names_package(&proxy.log()), || proxy.log())
    });
}
