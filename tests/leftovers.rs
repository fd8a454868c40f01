//! Leftovers of a daemon that was killed while it tested a counter, on a real kernel.

use crate::support;

use support::daemon::{Backend, backend_programs, real_program};
use support::needs;
use support::node::Node;
use support::process::run;
use support::wait::{PATIENCE, ensure, eventually};

const CHAIN: &str = "DELTAPROXY-NFACCT-TEST";

/// With the chain and a rule in it.
fn node_with_leftovers(backend: Backend) -> Node {
    let node = Node::new(backend);
    node.iptables(&["-t", "mangle", "-N", CHAIN]);
    node.iptables(&["-t", "mangle", "-A", CHAIN, "-j", "RETURN"]);
    node
}

fn is_there(node: &Node) -> bool {
    let program = real_program(node.backend, "iptables");
    let listed = run(node
        .netns
        .command(program)
        .args(["-w", "-t", "mangle", "-S"]));
    listed.contains(CHAIN)
}

#[test]
fn the_chain_of_a_counter_test_is_removed_at_the_start() {
    needs!(Kernel);
    for backend in [Backend::Nft, Backend::Legacy] {
        let node = node_with_leftovers(backend);
        let daemon = node.start(backend_programs(backend));
        node.wait_for_rule("--to-destination 10.4.0.12:8080");
        eventually(PATIENCE, || ensure(!is_there(&node), || daemon.log()));
    }
}

#[test]
fn the_chain_of_a_counter_test_is_removed_by_cleanup() {
    needs!(Kernel);
    for backend in [Backend::Nft, Backend::Legacy] {
        let node = node_with_leftovers(backend);
        let mut cleanup = node.netns.command(env!("CARGO_BIN_EXE_deltaproxy"));
        let output = cleanup.arg("cleanup").output().expect("run it");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        assert!(
            text.contains("mangle: removed 0 jumps and 1 chain"),
            "{text}"
        );
        assert!(!is_there(&node), "{text}");
    }
}
