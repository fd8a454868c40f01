//! Assumes two endpoints for each selector, one of them on this node, so that `diff` shows rules.
//!
//! A controller creates EndpointSlices in a cluster, and manifests seldom have them. Without
//! endpoints, a Service has only a rule that rejects, and most changes of it would not show.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use serde_json::Value;

use super::assumption::{AssumedValueKind, Assumption};
use super::merge::Manifests;
use super::pod_templates::{Labels, NamedPortNumbers, StateTemplates, labels};
use super::pools::{Slots, hash};
use super::raw::{RawKey, RawObject};
use crate::ingest::{
    EndpointObject, EndpointSliceObject, MapEntry, Metadata, SERVICE_NAME_LABEL, ServiceObject,
    ServicePortObject, SlicePortObject,
};
use crate::net::{IpFamily, IpNet};

/// Namespace and name of a Service.
type ServiceKey = (String, String);

/// EndpointSlices by their Service.
pub(super) type SlicesByService = BTreeMap<ServiceKey, Vec<Arc<EndpointSliceObject>>>;

/// Maximum count of different numbers that one named port may have; of more, the lowest are used.
/// Pods of one Service seldom have more than two, and each number gets its own endpoints.
const MAX_PORT_NUMBERS: usize = 8;

/// Groups the EndpointSlices that manifests have.
pub(super) fn slices_by_service(manifests: &Manifests) -> SlicesByService {
    let mut slices = SlicesByService::new();
    for slice in &manifests.endpoint_slices {
        let metadata = &slice.metadata;
        let service = metadata.label(SERVICE_NAME_LABEL).unwrap_or_default();
        let key = (metadata.namespace.clone(), service.into_owned());
        slices.entry(key).or_default().push(Arc::clone(slice));
    }
    slices
}

/// Objects of the other state of a comparison.
pub(super) struct OtherStateObjects<'a> {
    pub(super) raw: &'a BTreeMap<RawKey, RawObject>,
    pub(super) slices: &'a SlicesByService,
}

impl<'a> OtherStateObjects<'a> {
    /// Returns the slices of a Service in the other state, if its selector, ports and families are
    /// the same in both: then a controller would keep them.
    fn slices_of(
        &self,
        key: &RawKey,
        service: &RawObject,
    ) -> Option<&'a [Arc<EndpointSliceObject>]> {
        let other = self.raw.get(key)?;
        let is_same = |field| service.value.pointer(field) == other.value.pointer(field);
        let fields = ["/spec/selector", "/spec/ports", "/spec/ipFamilies"];
        let slices = self
            .slices
            .get(&(service.namespace.clone(), service.name.clone()))?;
        fields.into_iter().all(is_same).then_some(slices)
    }
}

/// Adds EndpointSlices for each Service that has a selector and no slices: those of the other
/// state, if a controller would keep them, or else slices of two assumed endpoints.
pub(super) fn assume_endpoints(
    manifests: &mut Manifests,
    (raw, templates): (&BTreeMap<RawKey, RawObject>, &StateTemplates),
    other: &OtherStateObjects<'_>,
    node_name: &str,
) {
    let known = slices_by_service(manifests);
    let mut slices = Vec::new();
    for service in &manifests.services {
        let metadata = &service.metadata;
        let key = (metadata.namespace.clone(), metadata.name.clone());
        let raw_key = RawKey::of_service(&key.0, &key.1);
        let raw = raw.get(&raw_key);
        let Some(raw) = raw.filter(|_| !known.contains_key(&key)) else {
            continue;
        };
        let selector = labels(raw.value.pointer("/spec/selector"));
        if selector.is_empty() || service.spec.type_ == "ExternalName" {
            continue;
        }
        if let Some(of_other) = other.slices_of(&raw_key, raw) {
            slices.extend(of_other.iter().cloned());
            continue;
        }
        let mut builder = SliceBuilder {
            service,
            selector,
            node_name,
            assumptions: &mut manifests.assumptions,
        };
        slices.extend(builder.slices(&raw.value, templates));
    }
    manifests.endpoint_slices.extend(slices);
    let key = |slice: &Arc<EndpointSliceObject>| {
        let metadata = &slice.metadata;
        (metadata.namespace.clone(), metadata.name.clone())
    };
    manifests.endpoint_slices.sort_by_cached_key(key);
}

/// Builder of the EndpointSlices that are assumed for one Service.
struct SliceBuilder<'a> {
    service: &'a ServiceObject,
    selector: Labels,
    node_name: &'a str,
    assumptions: &'a mut Vec<Assumption>,
}

impl SliceBuilder<'_> {
    /// Returns the EndpointSlices of each IP family. Pods that have different numbers for a named
    /// port are in different slices: the n-th one has the n-th number of each port, and lacks ports
    /// with fewer numbers.
    fn slices(&mut self, raw: &Value, templates: &StateTemplates) -> Vec<Arc<EndpointSliceObject>> {
        let raw_ports = raw.pointer("/spec/ports").and_then(Value::as_array);
        let targets = raw_ports.into_iter().flatten();
        let targets = targets.map(|port| port.get("targetPort"));
        let ports = self.service.spec.ports.iter();
        let numbers: Vec<Vec<u16>> = ports
            .zip(targets)
            .map(|(port, target)| self.numbers(port, target, templates))
            .collect();
        let count = numbers.iter().map(Vec::len).max().unwrap_or_default();
        let families = IpFamily::ALL.into_iter();
        let families: Vec<_> = families
            .filter(|family| {
                let mut texts = self.service.spec.ip_families.iter();
                texts.any(|text| text == family.as_str())
            })
            .collect();
        let mut slices = Vec::new();
        for family in families {
            for index in 0..count {
                let ports = self.service.spec.ports.iter().zip(&numbers);
                let ports = ports.filter_map(|(port, numbers)| {
                    Some(SlicePortObject {
                        name: Some(port.name.clone()),
                        protocol: Some(protocol(port).to_owned()),
                        port: Some(numbers.get(index).copied()?.into()),
                    })
                });
                slices.push(Arc::new(self.slice(family, index, ports.collect())));
            }
        }
        slices
    }

    fn slice(
        &mut self,
        family: IpFamily,
        index: usize,
        ports: Vec<SlicePortObject>,
    ) -> EndpointSliceObject {
        let Metadata {
            namespace, name, ..
        } = &self.service.metadata;
        let [here, elsewhere] = addresses(namespace, &self.selector, index, family);
        self.assumptions.push(Assumption {
            kind: AssumedValueKind::Endpoints,
            subject: format!("{namespace}/{name}"),
            value: format!("{here} and {elsewhere}"),
        });
        let other_node = format!("not-{}", self.node_name);
        let endpoint = |ip: IpAddr, node: &str| EndpointObject {
            addresses: vec![ip.to_string()],
            node_name: Some(node.to_owned()),
            ..EndpointObject::default()
        };
        EndpointSliceObject {
            metadata: Metadata {
                name: format!("{name}-assumed-{index}-{}", family.as_str().to_lowercase()),
                namespace: namespace.clone(),
                labels: vec![MapEntry::new(SERVICE_NAME_LABEL, name.as_str())],
                ..Metadata::default()
            },
            address_type: family.to_string(),
            endpoints: vec![
                endpoint(here, self.node_name),
                endpoint(elsewhere, &other_node),
            ],
            ports,
        }
    }

    /// Returns the numbers of a target port: if it is a name, those that the matching Pod templates
    /// have for it, or else one derived from the name, so that `diff` shows a change of the name.
    fn numbers(
        &mut self,
        port: &ServicePortObject,
        target: Option<&Value>,
        templates: &StateTemplates,
    ) -> Vec<u16> {
        let Metadata {
            namespace, name, ..
        } = &self.service.metadata;
        let number = |number: i64| u16::try_from(number).ok().filter(|one| *one != 0);
        let Some(target) = target.and_then(Value::as_str) else {
            let target = target.and_then(Value::as_i64).and_then(number);
            return target.or_else(|| number(port.port)).into_iter().collect();
        };
        let pods = (namespace.as_str(), &self.selector);
        let assumed = || [assumed_number(target)].into();
        let (kind, numbers) = match templates.numbers(pods, (target, protocol(port))) {
            NamedPortNumbers::Known(numbers) => (None, numbers),
            NamedPortNumbers::OfOtherState(numbers) => {
                (Some(AssumedValueKind::NamedPortOfOtherState), numbers)
            }
            NamedPortNumbers::NotInTemplates => {
                (Some(AssumedValueKind::NamedPortOfNoContainer), assumed())
            }
            NamedPortNumbers::MayBeInUnusableFile => (
                Some(AssumedValueKind::NamedPortMayBeInUnusableFile),
                assumed(),
            ),
            NamedPortNumbers::NoTemplate => (Some(AssumedValueKind::NamedPort), assumed()),
        };
        let numbers: Vec<u16> = numbers.into_iter().take(MAX_PORT_NUMBERS).collect();
        let assumptions = kind.into_iter().flat_map(|kind| {
            numbers.iter().map(move |number| Assumption {
                kind,
                subject: format!("{namespace}/{name}"),
                value: format!("{target}={number}"),
            })
        });
        self.assumptions.extend(assumptions);
        numbers
    }
}

fn protocol(port: &ServicePortObject) -> &str {
    match port.protocol.as_str() {
        "" => "TCP",
        protocol => protocol,
    }
}

/// Returns a number derived from a name, in the dynamic range of RFC 6335, 49152 to 65535, which a
/// container seldom listens on.
fn assumed_number(name: &str) -> u16 {
    let offset = hash(name) % 16384;
    49152 + u16::try_from(offset).unwrap_or_default()
}

/// Returns two addresses derived from a selector, since Services with the same selector have the
/// same Pods. Different selectors may get the same addresses, which changes no rule of either.
fn addresses(namespace: &str, selector: &Labels, index: usize, family: IpFamily) -> [IpAddr; 2] {
    let mut name = format!("{namespace} {index}");
    for (key, value) in selector {
        name = format!("{name} {key}={value}");
    }
    let slots = Slots::of(pod_range(family));
    let first = hash(&name) % slots.count;
    [first, (first + 1) % slots.count].map(|slot| slots.address(slot))
}

/// Returns the range of assumed endpoints, in the upper half of the range for network benchmarks of
/// RFC 2544 or RFC 5180, which no cluster uses. Load balancer IPs are in the lower half by default.
fn pod_range(family: IpFamily) -> IpNet {
    match family {
        IpFamily::V4 => IpNet::new_assert(Ipv4Addr::new(198, 19, 0, 0).into(), 16),
        IpFamily::V6 => {
            IpNet::new_assert(Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 0).into(), 64)
        }
    }
}
