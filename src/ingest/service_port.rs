//! Reads the ports of a Service. An invalid value invalidates one port, not the object.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::diagnostic::{Findings, quoted};
use super::interner::Interner;
use super::object::ServicePortObject;
use crate::model::{MOST_RULES_WITHOUT_ENDPOINTS, ServicePort};
use crate::net::{Port, Protocol};

/// Returns the usable ports, sorted by name and protocol. Of two with the same name and protocol
/// the later one wins, as in upstream's map.
///
/// Differs from upstream: a port without a valid number or protocol is skipped; kube-proxy writes
/// a rule that makes the whole restore fail.
///
/// Each port has a few rules for each of the `addresses_and_ranges` of the object: addresses and
/// source ranges. Ports beyond [`MOST_RULES_WITHOUT_ENDPOINTS`] are skipped.
pub(super) fn ports(
    objects: &[ServicePortObject],
    addresses_and_ranges: usize,
    interner: &mut Interner,
    findings: &mut Findings<'_>,
) -> Box<[ServicePort]> {
    let most = MOST_RULES_WITHOUT_ENDPOINTS / addresses_and_ranges.max(1);
    if objects.len() > most {
        let problem = format!(
            "{} ports, each with {addresses_and_ranges} addresses and source ranges, are more than \
             {MOST_RULES_WITHOUT_ENDPOINTS} rules; those after the first {most} are skipped",
            objects.len()
        );
        findings.note("spec.ports", problem);
    }
    let mut ports: BTreeMap<(Arc<str>, Protocol), ServicePort> = BTreeMap::new();
    for (index, object) in objects.iter().enumerate().take(most) {
        let Some(port) = port(index, object, interner, findings) else {
            continue;
        };
        let key = (Arc::clone(&port.name), port.protocol);
        if ports.insert(key, port).is_some() {
            findings.note(
                format!("spec.ports[{index}]"),
                "has the name and protocol of an earlier port, and replaces it",
            );
        }
    }
    ports.into_values().collect()
}

fn port(
    index: usize,
    object: &ServicePortObject,
    interner: &mut Interner,
    findings: &mut Findings<'_>,
) -> Option<ServicePort> {
    let protocol = protocol(&object.protocol, || {
        (format!("spec.ports[{index}].protocol"), &mut *findings)
    })?;
    let Some(port) = number(object.port) else {
        let problem = match object.port {
            0 => "is missing; the port is skipped".to_owned(),
            port => format!("{port} is not a valid port; the port is skipped"),
        };
        findings.note(format!("spec.ports[{index}].port"), problem);
        return None;
    };
    let node_port = Some(object.node_port).filter(|&number| number != 0);
    if let Some(bad) = node_port.filter(|&node_port| number(node_port).is_none()) {
        let problem = format!("{bad} is not a valid port; the port has no node port");
        findings.note(format!("spec.ports[{index}].nodePort"), problem);
    }
    Some(ServicePort {
        name: interner.intern(&object.name),
        protocol,
        port,
        node_port: node_port.and_then(number),
    })
}

/// Returns the protocol, TCP if absent. `place` is its path, for the diagnostic.
pub(super) fn protocol<'a, 'b: 'a>(
    text: &str,
    place: impl FnOnce() -> (String, &'a mut Findings<'b>),
) -> Option<Protocol> {
    let text = if text.is_empty() { "TCP" } else { text };
    let protocol = Protocol::from_api(text);
    if protocol.is_none() {
        let (field, findings) = place();
        let problem = format!(
            "{} is not a valid protocol; the port is skipped",
            quoted(text)
        );
        findings.note(field, problem);
    }
    protocol
}

/// Returns `number` as a port; `None` outside 1 to 65535.
pub(super) fn number(number: i64) -> Option<Port> {
    u16::try_from(number).ok().and_then(Port::new)
}
