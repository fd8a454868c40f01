//! Tests of `tree_chain`.

use super::*;
use crate::net::Port;

fn address(text: &str) -> Prefix {
    Prefix::of(DispatchDestination::ClusterIp(text.parse().unwrap()))
}

fn node_port(protocol: Protocol, number: u16) -> Prefix {
    let port = Port::new(number).unwrap();
    Prefix::of(DispatchDestination::Port(protocol, port))
}

#[test]
fn prefixes_match_their_destinations_and_name_their_chains() {
    let one = address("10.96.0.1");
    assert_eq!(one.to_string(), " -d 10.96.0.1/32");
    let common = one.common(address("10.97.255.255"));
    assert_eq!(common.to_string(), " -d 10.96.0.0/12");
    let name = common.chain_name(DispatchChain::NatServices);
    assert_eq!(&*name, "KUBE-SVC-10.96.0.0/12");
    assert_eq!(common.child_len(), 16);
    let halves = common.halves().map(|half| half.to_string());
    assert_eq!(halves, [" -d 10.96.0.0/13", " -d 10.104.0.0/13"]);
    assert_eq!(common.last(), address("10.111.255.255"));
    assert_eq!(common.first(), address("10.96.0.0"));

    let ports = node_port(Protocol::Udp, 30_000).common(node_port(Protocol::Udp, 32_767));
    assert_eq!(ports.to_string(), " -m udp -p udp --dport 28672:32767");
    let name = ports.chain_name(DispatchChain::NatNodePorts);
    assert_eq!(&*name, "KUBE-SVC-udp/28672-32767");
    let external = DispatchDestination::ExternalIp([192, 0, 2, 1].into());
    let name = Prefix::of(external).chain_name(DispatchChain::NatServices);
    assert_eq!(&*name, "KUBE-EXT-192.0.2.1/32");

    let one = node_port(Protocol::Sctp, 65_535);
    assert_eq!(one.to_string(), " -m sctp -p sctp --dport 65535");
    assert_eq!(
        one.shortened(one.root().child_len()).to_string(),
        " -p sctp"
    );
}

#[test]
fn chain_names_fit_the_kernel_and_differ_from_those_of_services() {
    let longest = ["255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"];
    let longest: [IpAddr; 2] = longest.map(|ip| ip.parse().unwrap());
    let addresses = longest.map(DispatchDestination::ClusterIp);
    let external = longest.map(DispatchDestination::ExternalIp);
    let destinations = addresses.into_iter().chain(external);
    let mut prefixes: Vec<Prefix> = destinations.map(Prefix::of).collect();
    prefixes.push(node_port(Protocol::Sctp, 65_535));
    for dispatch in DispatchChain::ALL {
        let of_family = |space: Space| match space {
            Space::ClusterIps(_) => Space::ClusterIps(IpFamily::V4),
            Space::ExternalIps(_) => Space::ExternalIps(IpFamily::V4),
            Space::Ports => Space::Ports,
        };
        let its_prefixes = prefixes.iter();
        let its_prefixes =
            its_prefixes.filter(|one| spaces(dispatch).contains(&of_family(one.space)));
        for prefix in its_prefixes {
            let name = prefix.chain_name(dispatch);
            assert!(name.len() <= 28, "{name}");
            assert_eq!(tree_of(dispatch.table(), &name), Some(dispatch), "{name}");
            assert_eq!(crate::ruleset::ServiceChain::parse(&name), None, "{name}");
        }
    }
    for other in ["KUBE-SVC-XPGD46QRK7WJZT7O", "KUBE-SERVICES", "DOCKER/1"] {
        assert_eq!(tree_of(Table::Nat, other), None, "{other}");
    }
    assert_eq!(tree_of(Table::Mangle, "KUBE-SVC-10.0.0.0/8"), None);
    assert_eq!(tree_of(Table::Nat, "KUBE-FW-10.0.0.0/8"), None);
}
