//! Tests of syncs, checks and reports.

mod after_comparisons;
mod compare;
mod contest_report;
mod contested_chains;
mod decide;
mod event_report;
mod frontends;
mod held_back;
mod node_faults;
mod quarantine_report;
mod repeated_addresses;
pub(crate) mod report;
pub(crate) mod search;
pub(crate) mod syncer;
mod task;
mod tree_chains;

use std::net::IpAddr;

use super::*;
use crate::host::RunError;
use crate::net::{IpFamily, IpNet, parse_ip};
use crate::render::{
    LocalDetector, LocalMode, NodePortAddressItem, NodePortAddresses, Options, RenderSettings,
};

/// The failure of a program that does not exist.
pub(super) fn missing_program() -> RunError {
    RunError::Spawn {
        program: "iptables-save".to_owned(),
        cause: std::io::ErrorKind::NotFound.into(),
    }
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| parse_ip(text).unwrap()).collect()
}

/// Items of `--nodeport-addresses`.
fn networks(texts: &[&str]) -> Vec<NodePortAddressItem> {
    let networks = texts.iter().map(|text| text.parse::<IpNet>().unwrap());
    networks.map(NodePortAddressItem::Network).collect()
}

fn options(family: IpFamily) -> Options {
    Options {
        node_ip: parse_ip("192.168.0.2").unwrap(),
        ..Options::defaults(family)
    }
}
