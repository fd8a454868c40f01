//! Fields of Services and EndpointSlices, with the programs that they have an effect on.
//!
//! Every field is listed, so that a change of any is either reported or known to have no effect.

/// Kind of an object whose fields are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice,
}

impl ObjectKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Service, Self::EndpointSlice];

    /// Returns the name of the kind in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
        }
    }
}

/// Effect of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldRole {
    /// Rules depend on the field, at least in some objects.
    Rules,
    /// Other programs depend on the field: controllers, load balancers or DNS. No rule shows it.
    OtherPrograms,
    /// No traffic depends on the field.
    NoEffect,
    /// The API has no such field, or a later release of Kubernetes does.
    Unknown,
    /// An API server rejects the change; role of a change, not of a field.
    Rejected,
}

use FieldRole::{NoEffect, OtherPrograms, Rules};
use ObjectKind::{EndpointSlice, Service};

/// Fields by kind and path; `[]` stands for any item.
pub const FIELD_ROLES: &[(ObjectKind, &str, FieldRole)] = &[
    (Service, ANNOTATIONS, OtherPrograms),
    (Service, "spec.allocateLoadBalancerNodePorts", Rules),
    (Service, "spec.clusterIP", Rules),
    (Service, "spec.clusterIPs", Rules),
    (Service, "spec.externalIPs", Rules),
    (Service, "spec.externalName", OtherPrograms),
    (Service, "spec.externalTrafficPolicy", Rules),
    (Service, "spec.healthCheckNodePort", Rules),
    (Service, "spec.internalTrafficPolicy", Rules),
    (Service, "spec.ipFamilies", Rules),
    (Service, "spec.ipFamilyPolicy", Rules),
    (Service, "spec.loadBalancerClass", OtherPrograms),
    (Service, "spec.loadBalancerIP", OtherPrograms),
    (Service, "spec.loadBalancerSourceRanges", Rules),
    (Service, "spec.ports[].appProtocol", OtherPrograms),
    (Service, "spec.ports[].name", Rules),
    (Service, "spec.ports[].nodePort", Rules),
    (Service, "spec.ports[].port", Rules),
    (Service, "spec.ports[].protocol", Rules),
    (Service, "spec.ports[].targetPort", Rules),
    (Service, "spec.publishNotReadyAddresses", OtherPrograms),
    (Service, "spec.selector", OtherPrograms),
    (Service, "spec.sessionAffinity", Rules),
    (
        Service,
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
        Rules,
    ),
    (Service, "spec.trafficDistribution", OtherPrograms),
    (Service, "spec.type", Rules),
    (Service, "status.conditions", NoEffect),
    (
        Service,
        "status.loadBalancer.ingress[].hostname",
        OtherPrograms,
    ),
    (Service, "status.loadBalancer.ingress[].ip", Rules),
    (Service, "status.loadBalancer.ingress[].ipMode", Rules),
    (Service, "status.loadBalancer.ingress[].ports", NoEffect),
    (EndpointSlice, "addressType", Rules),
    (EndpointSlice, "endpoints[].addresses", Rules),
    (EndpointSlice, "endpoints[].conditions.ready", Rules),
    (EndpointSlice, "endpoints[].conditions.serving", Rules),
    (EndpointSlice, "endpoints[].conditions.terminating", Rules),
    (EndpointSlice, "endpoints[].deprecatedTopology", NoEffect),
    (EndpointSlice, "endpoints[].hints.forNodes[].name", Rules),
    (EndpointSlice, "endpoints[].hints.forZones[].name", Rules),
    (EndpointSlice, "endpoints[].hostname", OtherPrograms),
    (EndpointSlice, "endpoints[].nodeName", Rules),
    (EndpointSlice, "endpoints[].targetRef", NoEffect),
    (EndpointSlice, "endpoints[].zone", NoEffect),
    (EndpointSlice, "ports[].appProtocol", OtherPrograms),
    (EndpointSlice, "ports[].name", Rules),
    (EndpointSlice, "ports[].port", Rules),
    (EndpointSlice, "ports[].protocol", Rules),
];

/// Path of the annotations of an object.
pub(super) const ANNOTATIONS: &str = "metadata.annotations";

/// Reports whether an annotation of a Service is for a program that decides about its traffic: a
/// controller of load balancers, EndpointSlices or DNS. All other annotations are notes.
pub(super) fn is_of_traffic(annotation: &str) -> bool {
    /// Domains of controllers of load balancers.
    const DOMAINS: [&str; 4] = [
        "cloud.google.com",
        "metallb.io",
        "metallb.universe.tf",
        "networking.gke.io",
    ];
    /// kubectl writes what was applied last, and a controller when Pods changed.
    const NOTES: [&str; 2] = ["kubectl.kubernetes.io", "endpoints.kubernetes.io"];

    let domain = annotation.split_once('/').map_or("", |(domain, _)| domain);
    let is_of_kubernetes = domain.ends_with(".kubernetes.io") && !NOTES.contains(&domain);
    is_of_kubernetes || DOMAINS.contains(&domain)
}

impl FieldRole {
    /// Returns the role of a field, or of the listed field that it is a part of.
    pub(super) fn of(kind: ObjectKind, path: &str) -> Self {
        let is_part = |listed: &str| {
            let rest = path.strip_prefix(listed);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let mut listed = FIELD_ROLES.iter();
        let found = listed.find(|(of, listed, _)| *of == kind && is_part(listed));
        found.map_or(Self::Unknown, |(_, _, role)| *role)
    }
}

/// Values that fields have if they are absent, as text.
const DEFAULTS: &[(ObjectKind, &str, &str)] = &[
    (Service, "spec.allocateLoadBalancerNodePorts", "true"),
    (Service, "spec.externalTrafficPolicy", "Cluster"),
    (Service, "spec.healthCheckNodePort", "0"),
    (Service, "spec.internalTrafficPolicy", "Cluster"),
    (Service, "spec.ipFamilyPolicy", "SingleStack"),
    (Service, "spec.ports[].nodePort", "0"),
    (Service, "spec.ports[].protocol", "TCP"),
    (Service, "spec.publishNotReadyAddresses", "false"),
    (Service, "spec.sessionAffinity", "None"),
    (
        Service,
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
        "10800",
    ),
    (Service, "spec.type", "ClusterIP"),
    (Service, "status.loadBalancer.ingress[].ipMode", "VIP"),
    (EndpointSlice, "endpoints[].conditions.ready", "true"),
    (EndpointSlice, "endpoints[].conditions.serving", "true"),
    (EndpointSlice, "endpoints[].conditions.terminating", "false"),
    (EndpointSlice, "ports[].protocol", "TCP"),
];

/// Reports whether a field has no other value than an absent one.
pub(super) fn is_default(kind: ObjectKind, path: &str, text: &str) -> bool {
    text.is_empty() || DEFAULTS.contains(&(kind, path, text))
}
