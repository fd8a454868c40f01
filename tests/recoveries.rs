//! What the log of a daemon with manifests says of objects that are gone, and of errors that are
//! over.

use crate::support;

use std::net::TcpListener;

use support::daemon::{Backend, Daemon, backend_programs};
use support::node::{Node, SHOP};
use support::wait::{PATIENCE, ensure, eventually};
use support::{Need, machine_has};

/// Waits for a line of the log with this text.
#[track_caller]
fn wait_for_log(daemon: &Daemon, text: &str) {
    eventually(PATIENCE, || {
        let log = daemon.log();
        ensure(log.contains(text), || format!("no `{text}` in\n{log}"))
    });
}

#[test]
fn the_end_of_an_error_is_logged() {
    if !machine_has(Need::Kernel) {
        return;
    }
    let node = Node::new(Backend::Nft);
    let taken = node
        .netns
        .enter(|| TcpListener::bind(("0.0.0.0", Daemon::HEALTH.port())).expect("a free port"));
    let daemon = node.spawn(backend_programs(Backend::Nft), &[]);
    wait_for_log(
        &daemon,
        "cannot serve health; retrying in 5s, rules are synced meanwhile",
    );
    drop(taken);
    wait_for_log(&daemon, "serving health now");
    node.write("{");
    wait_for_log(&daemon, "the last valid content stays in use");
    assert!(!daemon.log().contains("can be used again"));
    node.write(SHOP);
    wait_for_log(&daemon, "all manifests can be used again");
}

#[test]
fn manifests_without_services_are_a_warning() {
    if !machine_has(Need::Kernel) {
        return;
    }
    let node = Node::new(Backend::Nft);
    node.write(SHOP);
    let daemon = node.start(backend_programs(Backend::Nft));
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    assert!(!daemon.log().contains("the manifests"), "{}", daemon.log());
    std::fs::remove_file(node.manifests.path().join("shop.yaml")).expect("remove the manifests");
    drop(daemon);
    let daemon = node.start(backend_programs(Backend::Nft));
    wait_for_log(&daemon, "the manifests have no Services");
}
