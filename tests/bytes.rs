//! What a node asks of the API server: bytes received, beside kube-proxy's where there is one.
//!
//! Counted by the kernel on the node's own interface, so headers and acknowledgements are in it.
//! `WIRE_SERVICES=10000 cargo test --test all bytes -- --nocapture` measures a large cluster.

use crate::load;
use std::thread::sleep;
use std::time::Duration;

use crate::support::daemon::{Backend, Daemon, Program, wait_until_ok};
use crate::support::kube::{ControlPlane, binary};
use crate::support::netns::Netns;
use crate::support::process::run;
use crate::support::{needs, objects};
use load::Load;

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
    needs!(Cluster);
    // Otherwise a server compresses what it sends to kube-proxy, which asks for gzip.
    let plain = all_received(
        "not compressed",
        &["--feature-gates=WatchListCompression=false"],
    );
    let [protobuf, json] = [plain.protobuf, plain.json];
    assert!(protobuf.initial * 10 < json.initial * 8, "{plain:?}");
    assert!(protobuf.change * 10 < json.change * 9, "{plain:?}");
    // The kernel's acknowledgements differ from run to run.
    let at_most = |bytes: u64| bytes + bytes / 20;
    if let Some(upstream) = plain.upstream {
        assert!(protobuf.initial <= at_most(upstream.initial), "{plain:?}");
        assert!(protobuf.change <= at_most(upstream.change), "{plain:?}");
    }

    let compressing = all_received("gzip", &[]);
    let Some(upstream) = compressing.upstream else {
        return;
    };
    assert!(upstream.initial * 2 < protobuf.initial, "{upstream:?}");
    let found = compressing.protobuf;
    assert!(found.initial <= at_most(protobuf.initial), "{found:?}");
    assert!(found.change <= at_most(protobuf.change), "{found:?}");
}

/// By each program from one server.
#[derive(Debug, Clone, Copy)]
struct AllReceived {
    protobuf: Received,
    json: Received,
    /// `None` without a kube-proxy.
    upstream: Option<Received>,
}

/// From an API server with these flags.
fn all_received(server: &str, server_flags: &'static [&'static str]) -> AllReceived {
    let services = std::env::var("WIRE_SERVICES").map_or(300, |text| text.parse().unwrap());
    let mut load = Load::new(services, 5);
    let control = load.start_cluster_with(server_flags);
    let mut hosts = 2..;
    let mut received = |name: &str, program: Program, flags: &[&str]| {
        let node = Netns::new("bytes");
        control.attach(&node, hosts.next().unwrap());
        let received = measure(&node, &control, &mut load, &program, flags);
        println!("{services} services x 5, {server}, {name}: {received:?}");
        received
    };
    let json = ["--kube-api-content-type=application/json"];
    AllReceived {
        protobuf: received("protobuf", Program::Deltaproxy, &[]),
        json: received("JSON", Program::Deltaproxy, &json),
        upstream: binary("kube-proxy")
            .ok()
            .map(|path| received("kube-proxy", Program::KubeProxy(path), &[])),
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
