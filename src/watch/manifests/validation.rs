//! Finds fields of objects that cannot be used, with error messages in the form of an API server:
//! unknown fields, values of wrong types, and values that no rule can come from (unsupported words,
//! ports, addresses and networks).
//!
//! Fields and types are those of `k8s_openapi`, which are generated from the API. Other rules of
//! the API server, such as those about fields that exclude each other, are left to
//! `kubectl apply --dry-run=server`.
//!
//! # Source
//!
//! Upstream: pkg/apis/core/validation/validation.go, `validateService`, `validateServicePort`;
//! pkg/apis/discovery/validation/validation.go, `ValidateEndpointSlice`;
//! k8s.io/apimachinery/pkg/util/validation/field, errors.go, `ErrorBody` (v1.37)

use std::fmt::{self, Display};

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ingest::{MAX_QUOTED_CHARS, UnknownField, WrongType, decode, shortened};
use crate::model::Kind;
use crate::net::{IpFamily, parse_cidr, parse_ip};

/// Treatment of objects with fields that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    /// Does not use such objects, and reports them as errors.
    Strict,
    /// Uses every object that can be decoded, without its ignored fields, which are reported. The
    /// daemon always does.
    Lenient,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldProblem {
    /// Path of the field, as in `spec.ports[0].port`, to find its line; empty for the object.
    pub(super) path: String,
    /// Path and error, on one line.
    pub(super) text: String,
    kind: FieldProblemKind,
}

/// Kind of an error about a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldProblemKind {
    /// The API has no such field.
    UnknownField,
    /// The value is of another type than the field.
    WrongType,
    /// The field has a fixed set of values, which lacks this one.
    UnsupportedValue,
    /// Any other value that rules cannot come from, such as a port above 65535.
    InvalidValue,
}

impl FieldProblem {
    pub(super) fn new(kind: FieldProblemKind, path: &str, error: impl Display) -> Self {
        Self {
            path: path.to_owned(),
            text: match path {
                "" => error.to_string(),
                path => format!("{path}: {error}"),
            },
            kind,
        }
    }

    pub(super) fn wrong_type(WrongType { path, error }: WrongType) -> Self {
        Self::new(FieldProblemKind::WrongType, &path, error)
    }

    fn unknown(field: UnknownField) -> Self {
        let hint = match field.nearest {
            _ if field.name.starts_with('$') => {
                ": this is a patch, as kustomize uses, and not a manifest".to_owned()
            }
            Some(nearest) => format!(" (did you mean \"{nearest}\"?)"),
            None => String::new(),
        };
        Self {
            text: format!("unknown field \"{}\"{hint}", field.path),
            path: field.path,
            kind: FieldProblemKind::UnknownField,
        }
    }
}

/// Hint for a Helm template.
pub(super) const RENDER_FIRST: &str = "render it first with `helm template`";

/// Reports whether a text has an expression of a Helm template.
pub(super) fn is_helm_template(text: &str) -> bool {
    text.contains("{{") && text.contains("}}")
}

/// Returns the fields of an object that cannot be used. Nodes have none here: kubelets write them,
/// so only the types of their fields are checked, when they are decoded.
pub(super) fn problems(kind: Kind, object: &Value) -> Vec<FieldProblem> {
    match kind {
        Kind::Service => check(object, check_service),
        Kind::EndpointSlice => check(object, check_slice),
        Kind::Node => Vec::new(),
    }
}

/// Returns the ignored fields of an object that was decoded: unknown ones, those of a wrong type
/// (the proxy does not read them, or it could not have decoded the object), and those without
/// effect because their value is unsupported. Other problems are diagnostics of
/// [`ingest`](crate::ingest).
pub(super) fn ignored_fields(kind: Kind, object: &Value) -> Vec<FieldProblem> {
    // `ingest` reports these, with the port or slice that is skipped because of them.
    let is_reported = |path: &str| path.ends_with(".protocol") || path == "addressType";
    let mut problems = problems(kind, object);
    problems.retain(|problem| match problem.kind {
        FieldProblemKind::UnknownField | FieldProblemKind::WrongType => true,
        FieldProblemKind::UnsupportedValue => !is_reported(&problem.path),
        FieldProblemKind::InvalidValue => false,
    });
    problems
}

/// Returns the first value of a wrong type, or unknown fields and then the problems of all other
/// values.
fn check<T: DeserializeOwned>(
    object: &Value,
    validate: impl Fn(&T, &mut Problems),
) -> Vec<FieldProblem> {
    match decode(object) {
        Ok((decoded, unknown)) => {
            let unknown = unknown.into_iter().map(FieldProblem::unknown);
            let mut problems = Problems(unknown.collect());
            validate(&decoded, &mut problems);
            problems.0
        }
        Err(wrong) => vec![FieldProblem::wrong_type(wrong)],
    }
}

/// Describes a value of a wrong type.
pub(super) fn wrong_type(expected: &str, value: &Value) -> String {
    match value {
        Value::Array(_) => format!("expected {expected}, got an array"),
        Value::Object(_) => format!("expected {expected}, got an object"),
        other => {
            let shown = other.to_string();
            format!(
                "expected {expected}, got {}",
                shortened(&shown, MAX_QUOTED_CHARS)
            )
        }
    }
}

/// Problems of one object: unknown fields, then invalid values.
#[derive(Debug, Default)]
struct Problems(Vec<FieldProblem>);

impl Problems {
    fn add(&mut self, path: &str, error: impl Display) {
        self.add_of(FieldProblemKind::InvalidValue, path, error);
    }

    fn add_of(&mut self, kind: FieldProblemKind, path: &str, error: impl Display) {
        self.0.push(FieldProblem::new(kind, path, error));
    }

    fn add_invalid(&mut self, path: &str, value: impl fmt::Debug, detail: &str) {
        self.add(path, format_args!("Invalid value: {value:?}: {detail}"));
    }

    /// Adds a problem unless `value` is absent, empty, or one of the `supported` ones.
    fn check_supported(&mut self, path: &str, value: Option<&str>, supported: &[&str]) {
        let Some(value) = value.filter(|one| !one.is_empty() && !supported.contains(one)) else {
            return;
        };
        let supported: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let supported = supported.join(", ");
        let error = format_args!("Unsupported value: {value:?}: supported values: {supported}");
        self.add_of(FieldProblemKind::UnsupportedValue, path, error);
    }

    fn check_port(&mut self, path: &str, number: i32) {
        if !(1..=65535).contains(&number) {
            self.add_invalid(path, number, "must be between 1 and 65535, inclusive");
        }
    }
}

const POLICIES: [&str; 2] = ["Cluster", "Local"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

fn check_service(service: &Service, problems: &mut Problems) {
    check_name(service.metadata.name.as_deref(), problems);
    if let Some(spec) = &service.spec {
        check_words(spec, problems);
        for (index, port) in spec.ports.iter().flatten().enumerate() {
            check_service_port(&format!("spec.ports[{index}]"), port, problems);
        }
        let health_check = spec.health_check_node_port.unwrap_or_default();
        check_set_port("spec.healthCheckNodePort", health_check, problems);
        check_addresses(spec, problems);
    }
    let status = service.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_deref());
    for (index, ingress) in ingress.unwrap_or_default().iter().enumerate() {
        let at = format!("status.loadBalancer.ingress[{index}]");
        let ip = ingress.ip.as_deref().unwrap_or_default();
        check_ip(&format!("{at}.ip"), ip, problems);
        let mode = ingress.ip_mode.as_deref();
        problems.check_supported(&format!("{at}.ipMode"), mode, &["Proxy", "VIP"]);
    }
}

/// Adds a problem if an object has no name, by which rules and errors identify it.
fn check_name(name: Option<&str>, problems: &mut Problems) {
    match name.unwrap_or_default() {
        "" => problems.add("metadata.name", "Required value"),
        name => check_rendered("metadata.name", name, problems),
    }
}

/// Adds a problem if `text` is a Helm template that was not rendered.
fn check_rendered(at: &str, text: &str, problems: &mut Problems) {
    if is_helm_template(text) {
        problems.add_invalid(at, text, "must be rendered");
    }
}

fn check_words(spec: &ServiceSpec, problems: &mut Problems) {
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    let family_policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    let words: [(&str, &Option<String>, &[&str]); 6] = [
        ("type", &spec.type_, &types),
        (
            "sessionAffinity",
            &spec.session_affinity,
            &["ClientIP", "None"],
        ),
        ("ipFamilyPolicy", &spec.ip_family_policy, &family_policies),
        (
            "externalTrafficPolicy",
            &spec.external_traffic_policy,
            &POLICIES,
        ),
        (
            "internalTrafficPolicy",
            &spec.internal_traffic_policy,
            &POLICIES,
        ),
        (
            "trafficDistribution",
            &spec.traffic_distribution,
            &distributions,
        ),
    ];
    for (field, word, supported) in words {
        problems.check_supported(&format!("spec.{field}"), word.as_deref(), supported);
    }
    for (index, family) in spec.ip_families.iter().flatten().enumerate() {
        let at = format!("spec.ipFamilies[{index}]");
        problems.check_supported(&at, Some(family), &["IPv4", "IPv6"]);
    }
}

fn check_service_port(at: &str, port: &ServicePort, problems: &mut Problems) {
    problems.check_port(&format!("{at}.port"), port.port);
    let protocol = port.protocol.as_deref();
    problems.check_supported(&format!("{at}.protocol"), protocol, &PROTOCOLS);
    let node_port = port.node_port.unwrap_or_default();
    check_set_port(&format!("{at}.nodePort"), node_port, problems);
    let at = format!("{at}.targetPort");
    match &port.target_port {
        None => {}
        Some(IntOrString::Int(number)) => check_set_port(&at, *number, problems),
        Some(IntOrString::String(name)) => check_rendered(&at, name, problems),
    }
}

/// Adds a problem unless `number` is a port, or 0, which stands for none.
fn check_set_port(at: &str, number: i32, problems: &mut Problems) {
    if number != 0 {
        problems.check_port(at, number);
    }
}

fn check_addresses(spec: &ServiceSpec, problems: &mut Problems) {
    let single = spec.cluster_ip.as_deref().unwrap_or_default();
    let is_headless = |ip: &str| ip == "None";
    if !is_headless(single) {
        check_ip("spec.clusterIP", single, problems);
    }
    let listed = spec.cluster_ips.iter().flatten().enumerate();
    // The first one repeats `clusterIP`.
    for (index, ip) in listed.filter(|(_, ip)| *ip != single && !is_headless(ip)) {
        check_ip(&format!("spec.clusterIPs[{index}]"), ip, problems);
    }
    for (index, ip) in spec.external_ips.iter().flatten().enumerate() {
        check_ip(&format!("spec.externalIPs[{index}]"), ip, problems);
    }
    let ranges = spec.load_balancer_source_ranges.iter().flatten();
    for (index, range) in ranges.enumerate() {
        // The API server accepts spaces around a range.
        if parse_cidr(range.trim()).is_none() {
            let at = format!("spec.loadBalancerSourceRanges[{index}]");
            problems.add_invalid(&at, range, "must be a valid CIDR value");
        }
    }
}

/// Adds a problem unless `text` is an IP address, or empty.
fn check_ip(at: &str, text: &str, problems: &mut Problems) {
    if !text.is_empty() && parse_ip(text).is_none() {
        problems.add_invalid(at, text, "must be a valid IP address");
    }
}

fn check_slice(slice: &EndpointSlice, problems: &mut Problems) {
    check_name(slice.metadata.name.as_deref(), problems);
    let type_ = slice.address_type.as_str();
    if type_.is_empty() {
        problems.add("addressType", "Required value");
    }
    problems.check_supported("addressType", Some(type_), &["FQDN", "IPv4", "IPv6"]);
    if let Some(family) = IpFamily::from_api(type_) {
        check_endpoints(slice, family, problems);
    }
    for (index, port) in slice.ports.iter().flatten().enumerate() {
        let at = format!("ports[{index}]");
        let protocol = port.protocol.as_deref();
        problems.check_supported(&format!("{at}.protocol"), protocol, &PROTOCOLS);
        if let Some(number) = port.port {
            problems.check_port(&format!("{at}.port"), number);
        }
    }
}

fn check_endpoints(slice: &EndpointSlice, family: IpFamily, problems: &mut Problems) {
    for (number, endpoint) in slice.endpoints.iter().flatten().enumerate() {
        for (index, address) in endpoint.addresses.iter().enumerate() {
            if parse_ip(address).is_none_or(|ip| IpFamily::of(ip) != family) {
                let at = format!("endpoints[{number}].addresses[{index}]");
                let detail = format!("must be a valid {family} address");
                problems.add_invalid(&at, address, &detail);
            }
        }
    }
}
