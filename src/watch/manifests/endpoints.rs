//! Assumes two endpoints for each selector, one of them on this node, so that `diff` shows rules.
//!
//! A controller creates EndpointSlices in a cluster, and manifests seldom have them. Without
//! endpoints, a Service has only a rule that rejects, and most changes of it would not show.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use serde_json::Value;

use super::fill_in::{AssumedValueKind, Assumption};
use super::fill_in::{Slots, hash};
use super::merge::Manifests;
use super::parse::WrittenObjects;
use crate::ingest::{
    EndpointObject, EndpointSliceObject, MapEntry, Metadata, ObjectName, SERVICE_NAME_LABEL,
    ServiceObject, SlicePortObject,
};
use crate::model::Kind;
use crate::net::{IpFamily, IpNet};

type Labels = BTreeMap<String, String>;

/// Adds EndpointSlices of two assumed endpoints for each Service that has a selector and no slices.
pub(super) fn assume_endpoints(
    manifests: &mut Manifests,
    written: &WrittenObjects,
    node_name: &str,
) {
    let known = manifests.endpoint_slices.iter().map(|slice| {
        let name = slice.metadata.label(SERVICE_NAME_LABEL).unwrap_or_default();
        ObjectName {
            namespace: slice.metadata.namespace.clone(),
            name: name.into_owned(),
        }
    });
    let known: BTreeSet<ObjectName> = known.collect();
    let mut slices = Vec::new();
    for service in &manifests.services {
        let name = service.metadata.object_name();
        if known.contains(&name) || service.spec.type_ == "ExternalName" {
            continue;
        }
        let Some(written) = written.get(&(Kind::Service, name)) else {
            continue;
        };
        let selector = labels(written.pointer("/spec/selector"));
        if selector.is_empty() {
            continue;
        }
        let mut builder = SliceBuilder {
            service,
            selector,
            node_name,
            assumptions: &mut manifests.assumptions,
        };
        slices.extend(builder.slices(written));
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
    /// Returns an EndpointSlice for each IP family.
    fn slices(&mut self, written: &Value) -> Vec<Arc<EndpointSliceObject>> {
        let targets = written.pointer("/spec/ports").and_then(Value::as_array);
        let targets = targets.into_iter().flatten();
        let targets = targets.map(|port| port.get("targetPort"));
        let mut ports = Vec::new();
        for (port, target) in self.service.spec.ports.iter().zip(targets) {
            // Only Pods have the number of a name.
            let number = target.and_then(Value::as_i64).filter(|number| *number != 0);
            ports.push(SlicePortObject {
                name: Some(port.name.clone()),
                protocol: Some(port.protocol.clone()),
                port: Some(number.unwrap_or(port.port)),
            });
        }
        let families = self.service.spec.ip_families.clone();
        let has = |family: &IpFamily| families.iter().any(|text| text == family.as_str());
        let families = IpFamily::ALL.into_iter().filter(has);
        families
            .map(|family| Arc::new(self.slice(family, ports.clone())))
            .collect()
    }

    fn slice(&mut self, family: IpFamily, ports: Vec<SlicePortObject>) -> EndpointSliceObject {
        let Metadata {
            namespace, name, ..
        } = &self.service.metadata;
        let [here, elsewhere] = addresses(namespace, &self.selector, family);
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
                name: format!("{name}-assumed-{}", family.as_str().to_lowercase()),
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
}

/// Reads labels; empty if there are none.
fn labels(value: Option<&Value>) -> Labels {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    let entries = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.into())));
    entries.collect()
}

/// Returns two addresses derived from a selector, since Services with the same selector have the
/// same Pods. Different selectors may get the same addresses, which changes no rule of either.
fn addresses(namespace: &str, selector: &Labels, family: IpFamily) -> [IpAddr; 2] {
    let mut name = namespace.to_owned();
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
