//! What a node asks of the API server: bytes received, beside kube-proxy's where there is one.
//!
//! Counted by the kernel on the node's own interface, so headers and acknowledgements are in it.
//! `WIRE_SERVICES=10000 cargo test --test all bytes -- --nocapture` measures a large cluster.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "helpers of tests: failing loudly is the point, and figures are to be read"
)]

use crate::load;
use crate::support;

use std::thread::sleep;
use std::time::Duration;

use load::Load;
use support::daemon::{Backend, Daemon, Program, wait_until_ok};
use support::kube::{ControlPlane, binary};
use support::netns::Netns;
use support::process::run;
use support::{Need, machine_has, objects};

/// Changes that are measured, one at a time.
const CHANGES: u32 = 20;

/// In bytes.
#[derive(Debug, Clone, Copy)]
struct Received {
    /// Until nothing more came after the start.
    initial: u64,
    /// For each change.
    change: u64,
}

#[test]
fn protobuf_is_no_more_than_kube_proxy_receives_and_less_than_json() {
    if !machine_has(Need::Cluster) {
        return;
    }
    let services = std::env::var("WIRE_SERVICES").map_or(300, |text| text.parse().unwrap());
    let (control, mut load) = Load::in_new_cluster(services, 5);

    let mut hosts = 2..;
    let mut received = |name: &str, program: Program, flags: &[&str]| {
        let node = Netns::new("bytes");
        control.attach(&node, hosts.next().unwrap());
        let received = measure(&node, &control, &mut load, &program, flags);
        println!("{services} services x 5, {name}: {received:?}");
        received
    };
    let protobuf = received("protobuf", Program::Deltaproxy, &[]);
    let json = ["--kube-api-content-type=application/json"];
    let json = received("JSON", Program::Deltaproxy, &json);
    assert!(
        protobuf.initial * 10 < json.initial * 8,
        "{protobuf:?} {json:?}"
    );
    assert!(
        protobuf.change * 10 < json.change * 9,
        "{protobuf:?} {json:?}"
    );

    if let Ok(path) = binary("kube-proxy") {
        let upstream = received("kube-proxy", Program::KubeProxy(path), &[]);
        // The kernel's acknowledgements differ from run to run.
        let at_most = |bytes: u64| bytes + bytes / 20;
        assert!(
            protobuf.initial <= at_most(upstream.initial),
            "{upstream:?}"
        );
        assert!(protobuf.change <= at_most(upstream.change), "{upstream:?}");
    }
}

fn measure(
    node: &Netns,
    control: &ControlPlane,
    load: &mut Load,
    program: &Program,
    flags: &[&str],
) -> Received {
    let kubeconfig = format!("--kubeconfig={}", control.kubeconfig().display());
    let hostname = format!("--hostname-override={}", objects::NODE);
    let mut args = vec![kubeconfig.as_str(), &hostname, "--cluster-cidr=10.4.0.0/14"];
    args.extend(flags);
    let before = received(node);
    let _daemon = Daemon::start_program(program, node, Backend::Legacy, &args);
    wait_until_ok(node, "/healthz");
    let listed = settled(node);
    for _ in 0..CHANGES {
        load.move_some(control.api(), 1);
        // Each in a segment of its own.
        sleep(Duration::from_millis(50));
    }
    Received {
        initial: listed - before,
        change: (settled(node) - listed) / u64::from(CHANGES),
    }
}

/// What was received once nothing more comes.
fn settled(node: &Netns) -> u64 {
    let mut last = received(node);
    loop {
        sleep(Duration::from_secs(1));
        let now = received(node);
        // A bookmark or a ping may come at any time.
        if now - last < 500 {
            return now;
        }
        last = now;
    }
}

/// The bytes that the namespace's interfaces have received, but for the loopback.
fn received(node: &Netns) -> u64 {
    let table = run(node.command("cat").arg("/proc/net/dev"));
    let columns = table.lines().filter_map(|line| line.split_once(':'));
    columns
        .filter(|(device, _)| device.trim() != "lo")
        .filter_map(|(_, counts)| counts.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}
