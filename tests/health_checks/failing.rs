//! Health checks while rules cannot be restored, without a control plane.

use std::fs;

use super::scene::{PORT, loopback};
use crate::support::daemon::Backend;
use crate::support::node::{Node, with_restore};
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
