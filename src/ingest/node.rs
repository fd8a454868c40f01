//! Reduces a Node to the properties that rules and health checks depend on.
//!
//! # Source
//!
//! Upstream: pkg/util/node/node.go, `GetNodeHostIPs` (v1.37)
//! Upstream: `pkg/proxy/healthcheck/proxy_health.go`, `NodeEligible` (v1.37)

use std::net::IpAddr;
use std::sync::Arc;

use super::field::{Diagnostic, DiagnosticList, address, network, parse_each};
use super::object::NodeObject;
use crate::model::{Kind, Node, Topology};
use crate::net::IpNet;

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
    let addresses = object.status.addresses.iter().enumerate();
    let addresses = addresses.filter(|(_, one)| one.type_ == of_type);
    let texts = addresses.map(|(index, one)| (index, &one.address));
    let field = |index| format!("status.addresses[{index}].address");
    parse_each(texts, address, field, diagnostics)
}

fn pod_cidrs(object: &NodeObject, diagnostics: &mut DiagnosticList<'_>) -> Vec<IpNet> {
    let texts = object.spec.pod_cidrs.iter().enumerate();
    let field = |index| format!("spec.podCIDRs[{index}]");
    parse_each(texts, network, field, diagnostics)
}

/// KEP: kep.k8s.io/3836
fn is_leaving(object: &NodeObject) -> bool {
    /// Taint of the cluster autoscaler before it drains a node, with any effect and value.
    const TAINT: &str = "ToBeDeletedByClusterAutoscaler";

    let is_tainted = object.spec.taints.iter().any(|taint| taint.key == TAINT);
    is_tainted || object.metadata.deletion_timestamp.is_some()
}
