//! Reduces a Node to the properties that rules and health checks depend on.
//!
//! # Source
//!
//! Upstream: pkg/util/node/node.go, `GetNodeHostIPs` (v1.37)
//! Upstream: `pkg/proxy/healthcheck/proxy_health.go`, `NodeEligible` (v1.37)

use std::net::IpAddr;
use std::sync::Arc;

use super::diagnostic::{Diagnostic, DiagnosticList, quoted};
use super::object::NodeObject;
use crate::model::{Kind, Node, Topology};
use crate::net::{IpNet, parse_cidr, parse_ip};

/// Returns the properties of a Node.
pub fn node(object: &NodeObject) -> (Node, Vec<Diagnostic>) {
    let mut diagnostics = DiagnosticList::new(Kind::Node, &object.metadata);
    let mut addresses = addresses(object, "InternalIP", &mut diagnostics);
    addresses.extend(self::addresses(object, "ExternalIP", &mut diagnostics));
    let node = Node {
        topology: Topology { zone: zone(object) },
        addresses,
        pod_cidrs: pod_cidrs(object, &mut diagnostics),
        is_leaving: is_leaving(object),
    };
    (node, diagnostics.into_list())
}

/// Returns the zone. An empty one counts as absent: no hint can name it.
fn zone(object: &NodeObject) -> Option<Arc<str>> {
    let zone = object.metadata.label("topology.kubernetes.io/zone")?;
    (!zone.is_empty()).then(|| zone.into())
}

fn addresses(
    object: &NodeObject,
    of_type: &str,
    diagnostics: &mut DiagnosticList<'_>,
) -> Vec<IpAddr> {
    let mut ips = Vec::new();
    for (index, address) in object.status.addresses.iter().enumerate() {
        if address.type_ != of_type {
            continue;
        }
        match parse_ip(&address.address) {
            Some(ip) => ips.push(ip),
            None => diagnostics.note(
                format!("status.addresses[{index}].address"),
                format!(
                    "{} is not a valid address; it is skipped",
                    quoted(&address.address)
                ),
            ),
        }
    }
    ips
}

fn pod_cidrs(object: &NodeObject, diagnostics: &mut DiagnosticList<'_>) -> Vec<IpNet> {
    let mut cidrs = Vec::new();
    for (index, text) in object.spec.pod_cidrs.iter().enumerate() {
        match parse_cidr(text) {
            Some(cidr) => cidrs.push(cidr),
            None => diagnostics.note(
                format!("spec.podCIDRs[{index}]"),
                format!("{} is not a valid network; it is skipped", quoted(text)),
            ),
        }
    }
    cidrs
}

/// KEP: kep.k8s.io/3836
fn is_leaving(object: &NodeObject) -> bool {
    /// Taint of the cluster autoscaler before it drains a node, with any effect and value.
    const TAINT: &str = "ToBeDeletedByClusterAutoscaler";

    let is_tainted = object.spec.taints.iter().any(|taint| taint.key == TAINT);
    is_tainted || object.metadata.deletion_timestamp.is_some()
}
