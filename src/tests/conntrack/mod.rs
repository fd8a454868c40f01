//! Tests of which flows are stale, as tables.

mod merging;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;
use crate::model::{
    Endpoint, ExternalIps, Service, ServiceName, ServicePort, ServiceState, Slice, SliceName,
};
use crate::net::{IpFamily, Protocol, parse_ip};
use crate::render::Options;

/// This machine's address, on which NodePorts answer.
const NODE: &str = "192.168.0.2";

/// A Service port with its addresses and its endpoints.
#[derive(Clone)]
struct Shop {
    /// The first is the cluster IP, the second a load balancer's, all others external ones.
    ips: &'static [&'static str],
    protocol: Protocol,
    port: u16,
    node_port: Option<u16>,
    /// `-` in front: does not serve; `~`: is ready all the same; `+`: serves, but is on its way
    /// out.
    endpoints: &'static [&'static str],
    target: u16,
}

/// As most tests have it.
const SHOP: Shop = Shop {
    ips: &["10.96.0.10"],
    protocol: Protocol::Udp,
    port: 53,
    node_port: None,
    endpoints: &["10.4.0.1", "10.4.0.2"],
    target: 5353,
};

/// `SHOP` with these endpoints.
fn with(endpoints: &'static [&'static str]) -> Shop {
    Shop { endpoints, ..SHOP }
}

/// `SHOP` with these addresses.
fn at(ips: &'static [&'static str]) -> Shop {
    Shop { ips, ..SHOP }
}

/// Every Service there is.
type World = BTreeMap<ServiceName, ServiceState>;

fn name(name: &str) -> ServiceName {
    ServiceName::new("ns", name)
}

/// Of two that ask for the same destination, the first by name has it.
fn world(shops: &[(&str, Shop)]) -> World {
    let states = shops.iter().map(|(of, shop)| (name(of), shop.state()));
    let mut states: World = states.collect();
    let mut taken = BTreeSet::new();
    for state in states.values_mut() {
        let service = state.service.as_ref().unwrap();
        for (of, _) in service.frontends(ExternalIps::Served) {
            if !taken.insert(of.frontend) {
                state.lost.insert(of);
            }
        }
    }
    states
}

fn options() -> Options {
    Options::defaults(IpFamily::V4)
}

/// What is left behind when one Service goes from the first to the second; `None`: there is none.
fn change(before: Option<Shop>, now: Option<Shop>) -> StaleCandidates {
    let named = |shop: Option<Shop>| world(shop.map(|shop| ("shop", shop)).as_slice());
    let (before, now) = (named(before), named(now));
    stale_candidates(&changes(&before, &now), &now, &options())
}

/// Every Service of either, with its state in the first.
fn changes(before: &World, now: &World) -> Vec<(ServiceName, ServiceState)> {
    let names: BTreeSet<_> = before.keys().chain(now.keys()).collect();
    let state = |name| before.get(name).cloned().unwrap_or_default();
    let changes = names.into_iter().map(|name| (name.clone(), state(name)));
    changes.collect()
}

impl StaleCandidates {
    /// `DESTINATION ANSWERER`, each with its port, and whether this flow `goes` or `stays`.
    #[track_caller]
    fn check(&self, flows: &[&str]) {
        for text in flows {
            let words: Vec<_> = text.split(' ').collect();
            let flow = Flow {
                destination: words[0].parse().unwrap(),
                reply_source: words[1].parse().unwrap(),
            };
            let is_stale = self.is_stale(&flow, |ip| ip == parse_ip(NODE).unwrap());
            assert_eq!(is_stale, words[2] == "goes", "{text}\n{self:#?}");
        }
    }
}

impl Shop {
    fn state(&self) -> ServiceState {
        let ip = |text: &&str| parse_ip(text).unwrap();
        let port = ServicePort {
            protocol: self.protocol,
            node_port: self.node_port.map(|port| port.try_into().unwrap()),
            ..ServicePort::tcp("p", self.port)
        };
        let service = Service {
            load_balancer_ips: self.ips.iter().skip(1).take(1).map(ip).collect(),
            external_ips: self.ips.iter().skip(2).map(ip).collect(),
            ..Service::plain(ip(&self.ips[0]), Box::new([port]))
        };
        let endpoints = self.endpoints.iter().map(|text| endpoint(text));
        let mut slice = Slice::tcp(name("shop"), ("p", self.target), endpoints);
        slice.ports[0].protocol = self.protocol;
        ServiceState {
            service: Some(Arc::new(service)),
            slices: vec![(SliceName::new("ns", "shop-1"), Arc::new(slice))],
            ..ServiceState::default()
        }
    }
}

fn endpoint(text: &str) -> Endpoint {
    let condition = text.chars().next().unwrap();
    let ip = parse_ip(text.trim_start_matches(['-', '~', '+'])).unwrap();
    Endpoint {
        is_ready: !['-', '+'].contains(&condition),
        is_serving: !['-', '~'].contains(&condition),
        is_terminating: condition == '+',
        ..Endpoint::ready(ip)
    }
}
