//! Tests of what a sync decides and depends on.
//!
//! Apart as a folder because they are tables.

mod decide;
mod surroundings;

use std::net::IpAddr;

use super::*;
use crate::net::{IpFamily, IpNet, parse_ip};
use crate::render::{
    Accounting, InvalidPackets, LocalDetector, LocalhostNodePorts, Masquerade, MasqueradePolicy,
    NodePortAddresses, Options,
};
use crate::rules::Backend;

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| parse_ip(text).unwrap()).collect()
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn options(family: IpFamily) -> Options {
    Options {
        family,
        backend: Backend::Legacy,
        masquerade: Masquerade {
            bit: 14,
            policy: MasqueradePolicy::OffCluster,
            is_random_fully: true,
        },
        local_traffic: LocalDetector::Absent,
        node_port_addresses: NodePortAddresses::All,
        localhost_node_ports: match family {
            IpFamily::V4 => LocalhostNodePorts::Allowed,
            IpFamily::V6 => LocalhostNodePorts::Refused,
        },
        invalid_packets: InvalidPackets::Dropped,
        accounting: Accounting::Absent,
        node_ip: parse_ip("192.168.0.2").unwrap(),
        large_cluster_endpoints: 1000,
    }
}
