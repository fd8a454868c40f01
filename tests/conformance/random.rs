//! Random histories: a cluster out of dice, and edits of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::service::{AnyService, NAMESPACES, SERVICES_EACH};
use super::slice::{AnySlice, SLICES_EACH};
use super::stage::{Op, Size};
use crate::cluster::Dice;

const SERVICES: usize = NAMESPACES.len() * SERVICES_EACH;
const SLICES: usize = NAMESPACES.len() * SLICES_EACH;

/// Endpoints of a large Service of its own. With the first slice and one of these sizes of the
/// second a cluster has about as many as the 1,000 above which kube-proxy leaves comments out, so
/// that ordinary edits cross the threshold, too.
const CROWD: usize = 520;
const MORE: [usize; 4] = [430, 465, 480, 520];

/// A cluster that changes at random. What it becomes is a function of the seed, and of what the
/// API server refuses.
pub struct History {
    dice: Dice,
    services: BTreeMap<usize, AnyService>,
    slices: BTreeMap<usize, AnySlice>,
    zone: Option<&'static str>,
    size: Size,
    /// How large the crowd's second slice is, if it is there.
    more: Option<usize>,
}

impl History {
    /// An empty cluster. A large one crosses the threshold now and then.
    pub fn new(seed: u64, size: Size) -> Self {
        Self {
            dice: Dice::new(seed),
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
            zone: Some("zone-a"),
            size,
            more: None,
        }
    }

    /// What happens next: mostly one thing, sometimes several that the programs may see together.
    ///
    /// Never several around the threshold: with which comments kube-proxy then writes a chain
    /// depends on how many syncs it makes of them.
    pub fn step(&mut self) -> Vec<Op> {
        if self.size == Size::Large && self.dice.chance(15) {
            return self.toggle_crowd();
        }
        if self.size == Size::Small && self.dice.chance(20) {
            let count = 2 + self.dice.below(6);
            return (0..count).flat_map(|_| self.edit_objects()).collect();
        }
        match self.dice.below(100) {
            0..93 => self.edit_objects(),
            93..95 => self.change_zone(),
            95 | 96 => self.relabel(),
            97 => self.restart(&[Op::RestartUpstream]),
            _ => self.restart(&[Op::RestartOurs]),
        }
    }

    /// One change of Services or slices.
    pub fn edit_objects(&mut self) -> Vec<Op> {
        match self.dice.below(93) {
            0..12 => self.put_service(),
            12..42 => self.edit_service(),
            42..48 => self.delete_service(),
            48..60 => self.put_slice(),
            60..88 => self.edit_slice(),
            _ => self.delete_slice(),
        }
    }

    fn put_service(&mut self) -> Vec<Op> {
        let index = self.dice.below(SERVICES);
        let service = AnyService::throw(index, &mut self.dice);
        self.replace_service(index, &service)
    }

    fn edit_service(&mut self) -> Vec<Op> {
        let Some(index) = any_key(&self.services, &mut self.dice) else {
            return self.put_service();
        };
        let mut service = self.services[&index].clone();
        service.edit(&mut self.dice);
        self.replace_service(index, &service)
    }

    fn replace_service(&mut self, index: usize, service: &AnyService) -> Vec<Op> {
        let object = service.object();
        let mut ops = vec![Op::Apply(object.clone())];
        let old = self.services.insert(index, service.clone());
        if old.is_some_and(|old| old.identity() != service.identity()) {
            ops.insert(0, Op::Delete(object));
        }
        ops
    }

    fn delete_service(&mut self) -> Vec<Op> {
        let Some(index) = any_key(&self.services, &mut self.dice) else {
            return self.put_service();
        };
        let service = self.services.remove(&index);
        service
            .map(|service| Op::Delete(service.object()))
            .into_iter()
            .collect()
    }

    fn put_slice(&mut self) -> Vec<Op> {
        let index = self.dice.below(SLICES);
        let slice = AnySlice::throw(index, &mut self.dice);
        let mut ops = self.drop_slice(index);
        ops.push(Op::Apply(slice.object()));
        self.slices.insert(index, slice);
        ops
    }

    fn edit_slice(&mut self) -> Vec<Op> {
        let Some(index) = any_key(&self.slices, &mut self.dice) else {
            return self.put_slice();
        };
        let slice = self.slices.get_mut(&index).unwrap();
        slice.edit(&mut self.dice);
        vec![Op::Apply(slice.object())]
    }

    fn delete_slice(&mut self) -> Vec<Op> {
        match any_key(&self.slices, &mut self.dice) {
            Some(index) => self.drop_slice(index),
            None => self.put_slice(),
        }
    }

    fn drop_slice(&mut self, index: usize) -> Vec<Op> {
        let old = self.slices.remove(&index);
        old.map(|slice| Op::Delete(slice.object()))
            .into_iter()
            .collect()
    }

    fn change_zone(&mut self) -> Vec<Op> {
        let others = [None, Some("zone-a"), Some("zone-b")];
        let others: Vec<_> = others
            .into_iter()
            .filter(|zone| *zone != self.zone)
            .collect();
        self.zone = self.dice.pick(&others);
        vec![Op::Zone(self.zone)]
    }

    /// kube-proxy goes on using a slice's endpoints for the Service that the slice belonged to
    /// (a deliberate difference); started anew, it agrees.
    fn relabel(&mut self) -> Vec<Op> {
        let Some(index) = any_key(&self.slices, &mut self.dice) else {
            return self.put_slice();
        };
        let slice = self.slices.get_mut(&index).unwrap();
        slice.relabel(&mut self.dice);
        let object = slice.object();
        let mut ops = vec![Op::Apply(object)];
        ops.extend(self.restart(&[Op::RestartUpstream]));
        ops
    }

    /// Around the threshold both: a program that starts writes all chains alike, the other one has
    /// some from before.
    fn restart(&self, who: &[Op]) -> Vec<Op> {
        match self.size {
            Size::Small => who.to_vec(),
            Size::Large => vec![Op::RestartUpstream, Op::RestartOurs],
        }
    }

    /// What makes a cluster nearly large.
    pub fn crowd() -> Vec<Op> {
        vec![Op::Apply(crowd_service()), Op::Apply(crowd_slice(0, CROWD))]
    }

    /// The second slice comes, or goes.
    fn toggle_crowd(&mut self) -> Vec<Op> {
        if self.more.take().is_some() {
            return vec![Op::Delete(crowd_slice(1, 0))];
        }
        let size = self.dice.pick(&MORE);
        self.more = Some(size);
        vec![Op::Apply(crowd_slice(1, size))]
    }
}

/// A Service whose endpoints alone can make the cluster large.
pub fn crowd_service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "crowd", "namespace": NAMESPACES[0]},
        "spec": {"clusterIP": "10.96.8.1", "ports": [{"port": 80}]},
    })
}

/// One of its slices.
pub fn crowd_slice(at: usize, size: usize) -> Value {
    let address = |n: usize| format!("10.5.{}.{}", at * 10 + n / 250, n % 250 + 1);
    let endpoints: Vec<_> = (0..size)
        .map(|n| json!({"addresses": [address(n)]}))
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("crowd-{at}"),
            "namespace": NAMESPACES[0],
            "labels": {"kubernetes.io/service-name": "crowd"},
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"port": 80}],
    })
}

fn any_key<V>(map: &BTreeMap<usize, V>, dice: &mut Dice) -> Option<usize> {
    let at = dice.below(map.len().max(1));
    map.keys().nth(at).copied()
}
