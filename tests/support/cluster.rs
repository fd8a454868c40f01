//! Clusters and edits of them, at the level of the model and out of a seed.
//!
//! Properties, the cost table and the benches use the same clusters. Everything is a function of
//! the seeds: the same numbers give the same cluster and the same edits.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "support of tests: who includes it uses a part of it, and failing is its job"
)]

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use deltaproxy::testing::model::{
    Change, Endpoint, Kind, Node, Service, ServiceName, ServicePort, Slice, SliceName, SlicePort,
    Topology, TrafficPolicy,
};
use deltaproxy::testing::net::{IpFamily, Protocol};
use deltaproxy::testing::tracker::Tracker;

#[path = "dice.rs"]
mod dice;
#[path = "parts.rs"]
mod parts;
#[path = "setting.rs"]
mod setting;

pub(crate) use dice::Dice;
#[allow(unused_imports, reason = "who includes this uses a part of it")]
pub(crate) use parts::{Hints, Use, any_endpoint, any_service, any_slice, ip};
use parts::{pod_cidr, port};
#[allow(unused_imports, reason = "who includes this uses a part of it")]
pub(crate) use setting::{any_machine, any_settings, upstream_options, upstream_settings};

const NAMESPACES: [&str; 3] = ["ns1", "ns2", "kube-system"];
const SERVICES_EACH: usize = 7;
const SLICES_EACH: usize = 12;

/// Everything there is in one family.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct World {
    pub(crate) family: IpFamily,
    pub(crate) services: BTreeMap<ServiceName, Service>,
    pub(crate) slices: BTreeMap<SliceName, Slice>,
    pub(crate) node: Node,
}

impl World {
    pub(crate) fn empty(family: IpFamily) -> Self {
        Self {
            family,
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
            node: Node {
                topology: Topology {
                    zone: Some("a".into()),
                },
                addresses: vec![ip(family, Use::Node, 1)],
                pod_cidrs: vec![pod_cidr(family)],
                is_leaving: false,
            },
        }
    }

    /// `services` with one port and a cluster IP, and one slice of `endpoints` for each.
    pub(crate) fn plain(family: IpFamily, services: usize, endpoints: usize) -> Self {
        let mut world = Self::empty(family);
        for n in 0..services {
            world.add_plain(n, endpoints);
        }
        world
    }

    /// The Service number `n` of a plain cluster, whether or not it has it.
    pub(crate) fn plain_name(n: usize) -> (ServiceName, SliceName) {
        let namespace = format!("ns-{}", n / 100);
        let service = format!("svc-{n:06}");
        let slice = format!("{service}-abcde");
        (
            ServiceName::new(&namespace, &service),
            SliceName::new(&namespace, &slice),
        )
    }

    pub(crate) fn add_plain(&mut self, n: usize, endpoints: usize) {
        let (name, slice_name) = Self::plain_name(n);
        let service = Service {
            cluster_ip: ip(self.family, Use::Cluster, n),
            external_ips: Box::default(),
            load_balancer_ips: Box::default(),
            source_ranges: Box::default(),
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            affinity: None,
            health_check_node_port: None,
            ports: Box::new([ServicePort {
                name: "http".into(),
                protocol: Protocol::Tcp,
                port: port(80),
                node_port: None,
            }]),
        };
        let slice = Slice {
            service: name.clone(),
            ports: Box::new([SlicePort {
                name: "http".into(),
                protocol: Protocol::Tcp,
                number: port(8080),
            }]),
            endpoints: (0..endpoints)
                .map(|e| Endpoint::ready(ip(self.family, Use::Pod, n * endpoints + e)))
                .collect(),
        };
        self.services.insert(name, service);
        self.slices.insert(slice_name, slice);
    }

    /// The slice of Service `n` of a plain cluster, losing its first endpoint and getting it back,
    /// again and again.
    pub(crate) fn turns(&self, n: usize) -> impl Iterator<Item = Change> + use<> {
        let (_, name) = Self::plain_name(n);
        let more = self.slices[&name].clone();
        let mut less = more.clone();
        less.endpoints = less.endpoints[1..].into();
        let turn = move |slice| Change::Slice(name.clone(), Some(Box::new(slice)), None);
        [less, more].into_iter().cycle().map(turn)
    }

    /// Service `n` of a plain cluster, going and coming back, again and again. Its slice stays.
    pub(crate) fn visits(&self, n: usize) -> impl Iterator<Item = Change> + use<> {
        let (name, _) = Self::plain_name(n);
        let service = self.services[&name].clone();
        let turn =
            move |service: Option<Service>| Change::Service(name.clone(), service.map(Box::new));
        [None, Some(service)].into_iter().cycle().map(turn)
    }

    /// Everything, as if heard of for the first time.
    pub(crate) fn listing(&self) -> Vec<Change> {
        let mut changes = Self {
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
            ..self.clone()
        }
        .changes_to(self);
        changes.push(Change::Node(Some(Box::new(self.node.clone()))));
        changes
    }

    /// A tracker that knows everything and has nothing marked as applied.
    pub(crate) fn tracker(&self) -> Tracker {
        tracker(self.listing())
    }

    /// What happened if this became `after`, one change for each object that differs.
    pub(crate) fn changes_to(&self, after: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        for name in keys(&self.services, &after.services) {
            let service = after.services.get(name);
            if self.services.get(name) != service {
                changes.push(Change::Service(
                    name.clone(),
                    service.cloned().map(Box::new),
                ));
            }
        }
        for name in keys(&self.slices, &after.slices) {
            let slice = after.slices.get(name);
            if self.slices.get(name) != slice {
                let slice = slice.cloned().map(Box::new);
                changes.push(Change::Slice(name.clone(), slice, Some(trigger())));
            }
        }
        if self.node != after.node {
            changes.push(Change::Node(Some(Box::new(after.node.clone()))));
        }
        changes
    }

    /// Changes something, and says so as the API server would.
    pub(crate) fn edit(&mut self, dice: &mut Dice) -> Vec<Change> {
        let before = self.clone();
        match dice.below(100) {
            0..15 => self.put_service(dice),
            15..33 => self.change_service(dice),
            33..40 => drop(remove(&mut self.services, dice)),
            40..56 => self.put_slice(dice),
            56..80 => self.change_slice(dice),
            80..86 => drop(remove(&mut self.slices, dice)),
            86..90 => self.relabel(dice),
            90..92 => {
                self.node.topology.zone = dice.pick(&[None, Some("a".into()), Some("b".into())]);
            }
            92 => self.node.addresses = vec![ip(self.family, Use::Node, dice.below(3))],
            93..96 => return self.say_again(dice),
            _ => return self.relist(dice),
        }
        let mut changes = before.changes_to(self);
        dice.shuffle(&mut changes);
        changes
    }

    fn put_service(&mut self, dice: &mut Dice) {
        let index = dice.below(NAMESPACES.len() * SERVICES_EACH);
        let service = any_service(dice, self.family, index);
        self.services.insert(service_name(index), service);
    }

    fn change_service(&mut self, dice: &mut Dice) {
        let family = self.family;
        let Some(name) = any_key(&self.services, dice) else {
            return self.put_service(dice);
        };
        let index = 500 + dice.below(500);
        let other = any_service(dice, family, index);
        let service = self.services.get_mut(&name).unwrap();
        match dice.below(9) {
            0 => service.cluster_ip = other.cluster_ip,
            1 => service.external_ips = other.external_ips,
            2 => service.load_balancer_ips = other.load_balancer_ips,
            3 => service.source_ranges = other.source_ranges,
            4 => service.internal_policy = other.internal_policy,
            5 => service.external_policy = other.external_policy,
            6 => service.affinity = other.affinity,
            7 => service.health_check_node_port = other.health_check_node_port,
            _ => service.ports = other.ports,
        }
    }

    fn put_slice(&mut self, dice: &mut Dice) {
        let namespace = dice.below(NAMESPACES.len());
        let name = format!("slice-{}", dice.below(SLICES_EACH));
        let service = service_name(namespace * SERVICES_EACH + dice.below(SERVICES_EACH));
        let slice = any_slice(dice, self.family, service);
        self.slices
            .insert(SliceName::new(NAMESPACES[namespace], &name), slice);
    }

    fn change_slice(&mut self, dice: &mut Dice) {
        let family = self.family;
        let Some(name) = any_key(&self.slices, dice) else {
            return self.put_slice(dice);
        };
        let slice = self.slices.get_mut(&name).unwrap();
        let mut endpoints = slice.endpoints.to_vec();
        let at = dice.below(endpoints.len().max(1));
        match dice.below(8) {
            0 => slice.ports = any_slice(dice, family, slice.service.clone()).ports,
            1..=3 => endpoints.insert(at, any_endpoint(dice, family, Hints::None)),
            4 => endpoints.reverse(),
            5 if !endpoints.is_empty() => drop(endpoints.remove(at)),
            _ if !endpoints.is_empty() => {
                let ip = endpoints[at].ip;
                let hints = Hints::any(dice);
                endpoints[at] = any_endpoint(dice, family, hints);
                endpoints[at].ip = ip;
            }
            _ => {}
        }
        slice.endpoints = endpoints.into();
    }

    /// A slice's label names another Service from now on.
    fn relabel(&mut self, dice: &mut Dice) {
        let Some(name) = any_key(&self.slices, dice) else {
            return;
        };
        let slice = self.slices.get_mut(&name).unwrap();
        slice.service = ServiceName::new(
            slice.service.namespace(),
            &format!("svc{}", dice.below(SERVICES_EACH)),
        );
    }

    /// An object is sent once more without having changed, or the removal of one that is not there.
    fn say_again(&self, dice: &mut Dice) -> Vec<Change> {
        let mut changes = self.listing();
        changes.push(Change::Service(ServiceName::new("ns1", "never"), None));
        changes.push(Change::Slice(SliceName::new("ns1", "never"), None, None));
        vec![dice.pick(&changes)]
    }

    /// The watch broke: everything is listed anew, and some of it has gone unnoticed.
    fn relist(&mut self, dice: &mut Dice) -> Vec<Change> {
        let kind = dice.pick(&Kind::ALL);
        let mut changes = Vec::new();
        for _ in 0..dice.below(4) {
            changes.extend(match kind {
                Kind::Service => {
                    remove(&mut self.services, dice).map(|(name, _)| Change::Service(name, None))
                }
                Kind::EndpointSlice => {
                    remove(&mut self.slices, dice).map(|(name, _)| Change::Slice(name, None, None))
                }
                Kind::Node => None,
            });
        }
        let mut listed = self.listing();
        listed.retain(|change| kind_of(change) == kind);
        dice.shuffle(&mut listed);
        changes.append(&mut listed);
        changes.push(Change::Listed(kind));
        changes
    }
}

/// A tracker that got `changes` between the beginning and the end of all lists.
pub(crate) fn tracker(changes: impl IntoIterator<Item = Change>) -> Tracker {
    let mut tracker = Tracker::new(SystemTime::UNIX_EPOCH);
    for change in changes {
        tracker.apply(change);
    }
    for kind in Kind::ALL {
        tracker.apply(Change::Listed(kind));
    }
    tracker
}

/// When every slice says that the cluster changed.
pub(crate) fn trigger() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1)
}

const fn kind_of(change: &Change) -> Kind {
    match change {
        Change::Service(..) => Kind::Service,
        Change::Slice(..) => Kind::EndpointSlice,
        Change::Node(_) => Kind::Node,
        Change::Listed(kind) => *kind,
    }
}

fn keys<'a, K: Ord, V>(a: &'a BTreeMap<K, V>, b: &'a BTreeMap<K, V>) -> Vec<&'a K> {
    let mut keys: Vec<&K> = a.keys().chain(b.keys()).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn any_key<K: Ord + Clone, V>(map: &BTreeMap<K, V>, dice: &mut Dice) -> Option<K> {
    let at = dice.below(map.len().max(1));
    map.keys().nth(at).cloned()
}

fn remove<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, dice: &mut Dice) -> Option<(K, V)> {
    any_key(map, dice).and_then(|key| map.remove_entry(&key))
}

fn service_name(index: usize) -> ServiceName {
    ServiceName::new(
        NAMESPACES[index / SERVICES_EACH],
        &format!("svc{}", index % SERVICES_EACH),
    )
}
