//! The ports of a Service.
//!
//! Apart from the Service because here a bad value costs one port, not the object.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::diagnostic::{Findings, quoted};
use super::interner::Interner;
use super::object::ServicePortObject;
use crate::model::{MOST_RULES_WITHOUT_ENDPOINTS, ServicePort};
use crate::net::{Port, Protocol};

/// The usable ports, sorted by name and protocol. Of two with the same pair the later one counts,
/// as in upstream's map.
///
/// Differs from upstream: a port without a valid number or protocol is skipped; upstream would
/// write a rule that makes the whole restore fail.
///
/// Each port is a few rules for each of the object's `entrances`: addresses, and ranges of clients.
/// Ports beyond [`MOST_RULES_WITHOUT_ENDPOINTS`] are skipped.
pub(super) fn ports(
    objects: &[ServicePortObject],
    entrances: usize,
    interner: &mut Interner,
    findings: &mut Findings<'_>,
) -> Box<[ServicePort]> {
    let most = MOST_RULES_WITHOUT_ENDPOINTS / entrances.max(1);
    if objects.len() > most {
        let problem = format!(
            "{} ports, each with {entrances} addresses and source ranges, are more than \
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
            port => format!("{port} is no port; the port is skipped"),
        };
        findings.note(format!("spec.ports[{index}].port"), problem);
        return None;
    };
    let node_port = Some(object.node_port).filter(|&number| number != 0);
    if let Some(bad) = node_port.filter(|&node_port| number(node_port).is_none()) {
        let problem = format!("{bad} is no port; the port has no node port");
        findings.note(format!("spec.ports[{index}].nodePort"), problem);
    }
    Some(ServicePort {
        name: interner.intern(&object.name),
        protocol,
        port,
        node_port: node_port.and_then(number),
    })
}

/// The protocol written, TCP if none is. `place` says where it stands, should it be unknown.
pub(super) fn protocol<'a, 'b: 'a>(
    text: &str,
    place: impl FnOnce() -> (String, &'a mut Findings<'b>),
) -> Option<Protocol> {
    let text = if text.is_empty() { "TCP" } else { text };
    let protocol = Protocol::from_api(text);
    if protocol.is_none() {
        let (field, findings) = place();
        let problem = format!("{} is no protocol; the port is skipped", quoted(text));
        findings.note(field, problem);
    }
    protocol
}

/// `number` as a port, if it is one.
pub(super) fn number(number: i64) -> Option<Port> {
    u16::try_from(number).ok().and_then(Port::new)
}
