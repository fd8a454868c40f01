//! Flags and machines to render with.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "support of tests: who includes it uses a part of it, and failing is its job"
)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use deltaproxy::testing::model::ExternalIps;
use deltaproxy::testing::net::{IpFamily, IpNet};
use deltaproxy::testing::render::{Counter, LocalDetector, Masquerade, Options};
use deltaproxy::testing::render::{LocalMode, NodePortAddressItem, RenderSettings};
use deltaproxy::testing::rules::Backend;

use super::{Dice, Use, ip, pod_cidr};

/// The options that upstream's tests assume: both counters.
pub(crate) fn upstream_options(family: IpFamily) -> Options {
    Options {
        local_traffic: LocalDetector::Cidr(pod_cidr(family)),
        counters: Counter::ALL.into(),
        node_ip: ip(family, Use::Node, 1),
        large_cluster_endpoints: usize::MAX,
        ..Options::defaults(family)
    }
}

/// The same for the life of a process that hears of its Node.
pub(crate) fn upstream_settings(family: IpFamily) -> RenderSettings {
    RenderSettings {
        fixed: upstream_options(family),
        local_mode: LocalMode::ClusterCidr(vec![pod_cidr(family)]),
        node_port_addresses: Vec::new(),
        bind_address: None,
    }
}

/// Any flags and any machine.
pub(crate) fn any_settings(dice: &mut Dice, family: IpFamily) -> RenderSettings {
    let fixed = Options {
        backend: dice.pick(&[Backend::Legacy, Backend::Nft]),
        masquerade: Masquerade {
            bit: dice.pick(&[0, 14, 31]),
            is_for_all: dice.pick(&[false, true]),
            is_random_fully: dice.chance(50),
        },
        has_localhost_node_ports: family == IpFamily::V4 && dice.pick(&[true, false]),
        external_ips: dice.pick(&[ExternalIps::Served, ExternalIps::Ignored]),
        drops_invalid_packets: dice.pick(&[true, false]),
        counters: dice.pick(&[Counter::ALL.into(), BTreeSet::new()]),
        ..upstream_options(family)
    };
    let node_network = IpNet::new(ip(family, Use::Node, 0), family.host_prefix_len() - 8).unwrap();
    let node_network = NodePortAddressItem::Network(node_network);
    RenderSettings {
        fixed,
        local_mode: dice.pick(&[
            LocalMode::ClusterCidr(vec![pod_cidr(family)]),
            LocalMode::ClusterCidr(Vec::new()),
            LocalMode::NodeCidr,
            LocalMode::Fixed(LocalDetector::Bridge("cbr0".into())),
            LocalMode::Fixed(LocalDetector::InterfacePrefix("veth".into())),
        ]),
        node_port_addresses: dice.pick(&[
            Vec::new(),
            vec![NodePortAddressItem::Primary],
            vec![node_network],
            vec![node_network, NodePortAddressItem::Primary],
        ]),
        bind_address: None,
    }
}

/// Some addresses of this machine.
pub(crate) fn any_machine(dice: &mut Dice, family: IpFamily) -> Vec<IpAddr> {
    let node = (0..4).filter(|_| dice.chance(60)).collect::<Vec<_>>();
    let node = node.into_iter().map(|n| ip(family, Use::Node, n));
    node.chain([ip(family, Use::External, 200)]).collect()
}
