//! EndpointSlices of any kind, out of dice.
//!
//! kube-proxy visits the slices of a Service in the order of a Go map. If two of them hold the same
//! address in different conditions, which one counts is undefined when neither or both are
//! terminating. So each slice has addresses of its own, and those that several share are always
//! in the same condition, or terminating in a second one: what then counts is defined, and
//! compared.

use serde_json::{Value, json};

use super::service::{NAMESPACES, PORT_NAMES, SERVICES_EACH, service_name, throw_protocol};
use super::support::objects::NODE;
use crate::cluster::Dice;

/// How many slices there may be in each namespace.
pub const SLICES_EACH: usize = 9;

const SHARED_ADDRESSES: usize = 4;

/// The network of addresses that several slices share.
const SHARED_NETWORK: usize = 100;

/// Which hints the endpoints of a slice have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hints {
    Absent,
    Zones,
    Nodes,
    Both,
    OnSome,
}

/// Everything that histories vary about one slice.
#[derive(Debug, Clone, PartialEq)]
pub struct AnySlice {
    index: usize,
    /// The Service of the same namespace that it belongs to. It need not exist.
    service: usize,
    is_v4: bool,
    hints: Hints,
    endpoints: Vec<Value>,
    ports: Vec<Value>,
    labels: Vec<(&'static str, &'static str)>,
}

impl AnySlice {
    /// Slice number `index` of all namespaces, with every aspect thrown.
    pub fn throw(index: usize, dice: &mut Dice) -> Self {
        let hints = throw_hints(dice);
        let is_v4 = dice.chance(60);
        let mut slice = Self {
            index,
            service: dice.below(SERVICES_EACH),
            is_v4,
            hints,
            endpoints: Vec::new(),
            ports: throw_ports(dice),
            labels: throw_labels(dice),
        };
        slice.throw_endpoints(dice);
        slice
    }

    /// One aspect changed, but for the Service and the family.
    pub fn edit(&mut self, dice: &mut Dice) {
        let before = self.clone();
        while *self == before {
            match dice.below(10) {
                0 => self.ports = throw_ports(dice),
                1 => self.labels = throw_labels(dice),
                2 => {
                    self.hints = throw_hints(dice);
                    self.throw_endpoints(dice);
                }
                3 => self.throw_endpoints(dice),
                4 => self.endpoints.reverse(),
                5 if !self.endpoints.is_empty() => {
                    let at = dice.below(self.endpoints.len());
                    self.endpoints.remove(at);
                }
                6..8 => self.add_endpoint(dice),
                _ => self.change_conditions(dice),
            }
        }
    }

    /// Its label names another Service from now on.
    pub fn relabel(&mut self, dice: &mut Dice) {
        self.service = (self.service + 1 + dice.below(SERVICES_EACH - 1)) % SERVICES_EACH;
    }

    /// As the API server takes it.
    pub fn object(&self) -> Value {
        let namespace = self.index / SLICES_EACH;
        let (_, service) = service_name(self.service);
        let mut labels = json!({"kubernetes.io/service-name": service});
        for (key, value) in &self.labels {
            labels[*key] = json!(value);
        }
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": format!("slice-{}", self.index % SLICES_EACH),
                "namespace": NAMESPACES[namespace],
                "labels": labels,
            },
            "addressType": if self.is_v4 { "IPv4" } else { "IPv6" },
            "endpoints": self.endpoints,
            "ports": self.ports,
        })
    }

    fn throw_endpoints(&mut self, dice: &mut Dice) {
        self.endpoints.clear();
        for _ in 0..dice.below(6) {
            self.add_endpoint(dice);
        }
    }

    fn add_endpoint(&mut self, dice: &mut Dice) {
        if dice.chance(12) {
            let endpoint = self.shared_endpoint(dice.below(SHARED_ADDRESSES), dice.chance(30));
            self.endpoints.push(endpoint);
            return;
        }
        let number = dice.below(40);
        let address = self.address(self.index + 1, number);
        if self
            .endpoints
            .iter()
            .any(|endpoint| endpoint["addresses"][0] == address)
        {
            // Within a slice the order of duplicates is defined, but the server refuses them in
            // some releases.
            return;
        }
        let mut addresses = vec![address];
        if dice.chance(10) {
            // Only the first counts.
            addresses.push(self.address(200, number));
        }
        let mut endpoint = json!({"addresses": addresses, "conditions": throw_conditions(dice)});
        if let Some(node) = dice.pick(&[Some(NODE), Some(NODE), Some("node2"), Some("node3"), None])
        {
            endpoint["nodeName"] = node.into();
        }
        if let Some(hints) = throw_endpoint_hints(self.hints, dice) {
            endpoint["hints"] = hints;
        }
        let at = dice.below(self.endpoints.len() + 1);
        self.endpoints.insert(at, endpoint);
    }

    fn shared_endpoint(&self, number: usize, is_terminating: bool) -> Value {
        json!({
            "addresses": [self.address(SHARED_NETWORK, number)],
            "conditions": {"ready": !is_terminating, "serving": true, "terminating": is_terminating},
            "nodeName": if number.is_multiple_of(2) { NODE } else { "node2" },
        })
    }

    fn change_conditions(&mut self, dice: &mut Dice) {
        let own = format!(".{}.", self.index + 1);
        let own_v6 = format!(":{:x}:", self.index + 1);
        for endpoint in &mut self.endpoints {
            let address = endpoint["addresses"][0].as_str().unwrap();
            let is_own = address.contains(&own) || address.contains(&own_v6);
            if is_own && dice.chance(50) {
                endpoint["conditions"] = throw_conditions(dice);
            }
        }
    }

    fn address(&self, network: usize, number: usize) -> String {
        if self.is_v4 {
            format!("10.4.{network}.{}", number + 1)
        } else {
            format!("fd00:10:4::{network:x}:{:x}", number + 1)
        }
    }
}

/// Reports whether an address is one of those that several slices share.
pub fn is_shared(address: &str) -> bool {
    address.starts_with(&format!("10.4.{SHARED_NETWORK}."))
        || address.starts_with(&format!("fd00:10:4::{SHARED_NETWORK:x}:"))
}

fn throw_hints(dice: &mut Dice) -> Hints {
    match dice.below(10) {
        0..5 => Hints::Absent,
        5 | 6 => Hints::Zones,
        7 => Hints::Nodes,
        8 => Hints::Both,
        _ => Hints::OnSome,
    }
}

fn throw_endpoint_hints(hints: Hints, dice: &mut Dice) -> Option<Value> {
    let zones = |dice: &mut Dice| {
        let zones = [
            &["zone-a"][..],
            &["zone-b"],
            &["zone-a", "zone-b"],
            &["zone-c"],
        ];
        let names = dice.pick(&zones);
        names
            .iter()
            .map(|name| json!({"name": name}))
            .collect::<Vec<_>>()
    };
    let nodes = |dice: &mut Dice| {
        let names = dice.pick(&[&[NODE][..], &["node2"], &[NODE, "node2"]]);
        names
            .iter()
            .map(|name| json!({"name": name}))
            .collect::<Vec<_>>()
    };
    match hints {
        Hints::Absent => None,
        Hints::Zones => Some(json!({"forZones": zones(dice)})),
        Hints::Nodes => Some(json!({"forNodes": nodes(dice)})),
        Hints::Both => Some(json!({"forZones": zones(dice), "forNodes": nodes(dice)})),
        Hints::OnSome => dice.some(70, |dice| json!({"forZones": zones(dice)})),
    }
}

/// Every triple, each member also absent; most endpoints are fine.
fn throw_conditions(dice: &mut Dice) -> Value {
    if dice.chance(45) {
        return json!({"ready": true, "serving": true, "terminating": false});
    }
    if dice.chance(25) {
        return json!({"ready": false, "serving": true, "terminating": true});
    }
    let mut any = || dice.pick(&[json!(true), json!(false), Value::Null]);
    json!({"ready": any(), "serving": any(), "terminating": any()})
}

/// One without a name, for Services whose port has none, or those of some names.
fn throw_ports(dice: &mut Dice) -> Vec<Value> {
    if dice.chance(25) {
        return vec![json!({"protocol": throw_protocol("", dice), "port": 8080})];
    }
    let mut ports = Vec::new();
    for name in PORT_NAMES {
        if dice.chance(85) {
            let number = dice.pick(&[8080, 8080, 5353]);
            let protocol = throw_protocol(name, dice);
            ports.push(json!({"name": name, "protocol": protocol, "port": number}));
        }
    }
    ports
}

fn throw_labels(dice: &mut Dice) -> Vec<(&'static str, &'static str)> {
    match dice.below(14) {
        0 => vec![("service.kubernetes.io/headless", "")],
        // Means something on Services only.
        1 => vec![("service.kubernetes.io/service-proxy-name", "another")],
        _ => Vec::new(),
    }
}
