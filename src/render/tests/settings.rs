//! Options that result from flags, the Node and the addresses of the node.
//!
//! Upstream: `pkg/proxy/util/nodeport_addresses_test.go`, `TestGetNodeIPs`,
//! `TestContainsIPv4Loopback` (v1.37)

use std::net::IpAddr;

use crate::model::Node;
use crate::net::{IpFamily, IpNet, parse_ip};
use crate::render::{LocalMode, NodePortAddressItem, NodePortAddresses, Options, RenderSettings};

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| parse_ip(text).unwrap()).collect()
}

/// The addresses of NodePorts, sorted, or `all`.
fn shown(addresses: NodePortAddresses) -> String {
    let NodePortAddresses::Only(ips) = addresses else {
        return "all".to_owned();
    };
    let ips: Vec<_> = ips.iter().map(ToString::to_string).collect();
    ips.join(" ")
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Items of `--nodeport-addresses`.
fn networks(texts: &[&str]) -> Vec<NodePortAddressItem> {
    let networks = nets(texts).into_iter();
    networks.map(NodePortAddressItem::Network).collect()
}

fn options(family: IpFamily) -> Options {
    Options {
        node_ip: parse_ip("192.168.0.2").unwrap(),
        ..Options::defaults(family)
    }
}

fn default_settings(family: IpFamily) -> RenderSettings {
    RenderSettings {
        fixed: options(family),
        local_mode: LocalMode::ClusterCidr(Vec::new()),
        node_port_addresses: Vec::new(),
        bind_address: None,
    }
}

/// Settings with these items of `--nodeport-addresses`.
fn within(family: IpFamily, items: Vec<NodePortAddressItem>) -> RenderSettings {
    RenderSettings {
        node_port_addresses: items,
        ..default_settings(family)
    }
}

fn node(addresses: &[&str], pod_cidrs: &[&str]) -> Node {
    Node {
        addresses: ips(addresses),
        pod_cidrs: nets(pod_cidrs),
        ..Node::default()
    }
}

const NODE_ADDRESSES: [&str; 6] = [
    "127.0.0.1",
    "192.168.0.2",
    "10.20.0.1",
    "192.168.0.2",
    "::1",
    "fd00:168::2",
];

/// Addresses of NodePorts, and whether localhost is one of them.
#[track_caller]
fn node_ports(family: IpFamily, items: &[&str], expected: &str, on_localhost: bool) {
    let render_settings = within(family, networks(items));
    let options = render_settings.options(None, &ips(&NODE_ADDRESSES));
    assert_eq!(options.has_localhost_node_ports, on_localhost, "{items:?}");
    assert_eq!(shown(options.node_port_addresses), expected, "{items:?}");
}

#[test]
fn node_ports_answer_within_networks_of_the_family() {
    use IpFamily::{V4, V6};
    let [both, loopback] = [
        ["192.168.0.0/24", "10.0.0.0/8"],
        ["127.0.0.1/32", "10.0.0.0/8"],
    ];
    node_ports(V4, &["192.168.0.0/24"], "192.168.0.2", false);
    node_ports(V4, &both, "10.20.0.1 192.168.0.2", false);
    node_ports(V4, &["172.16.0.0/12"], "", false);
    node_ports(V4, &["127.0.0.0/8"], "127.0.0.1", true);
    node_ports(V4, &loopback, "10.20.0.1 127.0.0.1", true);
    node_ports(V4, &["0.0.0.0/0"], "all", true);
    node_ports(V4, &["192.168.0.0/24", "0.0.0.0/0"], "all", true);
    node_ports(V4, &["fd00::/8"], "all", true);
    node_ports(V4, &["fd00::/8", "10.0.0.0/8"], "10.20.0.1", false);
    node_ports(V6, &["fd00::/8"], "fd00:168::2", false);
    node_ports(V6, &["::/0"], "all", false);
    node_ports(V6, &["10.0.0.0/8"], "all", false);
    node_ports(V6, &["::1/128"], "::1", false);
}

#[test]
fn primary_is_the_first_address_of_the_family() {
    let check = |family, node: Option<&Node>, bound: Option<&str>, machine: &[&str], expected| {
        let render_settings = RenderSettings {
            bind_address: bound.map(|ip| ips(&[ip])[0]),
            ..within(family, vec![NodePortAddressItem::Primary])
        };
        let options = render_settings.options(node, &ips(machine));
        assert_eq!(shown(options.node_port_addresses), expected);
    };
    let (v4, v6, all) = (IpFamily::V4, IpFamily::V6, &NODE_ADDRESSES[..]);
    let both = node(&["192.168.0.2", "10.20.0.1", "fd00:168::2"], &[]);
    check(v4, Some(&both), None, all, "192.168.0.2");
    check(v6, Some(&both), None, all, "fd00:168::2");
    check(v4, Some(&both), Some("10.20.0.1"), all, "10.20.0.1");
    check(v6, Some(&both), Some("10.20.0.1"), all, "fd00:168::2");
    check(v4, Some(&both), None, &["10.20.0.1"], "");
    // A family that the Node does not have was not thought of.
    check(v4, Some(&node(&["fd00:168::2"], &[])), None, all, "all");
    // Loopback is never a primary address.
    check(v4, Some(&both), Some("127.0.0.1"), all, "all");
    // A restriction is not lifted because nothing is known yet.
    check(v4, None, None, all, "");
    check(v4, Some(&node(&[], &[])), None, all, "");
}

/// Upstream: cmd/kube-proxy/app/server_test.go, `Test_expandNodePortAddressKeywords` (v1.37)
#[test]
fn keywords_and_networks_are_combined_for_each_family() {
    use NodePortAddressItem::Primary;

    let check = |family, items: &[NodePortAddressItem], node: &Node, expected: &str| {
        let render_settings = within(family, items.to_vec());
        let options = render_settings.options(Some(node), &ips(&NODE_ADDRESSES));
        let found = shown(options.node_port_addresses);
        assert_eq!(found, expected, "{family} {items:?}");
    };
    let of = |texts: &[&str]| [&[Primary], networks(texts).as_slice()].concat();
    let localhost = of(&["127.0.0.0/8", "::1/128"]);
    let v4_network = of(&["10.0.0.0/8"]);
    let everywhere = of(&["0.0.0.0/0", "::/0"]);
    let v4_only = node(&["192.168.0.2"], &[]);
    let no_address = node(&[], &[]);
    let (v4, v6) = (IpFamily::V4, IpFamily::V6);
    check(v4, &localhost, &v4_only, "127.0.0.1 192.168.0.2");
    check(v6, &localhost, &v4_only, "::1");
    check(v4, &v4_network, &v4_only, "10.20.0.1 192.168.0.2");
    // Only IPv4 has an item.
    check(v6, &v4_network, &v4_only, "all");
    check(v6, &of(&[]), &v4_only, "all");
    // `primary` may still get an IPv6 address, so IPv6 is not without an item.
    check(v4, &v4_network, &no_address, "10.20.0.1");
    check(v6, &v4_network, &no_address, "");
    check(v4, &everywhere, &v4_only, "all");
    check(v6, &everywhere, &no_address, "all");
}

#[test]
fn node_addresses_are_needed_unless_all_are_selected() {
    let needs = |items| within(IpFamily::V4, items).needs_node_addresses();
    assert!(!needs(Vec::new()));
    assert!(!needs(networks(&["0.0.0.0/0", "::/0"])));
    // No item is of the family.
    assert!(!needs(networks(&["fd00::/8"])));
    assert!(needs(networks(&["10.0.0.0/8"])));
    assert!(needs(vec![NodePortAddressItem::Primary]));
}

/// `route_localnet` is set only with the rule that drops martian packets.
#[test]
fn node_ports_on_localhost_need_the_martian_packet_rule() {
    let check = |items: Vec<NodePortAddressItem>, expected: bool| {
        let render_settings = within(IpFamily::V4, items);
        assert_eq!(render_settings.needs_route_localnet(), expected);
        let node = node(&["192.168.0.2"], &[]);
        let options = render_settings.options(Some(&node), &ips(&NODE_ADDRESSES));
        let is_guarded = options.has_localhost_node_ports;
        assert_eq!(is_guarded, expected);
    };
    let with_primary = |texts| [vec![NodePortAddressItem::Primary], networks(texts)].concat();
    check(with_primary(&["127.0.0.0/8", "::1/128"]), true);
    check(with_primary(&["192.168.0.0/24"]), false);
    check(with_primary(&["fd00::/8"]), false);
    check(with_primary(&["0.0.0.0/0", "::/0"]), true);
    check(Vec::new(), true);
    check(vec![NodePortAddressItem::Primary], false);
    check(networks(&["192.168.0.0/24"]), false);
    check(networks(&["127.0.0.0/8"]), true);
    check(networks(&["fd00::/8"]), true);
    assert!(!default_settings(IpFamily::V6).needs_route_localnet());
}

#[test]
fn the_nodes_address_is_known_or_localhost() {
    let ip = |family, node: Option<&Node>, bound: Option<&str>| {
        let bind_address = bound.map(|ip| ips(&[ip])[0]);
        let render_settings = RenderSettings {
            bind_address,
            ..default_settings(family)
        };
        assert!(!render_settings.needs_node_addresses());
        render_settings.options(node, &[]).node_ip.to_string()
    };
    let (v4, v6) = (IpFamily::V4, IpFamily::V6);
    let both = node(&["192.168.0.2", "fd00:168::2"], &[]);
    assert_eq!(ip(v4, None, None), "127.0.0.1");
    assert_eq!(ip(v6, None, None), "::1");
    assert_eq!(ip(v4, Some(&both), None), "192.168.0.2");
    assert_eq!(ip(v6, Some(&both), None), "fd00:168::2");
    assert_eq!(ip(v4, Some(&both), Some("10.0.0.9")), "10.0.0.9");
    assert_eq!(ip(v4, Some(&both), Some("0.0.0.0")), "192.168.0.2");
    assert_eq!(ip(v4, Some(&both), Some("fd00::9")), "192.168.0.2");
    let v6_only = node(&["fd00:168::2"], &[]);
    assert_eq!(ip(v4, Some(&v6_only), None), "127.0.0.1");
}
