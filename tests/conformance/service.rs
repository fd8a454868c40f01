//! Services of any kind, out of dice, as the API server wants to have them.
//!
//! Each aspect is thrown by itself, and an edit throws one anew; what the server would refuse
//! because of another aspect is left out when the object is written. Cluster IPs and node ports are
//! functions of the Service's number: the server's own choice would differ from run to run.

use serde_json::{Map, Value, json};

use crate::cluster::Dice;

/// The namespaces that histories use.
pub const NAMESPACES: [&str; 2] = ["north", "south"];
/// How many Services there may be in each.
pub const SERVICES_EACH: usize = 6;

/// Port names. kube-proxy joins a slice's port to a Service's port by name and protocol.
pub const PORT_NAMES: [&str; 3] = ["http", "dns", "p3"];
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// The usual one for the name of a port; one time in five, another.
pub fn throw_protocol(name: &str, dice: &mut Dice) -> &'static str {
    match name {
        _ if dice.chance(20) => dice.pick(&PROTOCOLS),
        "dns" => "UDP",
        "p3" => "SCTP",
        _ => "TCP",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    ClusterIp,
    NodePort,
    LoadBalancer,
    ExternalName,
    Headless,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct AnyPort {
    name: &'static str,
    protocol: &'static str,
    number: usize,
    /// Which of the Service's ten node ports.
    exposed: usize,
}

/// Everything that histories vary about one Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnyService {
    index: usize,
    type_: Type,
    families: &'static [&'static str],
    ports: Vec<AnyPort>,
    affinity: Option<usize>,
    is_external_local: bool,
    is_internal_local: bool,
    external_ips: Vec<String>,
    ranges: Vec<&'static str>,
    ingress: Vec<Value>,
    labels: Vec<(&'static str, &'static str)>,
    allocates_node_ports: bool,
    health_check_port: usize,
    annotation: usize,
}

impl AnyService {
    /// Service number `index` of all namespaces, with every aspect thrown.
    pub fn throw(index: usize, dice: &mut Dice) -> Self {
        let mut service = Self {
            index,
            type_: Type::ClusterIp,
            families: &["IPv4"],
            ports: Vec::new(),
            affinity: None,
            is_external_local: false,
            is_internal_local: false,
            external_ips: Vec::new(),
            ranges: Vec::new(),
            ingress: Vec::new(),
            labels: Vec::new(),
            allocates_node_ports: true,
            health_check_port: 0,
            annotation: 0,
        };
        for aspect in 0..ASPECTS {
            service.throw_aspect(aspect, dice);
        }
        service
    }

    /// One aspect changed, whichever the dice say.
    pub fn edit(&mut self, dice: &mut Dice) {
        let before = self.clone();
        // Some throws give what was there before.
        while *self == before {
            self.throw_aspect(dice.below(ASPECTS), dice);
        }
    }

    fn throw_aspect(&mut self, aspect: usize, dice: &mut Dice) {
        match aspect {
            0 => self.type_ = throw_type(dice),
            1 => self.families = throw_families(dice),
            2 => self.ports = throw_ports(self.index, dice),
            3 => self.affinity = dice.some(25, |dice| dice.pick(&[10_800, 60, 1, 86_400])),
            4 => self.is_external_local = dice.chance(50),
            5 => self.is_internal_local = dice.chance(25),
            6 => self.external_ips = throw_external_ips(self.index, dice),
            7 => self.ranges = throw_ranges(dice),
            8 => self.ingress = throw_ingress(self.index, dice),
            9 => self.labels = throw_labels(dice),
            10 => self.allocates_node_ports = dice.chance(80),
            11 => self.health_check_port = dice.below(2),
            _ => self.annotation += 1,
        }
    }

    /// As the API server takes it, in namespace and under the name of its number.
    pub fn object(&self) -> Value {
        let (namespace, name) = service_name(self.index);
        let labels: Map<_, _> = self
            .labels
            .iter()
            .map(|(key, value)| ((*key).into(), json!(value)))
            .collect();
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": labels,
                "annotations": {"conformance/edit": self.annotation.to_string()},
            },
            "spec": self.spec(),
        });
        if self.type_ == Type::LoadBalancer {
            object["status"] = json!({"loadBalancer": {"ingress": self.ingress}});
        }
        object
    }

    /// What cannot be changed in place: with another of these, the object is made anew.
    pub fn identity(&self) -> (&'static [&'static str], Option<bool>) {
        let is_headless = self.type_ == Type::Headless;
        let has_no_ip = is_headless || self.type_ == Type::ExternalName;
        (self.families, has_no_ip.then_some(is_headless))
    }

    fn spec(&self) -> Value {
        let mut spec = json!({
            "type": match self.type_ {
                Type::ClusterIp | Type::Headless => "ClusterIP",
                Type::NodePort => "NodePort",
                Type::LoadBalancer => "LoadBalancer",
                Type::ExternalName => "ExternalName",
            },
            "ports": self.ports.iter().map(|port| self.port(port)).collect::<Vec<_>>(),
            "externalIPs": self.external_ips,
        });
        if self.type_ == Type::ExternalName {
            spec["externalName"] = "elsewhere.example".into();
            return spec;
        }
        if let Some(seconds) = self.affinity {
            spec["sessionAffinity"] = "ClientIP".into();
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": seconds}});
        }
        if self.is_internal_local {
            spec["internalTrafficPolicy"] = "Local".into();
        }
        self.add_addresses(&mut spec);
        self.add_external(&mut spec);
        spec
    }

    fn add_addresses(&self, spec: &mut Value) {
        spec["ipFamilies"] = json!(self.families);
        let is_dual = self.families.len() == 2;
        spec["ipFamilyPolicy"] = if is_dual {
            "RequireDualStack"
        } else {
            "SingleStack"
        }
        .into();
        let address = |family: &&str| match *family {
            _ if self.type_ == Type::Headless => "None".to_owned(),
            "IPv4" => format!("10.96.7.{}", self.index + 1),
            _ => format!("fd00:10:96::7{:02x}", self.index + 1),
        };
        let mut addresses: Vec<String> = self.families.iter().map(address).collect();
        addresses.dedup();
        spec["clusterIP"] = addresses[0].as_str().into();
        spec["clusterIPs"] = json!(addresses);
    }

    fn add_external(&self, spec: &mut Value) {
        let is_balanced = self.type_ == Type::LoadBalancer;
        let is_external =
            is_balanced || self.type_ == Type::NodePort || !self.external_ips.is_empty();
        if is_external && self.type_ != Type::Headless && self.is_external_local {
            spec["externalTrafficPolicy"] = "Local".into();
            if is_balanced {
                spec["healthCheckNodePort"] =
                    (32_000 + self.index * 2 + self.health_check_port).into();
            }
        }
        if is_balanced {
            spec["loadBalancerSourceRanges"] = json!(self.ranges);
            spec["allocateLoadBalancerNodePorts"] = self.allocates_node_ports.into();
        }
    }

    fn port(&self, port: &AnyPort) -> Value {
        let mut object = json!({
            "name": port.name,
            "protocol": port.protocol,
            "port": port.number,
        });
        let has_node_port = match self.type_ {
            Type::NodePort => true,
            Type::LoadBalancer => self.allocates_node_ports,
            _ => false,
        };
        if has_node_port {
            object["nodePort"] = (30_000 + self.index * 10 + port.exposed).into();
        }
        object
    }
}

/// How many there are in [`AnyService::throw_aspect`].
const ASPECTS: usize = 13;

/// Namespace and name of Service number `index`.
pub fn service_name(index: usize) -> (&'static str, String) {
    (
        NAMESPACES[index / SERVICES_EACH],
        format!("svc-{}", index % SERVICES_EACH),
    )
}

fn throw_type(dice: &mut Dice) -> Type {
    match dice.below(100) {
        0..30 => Type::ClusterIp,
        30..55 => Type::NodePort,
        55..92 => Type::LoadBalancer,
        92..96 => Type::ExternalName,
        _ => Type::Headless,
    }
}

fn throw_families(dice: &mut Dice) -> &'static [&'static str] {
    dice.pick(&[
        &["IPv4"][..],
        &["IPv6"],
        &["IPv4", "IPv6"],
        &["IPv4", "IPv6"],
        &["IPv6", "IPv4"],
    ])
}

/// One to three, each name once; a number may be shared by protocols. A lone port may do without a
/// name.
fn throw_ports(index: usize, dice: &mut Dice) -> Vec<AnyPort> {
    let count = 1 + dice.below(3);
    if count == 1 && dice.chance(40) {
        let protocol = throw_protocol("", dice);
        return vec![AnyPort {
            name: "",
            protocol,
            number: 80 + index % 3,
            exposed: 9,
        }];
    }
    let mut ports: Vec<AnyPort> = Vec::new();
    let is_shared = dice.chance(40);
    for (at, name) in PORT_NAMES.into_iter().enumerate().take(count) {
        let protocol = throw_protocol(name, dice);
        let number = if is_shared {
            53
        } else {
            80 + at + dice.below(2) * 100
        };
        let exposed = if is_shared {
            0
        } else {
            1 + at + dice.below(2) * 3
        };
        let port = AnyPort {
            name,
            protocol,
            number,
            exposed,
        };
        // The server wants number and protocol together to be unique, node ports too.
        if !ports
            .iter()
            .any(|other| (other.number, other.protocol) == (number, protocol))
        {
            ports.push(port);
        }
    }
    ports
}

/// No two Services share one: which of them got the traffic would be undefined.
fn throw_external_ips(index: usize, dice: &mut Dice) -> Vec<String> {
    let pool = [
        format!("198.51.100.{}", index + 1),
        format!("2001:db8:51::{:x}", index + 1),
        format!("198.51.101.{}", index + 1),
    ];
    let mut ips: Vec<String> = (0..dice.below(4))
        .map(|at| pool[at].clone())
        .filter(|_| dice.chance(60))
        .collect();
    dice.shuffle(&mut ips);
    repeat_one(ips, dice)
}

/// One element once more, now and then.
fn repeat_one<T: Clone>(mut list: Vec<T>, dice: &mut Dice) -> Vec<T> {
    if !list.is_empty() && dice.chance(15) {
        list.push(list[0].clone());
    }
    list
}

fn throw_ranges(dice: &mut Dice) -> Vec<&'static str> {
    const RANGES: [&str; 7] = [
        "203.0.113.0/24",
        "192.0.2.0/24",
        "fd00:192::/64",
        "2001:db8:1::/48",
        "10.0.0.0/8",
        "0.0.0.0/0",
        "192.0.2.10/32",
    ];
    (0..dice.below(4)).map(|_| dice.pick(&RANGES)).collect()
}

/// With every ipMode, and hosts that have no address. The second address may be an external IP,
/// too.
fn throw_ingress(index: usize, dice: &mut Dice) -> Vec<Value> {
    let addresses = [
        format!("203.0.113.{}", index + 1),
        format!("198.51.100.{}", index + 1),
        format!("2001:db8:113::{:x}", index + 1),
    ];
    let mut ingress = Vec::new();
    for address in addresses {
        match dice.below(6) {
            0..2 => ingress.push(json!({"ip": address})),
            2 => ingress.push(json!({"ip": address, "ipMode": "VIP"})),
            3 => ingress.push(json!({"ip": address, "ipMode": "Proxy"})),
            4 => ingress.push(json!({"hostname": "lb.example"})),
            _ => {}
        }
    }
    repeat_one(ingress, dice)
}

fn throw_labels(dice: &mut Dice) -> Vec<(&'static str, &'static str)> {
    match dice.below(12) {
        0 => vec![("service.kubernetes.io/service-proxy-name", "another")],
        // Says something about slices only.
        1 => vec![("service.kubernetes.io/headless", "")],
        _ => Vec::new(),
    }
}
