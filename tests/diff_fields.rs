//! `diff --from-manifests` of every field of a Service and of an EndpointSlice: a change is
//! reported, or the docs list the field as without effect.

#![allow(clippy::unwrap_used, clippy::panic, reason = "failing is a test's job")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use deltaproxy::testing::inspect::diff::{FIELD_ROLES, FieldRole, ObjectKind};
use k8s_openapi::api::core::v1::{
    ClientIPConfig, LoadBalancerIngress, LoadBalancerStatus, ServicePort, ServiceSpec,
    ServiceStatus, SessionAffinityConfig,
};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor, value::Error};
use serde_json::Value;

/// Deserializer that only records which fields a type has.
struct FieldNames<'a>(&'a mut Vec<&'static str>);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        panic!("a type with fields is a struct")
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.0.extend(fields);
        Err(Error::custom("only the names are of interest"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Fields of a type below a path. Those in `apart` have fields of their own.
fn fields<T: for<'de> Deserialize<'de>>(path: &str, apart: &[&str]) -> Vec<String> {
    let mut names = Vec::new();
    let _ = T::deserialize(FieldNames(&mut names));
    assert!(!names.is_empty(), "{path}");
    for name in apart {
        assert!(names.contains(name), "{path}: no `{name}`");
    }
    names.retain(|name| !apart.contains(name));
    names.iter().map(|name| format!("{path}{name}")).collect()
}

#[test]
fn every_field_of_the_api_has_a_role() {
    let service = [
        vec!["metadata.annotations".to_owned()],
        fields::<ServiceSpec>("spec.", &["ports", "sessionAffinityConfig"]),
        fields::<ServicePort>("spec.ports[].", &[]),
        fields::<SessionAffinityConfig>("spec.sessionAffinityConfig.", &["clientIP"]),
        fields::<ClientIPConfig>("spec.sessionAffinityConfig.clientIP.", &[]),
        fields::<ServiceStatus>("status.", &["loadBalancer"]),
        fields::<LoadBalancerStatus>("status.loadBalancer.", &["ingress"]),
        fields::<LoadBalancerIngress>("status.loadBalancer.ingress[].", &[]),
    ];
    let object = ["apiVersion", "kind", "metadata", "endpoints", "ports"];
    let slice = [
        fields::<EndpointSlice>("", &object),
        fields::<Endpoint>("endpoints[].", &["conditions", "hints"]),
        fields::<EndpointConditions>("endpoints[].conditions.", &[]),
        fields::<EndpointHints>("endpoints[].hints.", &["forNodes", "forZones"]),
        fields::<ForNode>("endpoints[].hints.forNodes[].", &[]),
        fields::<ForZone>("endpoints[].hints.forZones[].", &[]),
        fields::<EndpointPort>("ports[].", &[]),
    ];
    let kinds = [
        (ObjectKind::Service, service.concat()),
        (ObjectKind::EndpointSlice, slice.concat()),
    ];
    for (kind, mut api) in kinds {
        let listed = FIELD_ROLES.iter().filter(|(of, ..)| *of == kind);
        let mut listed: Vec<&str> = listed.map(|(_, path, _)| *path).collect();
        api.sort();
        listed.sort_unstable();
        assert_eq!(api, listed);
    }
}

/// Change of one field: `spec`, and `status` if it begins so, before and after.
type Mutation = (&'static str, &'static str, &'static str);

const SERVICE: &[Mutation] = &[
    (
        "metadata.annotations",
        "annotations: {service.beta.kubernetes.io/aws-load-balancer-internal: 'false'}",
        "annotations: {service.beta.kubernetes.io/aws-load-balancer-internal: 'true'}",
    ),
    (
        "spec.allocateLoadBalancerNodePorts",
        "type: LoadBalancer",
        "type: LoadBalancer, allocateLoadBalancerNodePorts: false",
    ),
    (
        "spec.clusterIP",
        "clusterIP: 10.96.0.1",
        "clusterIP: 10.96.0.2",
    ),
    (
        "spec.clusterIPs",
        "clusterIPs: [10.96.0.1]",
        "clusterIPs: [10.96.0.2]",
    ),
    ("spec.externalIPs", "", "externalIPs: [192.0.2.1]"),
    (
        "spec.externalName",
        "type: ExternalName, externalName: a.example",
        "type: ExternalName, externalName: b.example",
    ),
    (
        "spec.externalTrafficPolicy",
        "type: LoadBalancer",
        "type: LoadBalancer, externalTrafficPolicy: Local",
    ),
    (
        "spec.healthCheckNodePort",
        "type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000",
        "type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31001",
    ),
    (
        "spec.internalTrafficPolicy",
        "",
        "internalTrafficPolicy: Local",
    ),
    (
        "spec.ipFamilies",
        "ipFamilies: [IPv4]",
        "ipFamilies: [IPv6]",
    ),
    (
        "spec.ipFamilyPolicy",
        "",
        "ipFamilyPolicy: RequireDualStack",
    ),
    (
        "spec.loadBalancerClass",
        "",
        "loadBalancerClass: example.com/lb",
    ),
    ("spec.loadBalancerIP", "", "loadBalancerIP: 192.0.2.1"),
    (
        "spec.loadBalancerSourceRanges",
        "type: LoadBalancer",
        "type: LoadBalancer, loadBalancerSourceRanges: [192.0.2.0/24]",
    ),
    (
        "spec.ports[].appProtocol",
        "ports: [{port: 80}]",
        "ports: [{port: 80, appProtocol: h2c}]",
    ),
    (
        "spec.ports[].name",
        "ports: [{port: 80}]",
        "ports: [{port: 80, name: a}]",
    ),
    (
        "spec.ports[].nodePort",
        "type: NodePort, ports: [{port: 80, nodePort: 30000}]",
        "type: NodePort, ports: [{port: 80, nodePort: 30001}]",
    ),
    (
        "spec.ports[].port",
        "ports: [{port: 80, targetPort: 80}]",
        "ports: [{port: 81, targetPort: 80}]",
    ),
    (
        "spec.ports[].protocol",
        "ports: [{port: 80}]",
        "ports: [{port: 80, protocol: UDP}]",
    ),
    (
        "spec.ports[].targetPort",
        "ports: [{port: 80, targetPort: a}]",
        "ports: [{port: 80, targetPort: b}]",
    ),
    (
        "spec.publishNotReadyAddresses",
        "",
        "publishNotReadyAddresses: true",
    ),
    ("spec.selector", "selector: {app: a}", "selector: {app: b}"),
    ("spec.sessionAffinity", "", "sessionAffinity: ClientIP"),
    (
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
        "sessionAffinity: ClientIP",
        "sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}",
    ),
    (
        "spec.trafficDistribution",
        "",
        "trafficDistribution: PreferSameZone",
    ),
    ("spec.type", "", "type: NodePort"),
    (
        "status.conditions",
        "status: {conditions: [{type: A}]}",
        "status: {conditions: [{type: B}]}",
    ),
    (
        "status.loadBalancer.ingress[].hostname",
        "status: {loadBalancer: {ingress: [{hostname: a.example}]}}",
        "status: {loadBalancer: {ingress: [{hostname: b.example}]}}",
    ),
    (
        "status.loadBalancer.ingress[].ip",
        "status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}",
        "status: {loadBalancer: {ingress: [{ip: 192.0.2.2}]}}",
    ),
    (
        "status.loadBalancer.ingress[].ipMode",
        "status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}",
        "status: {loadBalancer: {ingress: [{ip: 192.0.2.1, ipMode: Proxy}]}}",
    ),
    (
        "status.loadBalancer.ingress[].ports",
        "status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}",
        "status: {loadBalancer: {ingress: [{ip: 192.0.2.1, ports: [{port: 80}]}]}}",
    ),
];

/// Fields of a slice in place of the usual ones; `+` adds to the fields of its first endpoint.
const SLICE: &[Mutation] = &[
    ("addressType", "addressType: IPv4", "addressType: IPv6"),
    (
        "endpoints[].addresses",
        "endpoints: [{addresses: [10.4.0.1]}]",
        "endpoints: [{addresses: [10.4.0.9]}]",
    ),
    (
        "endpoints[].conditions.ready",
        "+",
        "+conditions: {ready: false}",
    ),
    (
        "endpoints[].conditions.serving",
        "+conditions: {ready: false, terminating: true}",
        "+conditions: {ready: false, terminating: true, serving: false}",
    ),
    (
        "endpoints[].conditions.terminating",
        "+conditions: {ready: false}",
        "+conditions: {ready: false, terminating: true}",
    ),
    (
        "endpoints[].deprecatedTopology",
        "+deprecatedTopology: {a: b}",
        "+deprecatedTopology: {a: c}",
    ),
    (
        "endpoints[].hints.forNodes[].name",
        "+hints: {forNodes: [{name: node-a}]}",
        "+hints: {forNodes: [{name: node-b}]}",
    ),
    (
        "endpoints[].hints.forZones[].name",
        "+hints: {forZones: [{name: zone-a}]}",
        "+hints: {forZones: [{name: zone-b}]}",
    ),
    ("endpoints[].hostname", "+hostname: a", "+hostname: b"),
    (
        "endpoints[].nodeName",
        "+nodeName: node-a",
        "+nodeName: node-b",
    ),
    (
        "endpoints[].targetRef",
        "+targetRef: {name: a}",
        "+targetRef: {name: b}",
    ),
    ("endpoints[].zone", "+zone: zone-a", "+zone: zone-b"),
    (
        "ports[].appProtocol",
        "ports: [{port: 80}]",
        "ports: [{port: 80, appProtocol: h2c}]",
    ),
    (
        "ports[].name",
        "ports: [{port: 80}]",
        "ports: [{port: 80, name: a}]",
    ),
    ("ports[].port", "ports: [{port: 80}]", "ports: [{port: 81}]"),
    (
        "ports[].protocol",
        "ports: [{port: 80}]",
        "ports: [{port: 80, protocol: UDP}]",
    ),
];

/// Returns the fields of the usual object, each of them only if `own` does not set it.
fn with_usual(usual: &[(&str, &str)], own: &str) -> Vec<String> {
    let is_usual = |(name, _): &&(&str, &str)| !own.starts_with(&format!("{name}: "));
    let usual = usual.iter().filter(is_usual);
    let usual = usual.map(|(name, value)| format!("{name}: {value}"));
    let own = Some(own.to_owned()).filter(|own| !own.is_empty());
    usual.chain(own).collect()
}

fn service(change: &str) -> String {
    let (spec, status) = match change.strip_prefix("status: ") {
        Some(status) => ("type: LoadBalancer", status),
        None => (change, "{}"),
    };
    let (annotations, spec) = match spec.strip_prefix("annotations: ") {
        Some(annotations) => (annotations, ""),
        None => ("{}", spec),
    };
    let ports = Some("ports: [{port: 80, targetPort: 8080}]").filter(|_| !spec.contains("ports: "));
    let selector = Some("selector: {app: web}").filter(|_| !spec.starts_with("selector: "));
    let spec = Some(spec).filter(|spec| !spec.is_empty());
    let spec: Vec<_> = [spec, ports, selector].into_iter().flatten().collect();
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: shop, annotations: \
         {annotations}}}\n\
         spec: {{{}}}\nstatus: {status}\n",
        spec.join(", ")
    )
}

/// A Service with policy Local for external traffic, on a node in a zone, and its slice.
fn slice(change: &str) -> String {
    let (own, endpoint) = match change.strip_prefix('+') {
        Some(endpoint) => ("", endpoint),
        None => (change, ""),
    };
    let usual = [("addresses", "[10.4.0.1]"), ("nodeName", "node-a")];
    let first = with_usual(&usual, endpoint).join(", ");
    let second = "addresses: [10.4.0.2], hints: {forZones: [{name: zone-a}], \
                  forNodes: [{name: node-a}]}";
    let endpoints = format!("[{{{first}}}, {{{second}}}]");
    let usual = [
        ("addressType", "IPv4"),
        ("ports", "[{port: 80}]"),
        ("endpoints", endpoints.as_str()),
    ];
    format!(
        "{}---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: web-1, \
         namespace: shop, labels: {{kubernetes.io/service-name: web}}}}\n{}\n---\n\
         apiVersion: v1\nkind: Node\nmetadata: {{name: node-a, labels: \
         {{topology.kubernetes.io/zone: zone-a}}}}\n",
        service("externalIPs: [192.0.2.1], externalTrafficPolicy: Local"),
        with_usual(&usual, own).join("\n")
    )
}

/// Runs `diff` between two manifests, and returns its exit code and document.
#[expect(clippy::disallowed_methods, reason = "this test runs the program")]
fn diff(folder: &Path, before: &str, after: &str) -> (i32, Value) {
    fs::write(folder.join("before.yaml"), before).unwrap();
    fs::write(folder.join("after.yaml"), after).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_deltaproxy"))
        .args([
            "diff",
            // Some values are valid only beside others.
            "--lenient",
            "--from-manifests",
            "before.yaml",
            "--manifests",
            "after.yaml",
        ])
        .args(["--hostname-override", "node-a", "-o", "json"])
        .env("RUST_LOG", "error")
        .current_dir(folder)
        .output()
        .unwrap();
    let document = serde_json::from_slice(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (
        output.status.code().unwrap(),
        document.unwrap_or_else(|error| panic!("{error}: {stderr}")),
    )
}

#[test]
fn a_change_of_every_field_is_reported_or_documented() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/docs/commands.md");
    let docs = fs::read_to_string(docs).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut seen = BTreeSet::new();
    let mutations = [
        (ObjectKind::Service, SERVICE, service as fn(&str) -> String),
        (ObjectKind::EndpointSlice, SLICE, slice),
    ];
    for (kind, mutations, object) in mutations {
        for (path, before, after) in mutations {
            assert!(seen.insert((kind, *path)), "{path} twice");
            let listed = FIELD_ROLES
                .iter()
                .find(|(of, field, _)| (*of, *field) == (kind, path));
            let (_, _, role) = listed.unwrap_or_else(|| panic!("{path} has no role"));
            let (before, after) = (object(before), object(after));
            let (code, document) = diff(folder.path(), &before, &after);
            let all = format!("{path}: {document:#}\n{before}\n{after}");
            let has = |name: &str| !document[name].as_array().unwrap().is_empty();
            let name = path.rsplit(['.', ']']).next().unwrap();
            match role {
                FieldRole::Rules => assert!(has("servicePorts"), "{all}"),
                FieldRole::OtherPrograms => {
                    let fields = document["fields"].as_array().unwrap();
                    let named = fields
                        .iter()
                        .any(|field| field["field"].as_str().unwrap().contains(name));
                    assert!(named, "{all}");
                }
                FieldRole::NoEffect => {
                    assert!(!has("servicePorts") && !has("fields"), "{all}");
                    let row = format!("`{path}`");
                    assert!(docs.contains(&row), "the docs do not list {row}");
                }
                FieldRole::Unknown | FieldRole::Rejected => panic!("{path} is listed as {role:?}"),
            }
            assert_eq!(code, i32::from(*role != FieldRole::NoEffect), "{all}");
            // The other direction has no more and no fewer effects.
            assert_eq!(diff(folder.path(), &after, &before).0, code, "{path} back");
            let (code, document) = diff(folder.path(), &after, &after);
            assert_eq!(
                (code, &document["servicePorts"]),
                (0, &Value::Array(vec![]))
            );
        }
    }
    assert_eq!(seen.len(), FIELD_ROLES.len());
}
