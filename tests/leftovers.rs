//! Leftovers of a daemon that was killed while it tested a counter, on a real kernel.

use crate::support::daemon::{Backend, backend_programs, real_program};
use crate::support::node::Node;
use crate::support::on_both_backends;
use crate::support::process::run;
use crate::support::program::run_in;
use crate::support::wait::{PATIENCE, ensure, eventually};

const CHAIN: &str = "DELTAPROXY-NFACCT-TEST";

/// Leaves the chain and a rule in it.
fn leave(node: &Node) {
    node.iptables(&["-t", "mangle", "-N", CHAIN]);
    node.iptables(&["-t", "mangle", "-A", CHAIN, "-j", "RETURN"]);
}

fn is_there(node: &Node) -> bool {
    let program = real_program(node.backend, "iptables");
    let listed = run(node
        .netns
        .command(program)
        .args(["-w", "-t", "mangle", "-S"]));
    listed.contains(CHAIN)
}

fn the_chain_of_a_counter_test_is_removed(backend: Backend) {
    let node = Node::new(backend);
    leave(&node);
    let text = run_in(&node.netns, &["cleanup"]).success();
    assert!(
        text.contains("mangle: removed 0 jumps and 1 chain"),
        "{text}"
    );
    assert!(!is_there(&node), "{text}");

    leave(&node);
    let daemon = node.start(backend_programs(backend));
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    eventually(PATIENCE, || ensure(!is_there(&node), || daemon.log()));
}

on_both_backends!(Kernel, the_chain_of_a_counter_test_is_removed);
