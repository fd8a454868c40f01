//! What happens to a machine, which is here a namespace made for it.

use std::net::SocketAddr;
use std::path::Path;

use super::table::Row;
use crate::support::daemon::{Backend, Daemon, Program, backend_programs};
use crate::support::netns::Netns;
use crate::support::node::Node;
use crate::support::program::{PROGRAM, Ran};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs};

/// No namespace may set the machine's own limits.
const UNLIMITED: &str = "--conntrack-max-per-core=0";

/// Sets a machine up, and does no more.
#[track_caller]
pub fn init(netns: &Netns, flags: &[&str]) -> String {
    let output = run(netns, &[&["--init-only"], flags].concat());
    assert!(output.is_success(), "{flags:?}: {output:#?}");
    output.stderr
}

fn run(netns: &Netns, flags: &[&str]) -> Ran {
    let mut command = netns.command("timeout");
    command.args(["60", PROGRAM, "run", UNLIMITED]).args(flags);
    Ran::of(&mut command)
}

/// A node with a Service. Namespaces start with the machine's settings of localhost.
fn untouched() -> Node {
    let node = Node::new(Backend::Nft);
    node.netns.sysctl("ipv4/conf/all/route_localnet", "0");
    node
}

/// Such a node, and a daemon on it that is about to start.
fn spawn(flags: &[&str]) -> (Node, Daemon) {
    let node = untouched();
    let daemon = spawn_on(&node, flags);
    (node, daemon)
}

fn spawn_on(node: &Node, flags: &[&str]) -> Daemon {
    let manifests = format!("--manifests={}", node.manifests.path().display());
    let flags = [&["--hostname-override=node1", &manifests], flags].concat();
    let programs = backend_programs(node.backend);
    Daemon::spawn(&Program::Deltaproxy, &node.netns, programs, &flags)
}

fn is_served(node: &Node, address: SocketAddr, path: &str) -> Result<(), String> {
    let (status, body) = http::get(&node.netns, address, path)?;
    ensure(status == 200, || format!("{path}: {status} {body}"))
}

/// Addresses of the health and the metrics server: there, and not where it is by itself.
pub fn listens(row: &Row, _: &Path) {
    needs!(Kernel);
    let (usual, path) = match row.flag {
        "healthz-bind-address" => (Daemon::HEALTH, "/livez"),
        _ => (Daemon::METRICS, "/metrics"),
    };
    let given = row.value.parse().unwrap();
    for (flags, there, not_there) in [
        (&[row.typed().as_str()][..], given, usual),
        (&[], usual, given),
    ] {
        let (node, mut daemon) = spawn(flags);
        eventually(PATIENCE, || {
            daemon.assert_running();
            is_served(&node, there, path)
        });
        assert!(
            http::get(&node.netns, not_there, path).is_err(),
            "{flags:?}"
        );
    }
}

/// `--status-page=false`: no page for a browser, but those for commands.
pub fn serves_no_html(row: &Row, _: &Path) {
    needs!(Kernel);
    for (flags, expected) in [(&[row.typed().as_str()][..], 404), (&[], 200)] {
        let (node, _daemon) = spawn(flags);
        eventually(PATIENCE, || is_served(&node, Daemon::METRICS, "/rules"));
        for path in ["/", "/services"] {
            let (status, _) = http::get(&node.netns, Daemon::METRICS, path).unwrap();
            assert_eq!(status, expected, "{flags:?} {path}");
        }
        eventually(PATIENCE, || is_served(&node, Daemon::METRICS, "/status"));
    }
}

/// `--dry-run`: no rule, no setting, and no thread that deletes connection tracking entries.
pub fn touches_nothing(row: &Row, _: &Path) {
    needs!(Kernel);
    let set = |node: &Node| node.netns.setting("ipv4/conf/all/route_localnet");
    let threads = |daemon: &Daemon| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.id())).unwrap();
        let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
        let names = names.map(Result::unwrap_or_default);
        names.filter(|name| name.trim() == "conntrack").count()
    };
    let (node, daemon) = spawn(&[&row.typed()]);
    daemon.wait_for_log("--to-destination 10.4.0.11:8080");
    assert!(!node.rules().contains("KUBE-"), "{}", node.rules());
    assert_eq!((set(&node), threads(&daemon)), ("0".to_owned(), 0));
    let (node, daemon) = spawn(&[]);
    node.wait_for_rule("--to-destination 10.4.0.11:8080");
    eventually(PATIENCE, || {
        ensure(set(&node) == "1", || "not set".to_owned())
    });
    assert_eq!(threads(&daemon), 1);
}

/// `--iptables-backend`: those programs, whichever have the plain names.
pub fn takes_other_programs(row: &Row, _: &Path) {
    needs!(Kernel);
    for backend in [row.value, "nft"] {
        let netns = Netns::new("backend");
        let said = init(&netns, &[&format!("--{}={backend}", row.flag)]);
        let found = said.lines().filter(|line| line.contains("found iptables"));
        let words: Vec<_> = found.filter_map(|line| line.rsplit('(').next()).collect();
        assert!(!words.is_empty(), "{said}");
        let named = format!("{backend})");
        assert!(words.iter().all(|word| *word == named), "{said}");
    }
}
