//! Reduces an `EndpointSlice` to its endpoints, with their relation to this node.
//!
//! # Source
//!
//! Upstream: pkg/proxy/endpointslicecache.go, `endpointInfoByServicePort`, `addEndpoints` (v1.37)
//! Upstream: pkg/proxy/endpointschangetracker.go, `getLastChangeTriggerTime` (v1.37)

use std::sync::Arc;
use std::time::SystemTime;

use super::field::{self, Diagnostic, DiagnosticList, Interner, UNROUTABLE_ADDRESS, quoted};
use super::object::{EndpointObject, EndpointSliceObject, Hints, Metadata, SlicePortObject};
use crate::model::{Endpoint, Kind, NodeHint, ServiceName, Slice, SliceName, SlicePort};
use crate::net::{IpFamily, is_unroutable, parse_ip};

/// Effective content of an `EndpointSlice`.
#[derive(Debug, Clone, PartialEq)]
pub struct IngestedSlice {
    /// Name, even if nothing else is valid.
    pub name: SliceName,
    /// Family; `None` for host names and unknown address types.
    pub family: Option<IpFamily>,
    /// Content; `None` if it belongs to no Service.
    pub slice: Option<Slice>,
    /// Trigger time, if it has one.
    pub trigger: Option<SystemTime>,
    /// Parts that are ignored.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reduces `object` for the node `node_name`; no endpoint is local if that is empty.
pub fn endpoint_slice(
    object: &EndpointSliceObject,
    node_name: &str,
    interner: &mut Interner,
) -> IngestedSlice {
    let mut diagnostics = DiagnosticList::new(Kind::EndpointSlice, &object.metadata);
    let family = family(object, &mut diagnostics);
    let service = family.and_then(|_| service_name(&object.metadata, &mut diagnostics));
    let slice = family.zip(service).map(|(family, service)| {
        let mut reader = Reader {
            family,
            node_name,
            interner,
            diagnostics: &mut diagnostics,
        };
        Slice {
            service,
            ports: reader.ports(&object.ports, object.endpoints.len()),
            endpoints: reader.endpoints(&object.endpoints),
        }
    });
    IngestedSlice {
        name: SliceName::new(&object.metadata.namespace, &object.metadata.name),
        family,
        trigger: slice
            .as_ref()
            .and_then(|_| trigger(&object.metadata, &mut diagnostics)),
        slice,
        diagnostics: diagnostics.into_list(),
    }
}

fn family(object: &EndpointSliceObject, diagnostics: &mut DiagnosticList<'_>) -> Option<IpFamily> {
    let text = &object.address_type;
    let family = IpFamily::from_api(text);
    if family.is_none() {
        let problem = format!(
            "{} is not an IP address type; the slice is skipped",
            quoted(text)
        );
        diagnostics.note("addressType", problem);
    }
    family
}

/// Label of a slice with the name of its Service.
pub(crate) const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

fn service_name(metadata: &Metadata, diagnostics: &mut DiagnosticList<'_>) -> Option<ServiceName> {
    let service = metadata.label(SERVICE_NAME_LABEL).unwrap_or_default();
    let field = format!("metadata.labels[{SERVICE_NAME_LABEL}]");
    if !field::is_valid_name(&metadata.namespace, "metadata.namespace", diagnostics) {
        return None;
    }
    // The name of a slice is in no rule.
    if metadata.name.is_empty() {
        diagnostics.note("metadata.name", "is missing; the object is skipped");
        return None;
    }
    field::is_valid_name(&service, &field, diagnostics)
        .then(|| ServiceName::new(&metadata.namespace, &service))
}

/// Returns the trigger time; one that is not valid is ignored.
fn trigger(metadata: &Metadata, diagnostics: &mut DiagnosticList<'_>) -> Option<SystemTime> {
    const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

    let text = metadata.annotation(ANNOTATION)?;
    let time = text.parse::<jiff::Timestamp>().map(SystemTime::from).ok();
    if time.is_none() {
        diagnostics.note(
            format!("metadata.annotations[{ANNOTATION}]"),
            format!("{} is not a valid time; it is ignored", quoted(&text)),
        );
    }
    time
}

/// Maximum ports times endpoints of one slice: 250 ports of 1,000 endpoints, the maximum of a
/// slice, or 2,500 ports of 100, the default of Kubernetes. The API stores 20,000 ports of 1,000
/// endpoints, which are 20 million chains from an object of a megabyte.
///
/// Differs from upstream: kube-proxy has no limit and runs out of memory.
const MOST_TARGETS: usize = 250_000;

/// Context of the parts of one slice.
struct Reader<'a, 'b> {
    family: IpFamily,
    node_name: &'a str,
    interner: &'a mut Interner,
    diagnostics: &'a mut DiagnosticList<'b>,
}

impl Reader<'_, '_> {
    /// Returns the ports in the order of the object. Ports beyond [`MOST_TARGETS`] are skipped.
    fn ports(&mut self, objects: &[SlicePortObject], endpoints: usize) -> Box<[SlicePort]> {
        let most = MOST_TARGETS / endpoints.max(1);
        if objects.len() > most {
            let ports = objects.len();
            let problem = format!(
                "{ports} ports of {endpoints} endpoints are more than {MOST_TARGETS} targets; those \
                 after the first {most} are skipped"
            );
            self.diagnostics.note("ports", problem);
        }
        let some = objects.iter().enumerate().take(most);
        some.filter_map(|(index, object)| self.port(index, object))
            .collect()
    }

    fn port(&mut self, index: usize, object: &SlicePortObject) -> Option<SlicePort> {
        let Some(name) = object.name.as_deref() else {
            let field = format!("ports[{index}].name");
            self.diagnostics
                .note(field, "is missing; the port is skipped");
            return None;
        };
        let Some(number) = object.port.and_then(field::port_number) else {
            let problem = match object.port {
                Some(port) => format!("{port} is not a valid port; the port is skipped"),
                None => "is missing; the port is skipped".to_owned(),
            };
            self.diagnostics
                .note(format!("ports[{index}].port"), problem);
            return None;
        };
        let protocol = field::protocol(object.protocol.as_deref().unwrap_or_default(), || {
            (format!("ports[{index}].protocol"), &mut *self.diagnostics)
        })?;
        Some(SlicePort {
            name: self.interner.intern(name),
            protocol,
            number,
        })
    }

    fn endpoints(&mut self, objects: &[EndpointObject]) -> Box<[Endpoint]> {
        objects
            .iter()
            .enumerate()
            .filter_map(|(index, object)| self.endpoint(index, object))
            .collect()
    }

    /// Differs from upstream: an address that is not valid or of the other family is skipped;
    /// kube-proxy writes a rule that makes the whole restore fail. An address that the API rejects
    /// is skipped as well: traffic to it would reach services of the node itself.
    fn endpoint(&mut self, index: usize, object: &EndpointObject) -> Option<Endpoint> {
        let Some(text) = object.addresses.first() else {
            let field = format!("endpoints[{index}].addresses");
            self.diagnostics
                .note(field, "is empty; the endpoint is skipped");
            return None;
        };
        let Some(ip) = parse_ip(text).filter(|&ip| IpFamily::of(ip) == self.family) else {
            let what = quoted(text);
            self.diagnostics.note(
                format!("endpoints[{index}].addresses[0]"),
                format!(
                    "{what} is not a valid {} address; the endpoint is skipped",
                    self.family
                ),
            );
            return None;
        };
        if is_unroutable(ip) {
            self.diagnostics.note(
                format!("endpoints[{index}].addresses[0]"),
                format!("`{ip}` {UNROUTABLE_ADDRESS}; the endpoint is skipped"),
            );
            return None;
        }
        let conditions = &object.conditions;
        Some(Endpoint {
            ip,
            is_ready: conditions.ready.unwrap_or(true),
            is_serving: conditions.serving.unwrap_or(true),
            is_terminating: conditions.terminating.unwrap_or(false),
            is_local: self.is_here(object.node_name.as_deref().unwrap_or_default()),
            node_hint: self.node_hint(&object.hints),
            zone_hints: self.zone_hints(&object.hints),
        })
    }

    fn is_here(&self, node_name: &str) -> bool {
        !node_name.is_empty() && node_name == self.node_name
    }

    fn node_hint(&self, hints: &Hints) -> NodeHint {
        if hints.for_nodes.is_empty() {
            NodeHint::Absent
        } else if hints.for_nodes.iter().any(|node| self.is_here(&node.name)) {
            NodeHint::Here
        } else {
            NodeHint::Elsewhere
        }
    }

    fn zone_hints(&mut self, hints: &Hints) -> Box<[Arc<str>]> {
        hints
            .for_zones
            .iter()
            .map(|zone| self.interner.intern(&zone.name))
            .collect()
    }
}
