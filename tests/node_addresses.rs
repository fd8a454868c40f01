//! NodePorts on a node whose addresses change, on a real kernel.

use std::time::{Duration, Instant};

use crate::support::daemon::{Backend, backend_programs};
use crate::support::needs;
use crate::support::node::{Node, SHOP};
use crate::support::wait::eventually;

/// Longer than a sync takes on a busy machine, and far shorter than the sync period.
const SOON: Duration = Duration::from_secs(5);

/// The period, in which addresses are read anyway, never comes.
#[test]
fn node_ports_follow_an_address_at_once() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    node.write(
        &SHOP
            .replace("port: 80}", "port: 80, nodePort: 30080}")
            .replace("clusterIP", "type: NodePort, clusterIP"),
    );
    node.netns.address("lo", "192.0.2.1/32");
    let flags = [
        "--nodeport-addresses=192.0.2.0/24",
        "--iptables-sync-period=1h",
    ];
    let daemon = node.start_with(backend_programs(Backend::Nft), &flags);
    node.wait_for_full_restore("-d 192.0.2.1/32");
    for (action, is_there) in [("delete", false), ("add", true)] {
        node.netns
            .ip(&format!("address {action} 192.0.2.1/32 dev lo"));
        let changed = Instant::now();
        eventually(SOON, || match node.rules().contains("-d 192.0.2.1/32") {
            now if now == is_there => Ok(()),
            _ => Err(daemon.log()),
        });
        eprintln!("{action}: followed after {:?}", changed.elapsed());
    }
}
