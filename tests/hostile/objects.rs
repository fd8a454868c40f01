//! Services, slices and a Node as no API server would have let them in, each with its clean twin:
//! the same without whatever is unusable.
//!
//! An unusable one of their [`pieces`](super::pieces) costs an address itself, a port itself, a
//! name the whole object.

use std::fmt;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::pieces::{self, Piece, is_sound};
use crate::support::hostile::text;

/// An object and its twin; `None`: nothing of it may be seen.
#[derive(Clone)]
pub(crate) struct Twins {
    pub(crate) written: Value,
    pub(crate) meant: Option<Value>,
}

/// In two lines, of which people read hundreds when something fails.
impl fmt::Debug for Twins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meant = self.meant.as_ref().map(Value::to_string);
        write!(f, "{}\n  meant {}", self.written, meant.unwrap_or_default())
    }
}

/// A Service with its slices.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) service: Twins,
    pub(crate) slices: Vec<Twins>,
}

/// The node that the rules are for.
pub(crate) const NODE: &str = "here";

const PORT_NAMES: [&str; 3] = ["", "web", "dns"];

/// All of one Service. `ending` keeps its name apart from those of others.
pub(crate) fn group(ending: &'static str) -> impl Strategy<Value = Group> {
    let names = (pieces::name(""), pieces::name(ending));
    (names, service_fields(), vec(slice_fields(), 0..3)).prop_map(
        move |((namespace, name), spec, slices)| {
            let metadata = json!({"namespace": namespace.written, "name": name.written});
            let is_named = namespace.meant.is_some() && name.meant.is_some();
            let service = Twins {
                written: with_metadata(spec.written, &metadata),
                meant: spec
                    .meant
                    .filter(|_| is_named)
                    .map(|spec| with_metadata(spec, &metadata)),
            };
            let slices = slices.into_iter().enumerate().map(|(number, slice)| {
                let (name, label) = match slice.own_label.clone() {
                    None => (format!("slice-{number}"), name.clone()),
                    Some(label) => (
                        label.clone(),
                        Piece::new(label.clone(), is_sound(&label).then(|| label.into())),
                    ),
                };
                let metadata = |name: Value, label: &Value| {
                    let labels = json!({"kubernetes.io/service-name": label});
                    json!({"namespace": namespace.written, "name": name, "labels": labels})
                };
                let is_named = namespace.meant.is_some() && label.meant.is_some();
                // A name of a slice is seen nowhere, but two of them must not have the same.
                let clean = format!("{name}-{number}{ending}");
                Twins {
                    written: with_metadata(
                        slice.written,
                        &metadata(clean.clone().into(), &label.written),
                    ),
                    meant: slice
                        .meant
                        .filter(|_| is_named)
                        .map(|slice| with_metadata(slice, &metadata(clean.into(), &label.written))),
                }
            });
            Group {
                slices: slices.collect(),
                service,
            }
        },
    )
}

fn with_metadata(mut object: Value, metadata: &Value) -> Value {
    object["metadata"] = metadata.clone();
    object
}

fn written(pieces: &[Piece]) -> Vec<Value> {
    pieces.iter().map(|piece| piece.written.clone()).collect()
}

fn meant(pieces: &[Piece]) -> Vec<Value> {
    pieces
        .iter()
        .filter_map(|piece| piece.meant.clone())
        .collect()
}

fn of(family: &str, ip: &Value) -> bool {
    ip.as_str().unwrap().contains(':') == (family == "IPv6")
}

/// The parts of a Service.
#[derive(Debug, Clone)]
struct ServiceParts {
    ips: Vec<Piece>,
    families: &'static [&'static str],
    ports: Vec<Twins>,
    external: Vec<Piece>,
    balancer: Vec<(Piece, Option<Piece>)>,
    ranges: Vec<Piece>,
    /// Type, external policy, internal policy, affinity.
    words: [Piece; 4],
    health: Piece,
    timeout: Option<i64>,
}

/// The spec and the status of a Service.
fn service_fields() -> impl Strategy<Value = Twins> {
    let families = select(vec![&[][..], &["IPv4"], &["IPv6"], &["IPv6", "IPv4"]]);
    let cluster = (vec(pieces::cluster_ip(), 1..3), families);
    let ingress = (
        pieces::cluster_ip(),
        option::of(pieces::word(&["VIP", "Proxy"])),
    );
    let outside = (
        vec(pieces::address(), 0..4),
        vec(ingress, 0..3),
        vec(pieces::network(), 0..3),
    );
    let words = (
        pieces::word(&["ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "?"]),
        pieces::word(&["Local", "Cluster"]),
        pieces::word(&["Local", "Cluster"]),
        pieces::word(&["ClientIP", "None"]),
    );
    let numbers = (pieces::number(), option::of(any::<i64>()));
    let parts = (cluster, vec(port(), 0..4), outside, words, numbers);
    parts.prop_map(|(cluster, ports, outside, words, numbers)| {
        let parts = ServiceParts {
            ips: cluster.0,
            families: cluster.1,
            ports,
            external: outside.0,
            balancer: outside.1,
            ranges: outside.2,
            words: words.into(),
            health: numbers.0,
            timeout: numbers.1,
        };
        Twins {
            written: parts.written(),
            meant: parts.meant(),
        }
    })
}

impl ServiceParts {
    fn written(&self) -> Value {
        let words = self.words.each_ref().map(|word| word.written.clone());
        let mut spec = spec(words);
        spec["clusterIP"] = self.ips[0].written.clone();
        spec["clusterIPs"] = written(&self.ips).into();
        spec["ipFamilies"] = json!(self.families);
        spec["externalIPs"] = written(&self.external).into();
        spec["loadBalancerSourceRanges"] = written(&self.ranges).into();
        spec["healthCheckNodePort"] = self.health.written.clone();
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": self.timeout}});
        spec["ports"] = self.ports.iter().map(|port| port.written.clone()).collect();
        let ingress = self.balancer.iter().map(|(ip, mode)| {
            let mode = mode.as_ref().map(|mode| &mode.written);
            json!({"ip": ip.written, "ipMode": mode, "hostname": "a\nb"})
        });
        let ingress: Vec<_> = ingress.collect();
        json!({"spec": spec, "status": {"loadBalancer": {"ingress": ingress}}})
    }

    fn meant(&self) -> Option<Value> {
        let (ips, families) = clean_addresses(&self.ips, self.families)?;
        let words = self
            .words
            .each_ref()
            .map(|word| word.meant.clone().unwrap());
        let mut spec = spec(words);
        spec["clusterIP"] = ips[0].clone();
        spec["clusterIPs"] = ips.into();
        spec["ipFamilies"] = json!(families);
        spec["externalIPs"] = meant(&self.external).into();
        if !self.external.is_empty() && spec["externalIPs"][0].is_null() {
            // A Service that has written any, usable or not, has an external policy.
            spec["externalIPs"] = json!([""]);
        }
        spec["loadBalancerSourceRanges"] = meant(&self.ranges).into();
        spec["healthCheckNodePort"] = self.health.meant.clone().unwrap_or(json!(0));
        if let Some(seconds @ 1..=86_400) = self.timeout {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": seconds}});
        }
        spec["ports"] = clean_ports(&self.ports)?.into();
        let ingress = self.balancer.iter().filter_map(|(ip, mode)| {
            let is_direct = mode.as_ref().is_none_or(|mode| mode.written == "VIP");
            let ip = ip
                .meant
                .as_ref()
                .filter(|ip| is_direct && !self.is_closed_to(ip))?;
            Some(json!({"ip": ip}))
        });
        let ingress: Vec<_> = ingress.collect();
        Some(json!({"spec": spec, "status": {"loadBalancer": {"ingress": ingress}}}))
    }

    /// Who is admitted to the address cannot be read.
    fn is_closed_to(&self, ip: &Value) -> bool {
        let is_blank = |range: &Piece| range.written.as_str().unwrap().trim().is_empty();
        let mut bad = self.ranges.iter().filter(|range| range.meant.is_none());
        let is_guarded = meant(&self.ranges)
            .iter()
            .any(|range| of(family_of(ip), range));
        bad.any(|range| !is_blank(range)) && !is_guarded
    }
}

fn spec([of_type, external, internal, affinity]: [Value; 4]) -> Value {
    json!({
        "type": of_type, "externalTrafficPolicy": external, "internalTrafficPolicy": internal,
        "sessionAffinity": affinity,
    })
}

fn family_of(ip: &Value) -> &'static str {
    if of("IPv6", ip) { "IPv6" } else { "IPv4" }
}

/// The cluster IPs that can be used and their families, if there is any.
fn clean_addresses(ips: &[Piece], families: &[&str]) -> Option<(Vec<Value>, Vec<String>)> {
    let first = ips[0].written.as_str().unwrap();
    if first.is_empty() || first == "None" {
        return None;
    }
    let mut clean = (Vec::new(), Vec::new());
    let mut add = |ip: Value, family: &str| {
        clean.0.push(ip);
        clean.1.push(family.to_owned());
    };
    if families.is_empty() {
        let ip = ips[0].meant.clone()?;
        let family = family_of(&ip);
        add(ip, family);
    }
    for (family, ip) in families.iter().zip(ips) {
        if let Some(ip) = ip.meant.clone().filter(|ip| of(family, ip)) {
            add(ip, family);
        }
    }
    (!clean.0.is_empty()).then_some(clean)
}

/// The ports that can be used; `None` if one has a name that costs the whole object.
fn clean_ports(ports: &[Twins]) -> Option<Vec<Value>> {
    let names = ports
        .iter()
        .map(|port| port.written["name"].as_str().unwrap());
    let is_good = names
        .into_iter()
        .all(|name| name.is_empty() || is_sound(name));
    is_good.then(|| ports.iter().filter_map(|port| port.meant.clone()).collect())
}

/// A port of a Service.
fn port() -> impl Strategy<Value = Twins> {
    let name = prop_oneof![
        12 => select(PORT_NAMES.to_vec()).prop_map(Piece::same),
        1 => pieces::name(""),
    ];
    let noise = (text(), text());
    (name, pieces::protocol(), pieces::number(), pieces::number(), noise).prop_map(
        |(name, protocol, number, node_port, (app_protocol, target))| Twins {
            written: json!({
                "name": name.written, "protocol": protocol.written, "port": number.written,
                "nodePort": node_port.written, "appProtocol": app_protocol, "targetPort": target,
            }),
            meant: protocol.meant.zip(number.meant).map(|(protocol, number)| {
                let node_port = node_port.meant.unwrap_or(json!(0));
                json!({"name": name.written, "protocol": protocol, "port": number, "nodePort": node_port})
            }),
        },
    )
}

/// A slice without its names.
#[derive(Debug, Clone)]
struct SliceFields {
    written: Value,
    meant: Option<Value>,
    /// Not its Service's.
    own_label: Option<String>,
}

fn slice_fields() -> impl Strategy<Value = SliceFields> {
    let family = prop_oneof![
        8 => select(vec!["IPv4", "IPv6"]).prop_map(Piece::same),
        1 => select(vec!["FQDN", "", "ipv4", "IPv4\n"]).prop_map(|text| Piece::new(text, None)),
    ];
    let label = option::weighted(0.1, text());
    (
        family,
        vec(slice_port(), 0..4),
        vec(endpoint(), 0..5),
        label,
    )
        .prop_map(|(family, ports, endpoints, own_label)| {
            let all = |twins: &[Twins]| -> Vec<Value> {
                twins.iter().map(|one| one.written.clone()).collect()
            };
            let clean = |twins: Vec<Twins>| -> Vec<Value> {
                twins.into_iter().filter_map(|one| one.meant).collect()
            };
            let written = json!({
                "addressType": family.written, "ports": all(&ports), "endpoints": all(&endpoints),
            });
            let meant = family.meant.map(|family| {
                let mut endpoints = clean(endpoints);
                endpoints.retain(|one| of(family.as_str().unwrap(), &one["addresses"][0]));
                json!({"addressType": family, "ports": clean(ports), "endpoints": endpoints})
            });
            SliceFields {
                written,
                meant,
                own_label,
            }
        })
}

/// A port of a slice: one with a name that no Service can have is of no use.
fn slice_port() -> impl Strategy<Value = Twins> {
    let name = prop_oneof![
        8 => select(PORT_NAMES.to_vec()).prop_map(Piece::same),
        1 => text().prop_map(|text| {
            let is_sound = text.is_empty() || is_sound(&text);
            Piece::new(text.clone(), is_sound.then(|| text.into()))
        }),
        1 => Just(Piece::new(Value::Null, None)),
    ];
    (name, pieces::protocol(), pieces::number()).prop_map(|(name, protocol, number)| Twins {
        written: json!({"name": name.written, "protocol": protocol.written, "port": number.written}),
        meant: match (name.meant, protocol.meant, number.meant) {
            (Some(name), Some(protocol), Some(number)) => {
                Some(json!({"name": name, "protocol": protocol, "port": number}))
            }
            _ => None,
        },
    })
}

fn endpoint() -> impl Strategy<Value = Twins> {
    let condition = || option::of(any::<bool>());
    let node = option::of(pieces::word(&[NODE, "elsewhere"]));
    let zone = option::of(pieces::word(&["zone-a", "zone-b"]));
    let hint = option::of(pieces::word(&[NODE, "elsewhere"]));
    let conditions = (condition(), condition(), condition());
    (
        vec(pieces::address(), 0..3),
        conditions,
        node,
        zone,
        hint,
        text(),
    )
        .prop_map(
            |(ips, (ready, serving, terminating), node, zone, hint, hostname)| {
                let conditions =
                    json!({"ready": ready, "serving": serving, "terminating": terminating});
                let object = |ips: Vec<Value>,
                              node: Option<Value>,
                              zone: Option<Value>,
                              hint: Option<Value>| {
                    let named = |name: Option<Value>| -> Vec<Value> {
                        name.into_iter().map(|name| json!({"name": name})).collect()
                    };
                    json!({
                        "addresses": ips, "conditions": conditions, "nodeName": node,
                        "hints": {"forZones": named(zone), "forNodes": named(hint)},
                    })
                };
                let as_written =
                    |piece: &Option<Piece>| piece.as_ref().map(|piece| piece.written.clone());
                let as_meant = |piece: Option<Piece>| piece.and_then(|piece| piece.meant);
                let mut written = object(
                    written(&ips),
                    as_written(&node),
                    as_written(&zone),
                    as_written(&hint),
                );
                written["hostname"] = hostname.clone().into();
                written["zone"] = hostname.into();
                let first = ips.into_iter().next().and_then(|ip| ip.meant);
                let meant = first
                    .map(|ip| object(vec![ip], as_meant(node), as_meant(zone), as_meant(hint)));
                Twins { written, meant }
            },
        )
}

/// The Node that the rules are for.
pub(crate) fn node() -> impl Strategy<Value = Twins> {
    let zone = option::of(pieces::word(&["zone-a", "zone-b", "zone-c"]));
    let address = (
        select(vec!["InternalIP", "ExternalIP", "Hostname\n"]),
        pieces::cluster_ip(),
    );
    // Of all odd zones, none may be the one that some hint names.
    let zone = zone.prop_map(|zone| {
        let zone = zone?;
        let is_odd = Some(&zone.written) != zone.meant.as_ref();
        let odd = format!("{}@", zone.written.as_str().unwrap());
        Some(if is_odd {
            Piece::new(odd, Some("zone-c".into()))
        } else {
            zone
        })
    });
    (zone, vec(address, 0..3), vec(pieces::network(), 0..3)).prop_map(|(zone, addresses, cidrs)| {
        let node = |zone: Option<Value>, addresses: Vec<Value>, cidrs: Vec<Value>| {
            let labels: Map<String, Value> = zone
                .map(|zone| ("topology.kubernetes.io/zone".to_owned(), zone))
                .into_iter()
                .collect();
            json!({
                "metadata": {"name": NODE, "labels": labels},
                "spec": {"podCIDRs": cidrs},
                "status": {"addresses": addresses},
            })
        };
        let one = |of_type: &str, ip: Value| json!({"type": of_type, "address": ip});
        let clean = addresses
            .iter()
            .filter(|(of_type, _)| !of_type.ends_with('\n'));
        let clean = clean.filter_map(|(of_type, ip)| Some(one(of_type, ip.meant.clone()?)));
        let all = addresses
            .iter()
            .map(|(of_type, ip)| one(of_type, ip.written.clone()));
        // Blanks around a network are forgiven to Services only.
        let is_exact = |cidr: &&Piece| {
            cidr.written
                .as_str()
                .is_some_and(|text| text.trim() == text)
        };
        let exact: Vec<Piece> = cidrs.iter().filter(is_exact).cloned().collect();
        Twins {
            meant: Some(node(
                zone.as_ref().and_then(|zone| zone.meant.clone()),
                clean.collect(),
                meant(&exact),
            )),
            written: node(
                zone.map(|zone| zone.written),
                all.collect(),
                written(&cidrs),
            ),
        }
    })
}

/// A cluster: a Node, a few untrusted Services, and how the rules are written.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) node: Twins,
    pub(crate) groups: Vec<Group>,
    pub(crate) setting: u64,
}

pub(crate) fn cluster() -> impl Strategy<Value = Cluster> {
    let groups = prop_oneof![
        3 => group("1").prop_map(|one| vec![one]),
        1 => (group("1"), group("2")).prop_map(|(one, two)| vec![one, two]),
    ];
    (node(), groups, any::<u64>()).prop_map(|(node, groups, setting)| Cluster {
        node,
        groups,
        setting,
    })
}
