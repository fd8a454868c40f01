//! Values that Services of manifests lack: what an API server or a controller would set.

use super::manifests::{self, directory, options};
use crate::ingest::ServiceObject;
use crate::watch::manifests::{
    AssumedValueKind, ManifestOptions, Manifests, Validation, assumption_lines, load, load_compared,
};
use std::collections::BTreeSet;

/// Settings of a preview, which assumes load balancer IPs.
fn preview() -> ManifestOptions {
    ManifestOptions {
        assumes_load_balancer_ips: true,
        ..options()
    }
}

fn service(name: &str, spec: &str) -> String {
    manifests::service(name, spec) + "---\n"
}

fn load_text(text: &str, options: &ManifestOptions) -> Manifests {
    let directory = directory(&[("a.yaml", text)]);
    load(directory.path(), options, Validation::Lenient).unwrap()
}

/// Reads manifests as one side of a comparison.
fn load_side(text: &str) -> Manifests {
    let directory = directory(&[("a.yaml", text)]);
    let path = directory.path().join("a.yaml");
    load_compared(&path, &preview(), Validation::Lenient)
        .unwrap()
        .0
}

fn node_ports(service: &ServiceObject) -> Vec<i64> {
    let ports = service.spec.ports.iter();
    ports.map(|port| port.node_port).collect()
}

fn balanced(service: &ServiceObject) -> Vec<&str> {
    let ingress = service.status.load_balancer.ingress.iter();
    ingress.map(|one| one.ip.as_str()).collect()
}

const TWO_PORTS: &str = "ports: [{name: a, port: 80}, {name: b, port: 81}]";

#[test]
fn node_ports_are_allocated_by_type() {
    for (spec, allocated, health) in [
        ("type: ClusterIP", 0, false),
        ("type: NodePort", 2, false),
        ("type: LoadBalancer", 2, false),
        (
            "type: LoadBalancer, allocateLoadBalancerNodePorts: false",
            0,
            false,
        ),
        ("type: LoadBalancer, externalTrafficPolicy: Local", 2, true),
        (
            "type: LoadBalancer, externalTrafficPolicy: Local, allocateLoadBalancerNodePorts: false",
            0,
            true,
        ),
        ("type: NodePort, externalTrafficPolicy: Local", 2, false),
        ("type: ExternalName", 0, false),
    ] {
        let text = service("a", &format!("{spec}, {TWO_PORTS}"));
        let manifests = load_text(&text, &options());
        let [service] = manifests.services.as_slice() else {
            panic!("{spec}")
        };
        let ports = node_ports(service);
        let valid = ports.iter().filter(|port| (30000..=32767).contains(*port));
        assert_eq!(valid.count(), allocated, "{spec}: {ports:?}");
        let health_check = service.spec.health_check_node_port;
        assert_eq!((30000..=32767).contains(&health_check), health, "{spec}");
        let all: BTreeSet<i64> = ports.into_iter().filter(|port| *port != 0).collect();
        assert!(!all.contains(&health_check), "{spec}");
        assert_eq!(all.len(), allocated, "{spec}");
        assert!(balanced(service).is_empty(), "{spec}");
        assert_eq!(manifests.notes, Vec::<String>::new(), "{spec}");
    }
}

#[test]
fn explicit_ports_are_respected_and_never_allocated() {
    // All but five of the range.
    let ports =
        (30005..=32767).map(|port| format!("{{name: a{port}, port: {port}, nodePort: {port}}}"));
    let ports = ports.collect::<Vec<_>>().join(", ");
    let text = service("a", &format!("type: NodePort, {TWO_PORTS}"))
        + &service("z", &format!("type: NodePort, ports: [{ports}]"))
        + &service(
            "b",
            "type: NodePort, ports: [{name: w, port: 80, nodePort: 30001}, {name: x, port: 81, nodePort: 30004}]",
        )
        + &service(
            "c",
            "type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30002, \
             allocateLoadBalancerNodePorts: false, ports: [{port: 80, nodePort: 30009}]",
        );
    let manifests = load_text(&text, &options());
    let [a, b, c, _] = manifests.services.as_slice() else {
        panic!("four Services")
    };
    let mut of_a = node_ports(a);
    of_a.sort_unstable();
    assert_eq!(of_a, [30000, 30003]);
    assert_eq!(node_ports(b), [30001, 30004]);
    assert_eq!(
        (node_ports(c), c.spec.health_check_node_port),
        (vec![30009], 30002)
    );
    // One more than the range has.
    let text = text + &service("d", "type: NodePort, ports: [{port: 80}]");
    let manifests = load_text(&text, &options());
    assert_eq!(
        manifests.notes,
        ["Service `default/d:80`: no free node port in the range"]
    );
}

#[test]
fn protocols_of_one_port_share_a_node_port() {
    let ports = "type: NodePort, ports: [{name: u, port: 53, protocol: UDP}, \
                 {name: t, port: 53}, {name: m, port: 9153}]";
    let manifests = load_text(&service("dns", ports), &options());
    let numbers = node_ports(&manifests.services[0]);
    assert_eq!(numbers[0], numbers[1]);
    assert_ne!(numbers[0], numbers[2]);
}

#[test]
fn load_balancer_ips_are_assumed_for_previews_only() {
    let dual = "type: LoadBalancer, ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]";
    let reported = "apiVersion: v1\nkind: Service\nmetadata: {name: z}\n\
                    spec: {type: LoadBalancer, ports: [{port: 80}]}\n\
                    status: {loadBalancer: {ingress: [{hostname: lb.example}]}}\n";
    let text = service("a", dual) + reported;
    let manifests = load_text(&text, &preview());
    let [a, z] = manifests.services.as_slice() else {
        panic!("two Services")
    };
    // Literal addresses, so that no release changes them.
    assert_eq!(balanced(a), ["198.18.33.57", "2001:2::9efb:3611:7d50:566f"]);
    assert_eq!(balanced(z), [""]);
    let mut assumed = manifests.assumptions;
    assumed.retain(|one| one.kind == AssumedValueKind::LoadBalancerIp);
    assert_eq!(
        assumption_lines(&assumed),
        [
            "load balancer IPs from 198.18.0.0/16,2001:2::/64: default/a 198.18.33.57, \
          default/a 2001:2::9efb:3611:7d50:566f"
        ]
    );
    let manifests = load_text(&text, &options());
    assert!(balanced(&manifests.services[0]).is_empty());
}

/// `address:port` of all endpoints, the first of each slice being local.
fn endpoints(manifests: &Manifests) -> Vec<String> {
    let mut all = Vec::new();
    for slice in &manifests.endpoint_slices {
        for endpoint in &slice.endpoints {
            for port in &slice.ports {
                let node = endpoint.node_name.as_deref().unwrap_or_default();
                let (ip, number) = (&endpoint.addresses[0], port.port.unwrap());
                all.push(format!("{ip}:{number}@{node}"));
            }
        }
    }
    all
}

#[test]
fn each_selector_has_a_local_endpoint_and_another_one() {
    for (spec, number) in [
        ("selector: {app: x}, ports: [{port: 80}]", Some(80)),
        (
            "selector: {app: x}, ports: [{port: 80, targetPort: 8000}]",
            Some(8000),
        ),
        // Only Pods have the number of a name.
        (
            "selector: {app: x}, ports: [{port: 80, targetPort: http}]",
            Some(80),
        ),
        ("ports: [{port: 80}]", None),
        (
            "type: ExternalName, selector: {app: x}, ports: [{port: 80}]",
            None,
        ),
    ] {
        let found = endpoints(&load_side(&service("a", spec)));
        let expected = number.map_or(0, |_| 2);
        assert_eq!(found.len(), expected, "{spec}: {found:?}");
        for (endpoint, node) in found.iter().zip(["@here", "@not-here"]) {
            assert!(endpoint.starts_with("198.19."), "{spec}: {endpoint}");
            let end = format!(":{}{node}", number.unwrap());
            assert!(endpoint.ends_with(&end), "{spec}: {endpoint}");
        }
    }
}

#[test]
fn slices_of_a_manifest_are_not_replaced() {
    let slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
                 metadata: {name: a-1, labels: {kubernetes.io/service-name: a}}\n\
                 addressType: IPv4\nports: [{port: 80}]\n\
                 endpoints: [{addresses: [10.4.0.1], nodeName: here}]\n";
    let text = service("a", "selector: {app: x}, ports: [{port: 80}]") + slice;
    assert_eq!(endpoints(&load_side(&text)), ["10.4.0.1:80@here"]);
}
