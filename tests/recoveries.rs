//! What the log of a daemon with manifests says of objects that are gone, and of errors that are
//! over.

use std::net::TcpListener;

use crate::support::daemon::{Backend, Daemon, backend_programs};
use crate::support::needs;
use crate::support::node::{Node, SHOP};

#[test]
fn the_end_of_an_error_is_logged() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let taken = node
        .netns
        .enter(|| TcpListener::bind(("0.0.0.0", Daemon::HEALTH.port())).expect("a free port"));
    let daemon = node.spawn(backend_programs(Backend::Nft), &[]);
    daemon.wait_for_log("cannot serve health; retrying in 5s, rules are synced meanwhile");
    drop(taken);
    daemon.wait_for_log("serving health now");
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    node.write("{");
    daemon.wait_for_log("the last valid content stays in use");
    daemon.assert_logged("shop.yaml");
    assert!(!daemon.log().contains("can be used again"));
    assert!(node.rules().contains("10.4.0.12:8080"));
    node.write(&SHOP.replace("10.4.0.12", "10.4.0.13"));
    node.wait_for_rule("--to-destination 10.4.0.13:8080");
    daemon.wait_for_log("all manifests can be used again");
}

#[test]
fn manifests_without_services_are_a_warning() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    node.write(SHOP);
    let daemon = node.start(backend_programs(Backend::Nft));
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    assert!(!daemon.log().contains("the manifests"), "{}", daemon.log());
    std::fs::remove_file(node.manifests.path().join("shop.yaml")).expect("remove the manifests");
    drop(daemon);
    let daemon = node.start(backend_programs(Backend::Nft));
    daemon.wait_for_log("the manifests have no Services");
}
