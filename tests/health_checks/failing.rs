//! Health checks of one program alone, without a control plane: while rules cannot be restored, and
//! without a health server.

use std::fs;
use std::path::Path;

use super::scene::{PORT, loopback};
use crate::support::daemon::{Backend, Daemon, Program, backend_programs};
use crate::support::node::{Node, with_restore, write_script};
use crate::support::program::PROGRAM;
use crate::support::rules::Family;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs, objects};
use serde_json::json;

/// A load balancer with these endpoints on this node.
fn balanced(endpoints: &[&str]) -> String {
    let service = objects::service(
        "lb",
        json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": PORT,
            "clusterIP": "10.96.0.10",
        }),
    );
    let slice = objects::slice(&service, endpoints);
    objects::manifest(&[service, slice])
}

/// Waits for a status, a number of endpoints, and whether the process is said to be healthy.
#[track_caller]
fn says(node: &Node, status: u16, endpoints: usize, is_healthy: bool) {
    eventually(PATIENCE, || {
        let reply = http::ask(&node.netns, loopback(Family::V4, PORT), "GET /")?;
        let wanted = [
            format!("HTTP/1.1 {status} "),
            format!("\r\nX-Load-Balancing-Endpoint-Weight: {endpoints}\r\n"),
            format!("\"serviceProxyHealthy\": {is_healthy}\n"),
        ];
        ensure(wanted.iter().all(|part| reply.contains(part)), || reply)
    });
}

/// Endpoints that no packet reaches yet are not reported.
#[test]
fn checks_follow_the_kernel_and_not_the_cluster() {
    needs!(Kernel);
    let folder = tempfile::tempdir().unwrap();
    let fault = folder.path().join("fault");
    let script = format!("[ -e {} ] && exit 1\nexec $REAL \"$@\"", fault.display());
    let node = Node::new(Backend::Nft);
    node.write(&balanced(&["10.4.0.11"]));
    let _daemon = node.start(with_restore(node.backend, &script));
    says(&node, 200, 1, true);

    fs::write(&fault, "").unwrap();
    node.write(&balanced(&["10.4.0.11", "10.4.0.12"]));
    // Twice the sync period later.
    says(&node, 503, 1, false);
    fs::remove_file(&fault).unwrap();
    says(&node, 200, 2, true);
}

#[test]
fn checks_are_answered_without_a_health_server_and_open_files_are_raised() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    node.write(&balanced(&["10.4.0.11"]));
    let few_files = node.manifests.path().join(".few-files");
    let real = Path::new(PROGRAM);
    write_script(&few_files, real, "ulimit -Sn 256\nexec $REAL \"$@\"");
    let manifests = format!("--manifests={}", node.manifests.path().display());
    let flags = [&*manifests, "--hostname-override=node1", "--healthz-port=0"];
    let program = Program::KubeProxy(few_files);
    let bin = backend_programs(node.backend);
    let daemon = Daemon::spawn(&program, &node.netns, bin, &flags);
    says(&node, 200, 1, true);
    http::ask(&node.netns, Daemon::HEALTH, "GET /").unwrap_err();
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.id())).unwrap();
    let mut lines = limits.lines();
    let line = lines.find(|line| line.starts_with("Max open files"));
    let mut words = line.unwrap().split_whitespace().skip(3);
    assert_eq!(words.next(), words.next(), "{limits}");
}
