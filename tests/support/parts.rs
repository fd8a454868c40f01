//! Services, slices and endpoints of any kind, and the addresses they have.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "support of tests: who includes it uses a part of it, and failing is its job"
)]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use deltaproxy::testing::model::{
    Endpoint, NodeHint, Service, ServiceName, ServicePort, Slice, SlicePort, TrafficPolicy,
};
use deltaproxy::testing::net::{IpFamily, IpNet, Port, Protocol, parse_cidr, parse_ip};

use super::Dice;

/// What an address is for: each use has a network of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Use {
    Cluster,
    Pod,
    External,
    Balancer,
    Node,
}

/// Address number `n` of a network.
pub(crate) fn ip(family: IpFamily, of: Use, n: usize) -> IpAddr {
    let (high, low) = (n / 250, n % 250 + 1);
    let text = match (family, of) {
        (IpFamily::V4, Use::Cluster) => format!("172.{}.{}.{low}", 30 + high / 250, high % 250),
        (IpFamily::V4, Use::Pod) => format!("10.{}.{}.{low}", high / 250, high % 250),
        (IpFamily::V4, Use::External) => format!("192.168.99.{low}"),
        (IpFamily::V4, Use::Balancer) => format!("1.2.3.{low}"),
        (IpFamily::V4, Use::Node) => format!("192.168.0.{low}"),
        (IpFamily::V6, Use::Cluster) => format!("fd00:172:30::{high:x}:{low:x}"),
        (IpFamily::V6, Use::Pod) => format!("fd00:10::{high:x}:{low:x}"),
        (IpFamily::V6, Use::External) => format!("fd00:99::{low:x}"),
        (IpFamily::V6, Use::Balancer) => format!("fd00:1::{low:x}"),
        (IpFamily::V6, Use::Node) => format!("fd00:168::{low:x}"),
    };
    parse_ip(&text).unwrap()
}

pub(crate) fn port(number: usize) -> Port {
    Port::new(u16::try_from(number).unwrap()).unwrap()
}

// Few, so that most slices have endpoints for a port of their Service.
const PORT_NAMES: [&str; 2] = ["", "http"];
const PROTOCOLS: [Protocol; 4] = [Protocol::Tcp, Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
const ZONES: [&str; 3] = ["a", "b", "c"];

pub(crate) fn any_service(dice: &mut Dice, family: IpFamily, index: usize) -> Service {
    let mut ports = BTreeMap::new();
    for _ in 0..=dice.below(3) {
        ports.insert((dice.pick(&PORT_NAMES), dice.pick(&PROTOCOLS)), {
            let node_port = dice.some(40, |dice| port(30_000 + dice.below(300)));
            (port(80 + dice.below(5)), node_port)
        });
    }
    let ips = |dice: &mut Dice, of| (0..=dice.below(2)).map(|n| ip(family, of, n * 9)).collect();
    // One address may be both: then the order of its rules decides.
    let of = dice.pick(&[Use::Balancer, Use::Balancer, Use::External]);
    let load_balancer_ips: Box<[IpAddr]> = dice.some(35, |dice| ips(dice, of)).unwrap_or_default();
    Service {
        cluster_ip: ip(family, Use::Cluster, index),
        external_ips: dice
            .some(25, |dice| ips(dice, Use::External))
            .unwrap_or_default(),
        load_balancer_ips,
        source_ranges: (0..dice.below(3))
            .map(|_| any_range(dice, family))
            .collect(),
        internal_policy: dice.pick(&[TrafficPolicy::Cluster, TrafficPolicy::Local]),
        external_policy: dice.pick(&[TrafficPolicy::Cluster, TrafficPolicy::Local]),
        affinity: dice.some(25, |dice| Duration::from_secs(60 + dice.below(2) as u64)),
        health_check_node_port: dice.some(20, |dice| port(32_000 + dice.below(20))),
        ports: ports
            .into_iter()
            .map(|((name, protocol), (port, node_port))| ServicePort {
                name: name.into(),
                protocol,
                port,
                node_port,
            })
            .collect(),
    }
}

fn any_range(dice: &mut Dice, family: IpFamily) -> IpNet {
    let text = match family {
        IpFamily::V4 => dice.pick(&["203.0.113.0/25", "192.168.0.0/24", "10.20.0.0/16"]),
        IpFamily::V6 => dice.pick(&["2001:db8::/48", "fd00:168::/64", "fd00:20::/32"]),
    };
    parse_cidr(text).unwrap()
}

pub(crate) fn any_slice(dice: &mut Dice, family: IpFamily, service: ServiceName) -> Slice {
    let hints = Hints::any(dice);
    let ports = 1 + dice.below(4);
    let endpoints = dice.below(7);
    Slice {
        service,
        ports: (0..ports)
            .map(|_| SlicePort {
                name: dice.pick(&PORT_NAMES).into(),
                protocol: dice.pick(&PROTOCOLS),
                number: port(8080 + dice.below(3)),
            })
            .collect(),
        endpoints: (0..endpoints)
            .map(|_| any_endpoint(dice, family, hints))
            .collect(),
    }
}

/// Which hints the endpoints of a slice have: they count only where all have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hints {
    None,
    Zones,
    Nodes,
    Both,
}

impl Hints {
    pub(crate) fn any(dice: &mut Dice) -> Self {
        dice.pick(&[Self::None, Self::None, Self::Zones, Self::Nodes, Self::Both])
    }
}

pub(crate) fn any_endpoint(dice: &mut Dice, family: IpFamily, hints: Hints) -> Endpoint {
    let is_ready = dice.chance(60);
    let zone_hints: Box<[Arc<str>]> = if matches!(hints, Hints::Zones | Hints::Both) {
        (0..=dice.below(2))
            .map(|_| dice.pick(&ZONES).into())
            .collect()
    } else {
        Box::default()
    };
    Endpoint {
        ip: ip(family, Use::Pod, dice.below(14)),
        is_ready,
        is_serving: dice.chance(if is_ready { 90 } else { 50 }),
        is_terminating: dice.chance(if is_ready { 10 } else { 60 }),
        is_local: dice.chance(35),
        node_hint: if matches!(hints, Hints::Nodes | Hints::Both) {
            dice.pick(&[NodeHint::Here, NodeHint::Elsewhere])
        } else {
            NodeHint::Absent
        },
        zone_hints,
    }
}

pub(crate) fn pod_cidr(family: IpFamily) -> IpNet {
    parse_cidr(match family {
        IpFamily::V4 => "10.0.0.0/8",
        IpFamily::V6 => "fd00:10::/64",
    })
    .unwrap()
}
