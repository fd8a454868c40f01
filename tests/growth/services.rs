//! Cost of one Service as it grows: in proportion to its ports, slices and endpoints.

use std::env;
use std::net::IpAddr;

use deltaproxy::testing::model::{
    Change, Endpoint, Service, ServiceName, ServicePort, Slice, SliceName, SlicePort,
};
use deltaproxy::testing::net::{IpFamily, Port, Protocol};

use super::callgrind;
use super::cluster::{Use, World, ip};
use super::left_out::is_due;
use super::node::Node;

/// Tells the child what grows.
const CASE: &str = "GROWTH_CASE";
/// Tells the child how large it is.
const SIZE: &str = "GROWTH_SIZE";

/// Something that a single Service can have very many of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    /// Every second external IP goes.
    ExternalIps,
    /// One endpoint changes, of as many ports as slices.
    Ports,
    /// As many slices arrive, as in a list, and each changes.
    Slices,
    /// One endpoint goes, of a Service in a cluster beyond the limit of comments.
    Endpoints,
}

impl Case {
    const ALL: [Self; 4] = [
        Self::ExternalIps,
        Self::Ports,
        Self::Slices,
        Self::Endpoints,
    ];

    fn run(self, size: usize) {
        match self {
            Self::ExternalIps => drop_external_ips(size),
            Self::Ports => change_one_of_many_ports(size),
            Self::Slices => bring_slices(size),
            Self::Endpoints => drop_one_of_many_endpoints(size),
        }
    }
}

fn name() -> ServiceName {
    World::plain_name(0).0
}

fn port(number: usize) -> Port {
    Port::new(number.try_into().unwrap()).unwrap()
}

fn set(service: &Service) -> Change {
    Change::Service(name(), Some(Box::new(service.clone())))
}

/// What callgrind counts, and nothing else.
#[inline(never)]
fn counted(node: &mut Node, changes: Vec<Change>) {
    for change in changes {
        node.syncer.tracker.apply(change);
    }
    assert_eq!(node.sync().attempts.len(), 1);
}

fn drop_external_ips(size: usize) {
    let mut world = World::plain(IpFamily::V4, 1, 1);
    let service = world.services.get_mut(&name()).unwrap();
    let ips = (0..size).map(|n| ip(IpFamily::V4, Use::External, n));
    service.external_ips = ips.collect();
    let mut node = Node::new(&world);
    node.sync();
    let mut service = world.services[&name()].clone();
    let half: Vec<IpAddr> = service.external_ips.iter().copied().step_by(2).collect();
    service.external_ips = half.into();
    counted(&mut node, vec![set(&service)]);
}

/// So many ports, and slices of one port each.
fn many_ports(size: usize) -> World {
    let mut world = World::plain(IpFamily::V4, 1, 0);
    world.slices.clear();
    let named = |n: usize| format!("p{n:05}").as_str().into();
    let service = world.services.get_mut(&name()).unwrap();
    let ports = (0..size).map(|n| ServicePort {
        name: named(n),
        protocol: Protocol::Udp,
        port: port(n + 1),
        node_port: None,
    });
    service.ports = ports.collect();
    for n in 0..size {
        let slice = Slice {
            service: name(),
            ports: Box::new([SlicePort {
                name: named(n),
                protocol: Protocol::Udp,
                number: port(8080),
            }]),
            endpoints: Box::new([Endpoint::ready(ip(IpFamily::V4, Use::Pod, n))]),
        };
        world.slices.insert(slice_name(n), slice);
    }
    world
}

fn slice_name(n: usize) -> SliceName {
    SliceName::new("ns-0", &format!("slice-{n:05}"))
}

fn change_one_of_many_ports(size: usize) {
    let world = many_ports(size);
    let mut node = Node::new(&world);
    node.sync();
    let mut slice = world.slices[&slice_name(0)].clone();
    slice.endpoints = Box::new([Endpoint::ready(ip(IpFamily::V4, Use::Pod, size))]);
    let change = Change::Slice(slice_name(0), Some(Box::new(slice)), None);
    counted(&mut node, vec![change]);
}

fn bring_slices(size: usize) {
    let mut world = many_ports(size);
    let slices = std::mem::take(&mut world.slices);
    let mut node = Node::new(&world);
    node.sync();
    let arriving = slices.clone().into_iter();
    let changing = slices.into_iter().map(|(name, mut slice)| {
        slice.endpoints[0].is_ready = false;
        (name, slice)
    });
    let set = |(name, slice)| Change::Slice(name, Some(Box::new(slice)), None);
    counted(&mut node, arriving.chain(changing).map(set).collect());
}

fn drop_one_of_many_endpoints(size: usize) {
    let world = World::plain(IpFamily::V4, 4, size);
    let mut node = Node::new(&world);
    node.sync();
    let (_, slice_name) = World::plain_name(0);
    let mut slice = world.slices[&slice_name].clone();
    slice.endpoints = slice.endpoints.iter().skip(1).cloned().collect();
    let change = Change::Slice(slice_name, Some(Box::new(slice)), None);
    counted(&mut node, vec![change]);
}

/// The child: not a test of its own.
#[test]
#[ignore = "run by the other one"]
fn count() {
    let case = env::var(CASE).unwrap();
    let case = Case::ALL.into_iter().find(|of| format!("{of:?}") == case);
    case.unwrap().run(env::var(SIZE).unwrap().parse().unwrap());
}

#[test]
fn a_service_costs_in_proportion_to_what_it_has() {
    if !callgrind::is_installed() {
        return;
    }
    for (turn, case) in Case::ALL.into_iter().enumerate() {
        if !is_due(turn as u64, Case::ALL.len() as u64) {
            continue;
        }
        callgrind::grows_in_proportion(&format!("{case:?}"), |size| {
            let variables = [(CASE, format!("{case:?}")), (SIZE, size.to_string())];
            callgrind::instructions("*services::counted*", "services::count", &variables)
        });
    }
}
