//! Values that Services of manifests lack: what an API server or a controller would set.

use std::collections::BTreeSet;
use std::fs;

use crate::ingest::ServiceObject;
use crate::watch::manifests::{
    AssumedValueKind, ManifestOptions, ManifestPair, Manifests, Validation, assumption_lines, load,
    load_pair,
};

fn options() -> ManifestOptions {
    ManifestOptions::new("here".into())
}

/// Settings of a preview, which assumes load balancer IPs.
fn preview() -> ManifestOptions {
    let mut options = options();
    options.ranges.load_balancers = Some(crate::net::PerFamily {
        v4: "198.18.0.0/16".parse().unwrap(),
        v6: "2001:2::/64".parse().unwrap(),
    });
    options
}

fn service(name: &str, spec: &str) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n---\n")
}

fn load_text(text: &str, options: &ManifestOptions) -> Manifests {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.yaml"), text).unwrap();
    load(directory.path(), options, Validation::Lenient).unwrap()
}

fn load_texts(before: &str, after: &str) -> ManifestPair {
    let directory = tempfile::tempdir().unwrap();
    let [old, new] = ["before.yaml", "after.yaml"].map(|name| directory.path().join(name));
    fs::write(&old, before).unwrap();
    fs::write(&new, after).unwrap();
    load_pair([&old, &new], &preview(), Validation::Lenient).unwrap()
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
        let mut all: BTreeSet<i64> = ports.into_iter().filter(|port| *port != 0).collect();
        assert!(!all.contains(&health_check), "{spec}");
        all.retain(|port| *port != 0);
        assert_eq!(all.len(), allocated, "{spec}");
        assert!(balanced(service).is_empty(), "{spec}");
        assert_eq!(manifests.notes, Vec::<String>::new(), "{spec}");
    }
}

#[test]
fn explicit_ports_are_respected_and_never_allocated() {
    let mut options = options();
    options.ranges.node_ports = "30000-30003".parse().unwrap();
    let text = service("a", &format!("type: NodePort, {TWO_PORTS}"))
        + &service("b", "type: NodePort, ports: [{port: 80, nodePort: 30001}]")
        + &service(
            "c",
            "type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30002, \
             allocateLoadBalancerNodePorts: false, ports: [{port: 80, nodePort: 30009}]",
        );
    let manifests = load_text(&text, &options);
    let [a, b, c] = manifests.services.as_slice() else {
        panic!("three Services")
    };
    let mut of_a = node_ports(a);
    of_a.sort_unstable();
    assert_eq!(of_a, [30000, 30003]);
    assert_eq!(node_ports(b), [30001]);
    assert_eq!(
        (node_ports(c), c.spec.health_check_node_port),
        (vec![30009], 30002)
    );
    // One more than the range has.
    let text = text + &service("d", "type: NodePort, ports: [{port: 80}]");
    let manifests = load_text(&text, &options);
    assert_eq!(
        manifests.notes,
        ["Service `default/d:80`: no free node port in the range 30000-30003"]
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
        assumption_lines(&assumed, &preview().ranges),
        [
            "load balancer IPs from 198.18.0.0/16,2001:2::/64: default/a 198.18.33.57, \
          default/a 2001:2::9efb:3611:7d50:566f"
        ]
    );
    let manifests = load_text(&text, &options());
    assert!(balanced(&manifests.services[0]).is_empty());
}

#[test]
fn both_sides_of_a_pair_have_the_same_values() {
    let spec = format!("type: LoadBalancer, externalTrafficPolicy: Local, {TWO_PORTS}");
    let bare = service("a", &spec);
    let explicit = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  \
                    type: LoadBalancer\n  externalTrafficPolicy: Local\n  \
                    clusterIP: 10.96.0.9\n  healthCheckNodePort: 31000\n  \
                    ports: [{name: a, port: 90, nodePort: 31001}, {name: b, port: 81}]\n\
                    status: {loadBalancer: {ingress: [{ip: 203.0.113.9}]}}\n";
    for (before, after) in [(&bare[..], explicit), (explicit, &bare), (&bare, &bare)] {
        let pair = load_texts(before, after);
        let (old, new) = (&pair.before.services[0], &pair.after.services[0]);
        assert_eq!(old.spec.cluster_ips, new.spec.cluster_ips);
        // A node port that is set later was another one before; the second port is allocated once.
        assert_eq!(node_ports(old)[1], node_ports(new)[1]);
        let is_pinned = before != explicit && after == explicit;
        assert_eq!(node_ports(old)[0] != node_ports(new)[0], is_pinned);
        assert_eq!(
            old.spec.health_check_node_port,
            new.spec.health_check_node_port
        );
        assert_eq!(balanced(old), balanced(new));
        // The first state has recorded all of them.
        assert_eq!(pair.after.assumptions, []);
        if [before, after].contains(&explicit) {
            assert_eq!(old.spec.cluster_ip, "10.96.0.9");
            assert_eq!(node_ports(new)[0], 31001);
            assert_eq!(old.spec.health_check_node_port, 31000);
            assert_eq!(balanced(old), ["203.0.113.9"]);
        }
    }
}

/// As on an API server, `clusterIP` without `clusterIPs` keeps the address of the other family.
#[test]
fn the_second_cluster_ip_is_kept_with_the_first() {
    let dual = "ipFamilyPolicy: RequireDualStack, ports: [{port: 80}], clusterIP: 10.96.0.9";
    let before = service(
        "a",
        &format!("{dual}, clusterIPs: [10.96.0.9, 'fd00:10:96::9']"),
    );
    let pair = load_texts(&before, &service("a", dual));
    let [old, new] = [&pair.before, &pair.after].map(|state| &state.services[0].spec);
    assert_eq!(new.cluster_ips, ["10.96.0.9", "fd00:10:96::9"]);
    assert_eq!(old.cluster_ips, new.cluster_ips);
    assert_eq!(pair.after.assumptions, []);
    let moved = dual.replace("0.9", "0.8");
    let pair = load_texts(&before, &service("a", &moved));
    assert_ne!(pair.after.services[0].spec.cluster_ips[1], "fd00:10:96::9");
}

/// A value that is kept must not push another Service off the one that it has in writing.
#[test]
fn a_value_of_another_service_is_not_kept() {
    let spec = "type: NodePort, ports: [{port: 80}]";
    let alone = load_text(&service("a", spec), &options());
    let (ip, port) = (
        alone.services[0].spec.cluster_ip.clone(),
        node_ports(&alone.services[0])[0],
    );
    let taken = format!("type: NodePort, clusterIP: {ip}, ports: [{{port: 80, nodePort: {port}}}]");
    let pair = load_texts(
        &service("a", spec),
        &(service("a", spec) + &service("b", &taken)),
    );
    let [a, b] = pair.after.services.as_slice() else {
        panic!("two Services")
    };
    assert_eq!((&b.spec.cluster_ip, node_ports(b)[0]), (&ip, port));
    assert_ne!(a.spec.cluster_ip, ip);
    assert_ne!(node_ports(a)[0], port);
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

const WORKLOADS: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web, tier: front}}
    spec:
      containers: [{ports: [{name: http, containerPort: 8080}, {containerPort: 1}]}]
      initContainers:
      - {ports: [{name: side, containerPort: 9}]}
      - {restartPolicy: Always, ports: [{name: side, containerPort: 10}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: web}
spec: {jobTemplate: {spec: {template: {
  metadata: {labels: {app: job}}, spec: {containers: [{ports: [{name: http, containerPort: 8081}]}]}}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: pod}}
spec: {containers: [{ports: [{name: http, protocol: UDP, containerPort: 8082}]}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: elsewhere}
spec: {template: {
  metadata: {labels: {app: web}}, spec: {containers: [{ports: [{name: http, containerPort: 8083}]}]}}}
---
";

#[test]
fn each_selector_has_a_local_endpoint_and_another_one() {
    for (spec, numbers) in [
        ("selector: {app: x}, ports: [{port: 80}]", &[80][..]),
        (
            "selector: {app: x}, ports: [{port: 80, targetPort: 8000}]",
            &[8000],
        ),
        (
            "selector: {app: web}, ports: [{port: 80, targetPort: http}]",
            &[8080],
        ),
        (
            "selector: {app: web}, ports: [{port: 80, targetPort: side}]",
            &[10],
        ),
        (
            "selector: {app: job}, ports: [{port: 80, targetPort: http}]",
            &[8081],
        ),
        (
            "selector: {app: pod}, ports: [{port: 80, targetPort: http, protocol: UDP}]",
            &[8082],
        ),
        // Of no Pod template: another protocol, another label, another name.
        (
            "selector: {app: pod}, ports: [{port: 80, targetPort: http}]",
            &[51179],
        ),
        (
            "selector: {app: web, a: b}, ports: [{port: 80, targetPort: http}]",
            &[51179],
        ),
        (
            "selector: {app: web}, ports: [{port: 80, targetPort: other}]",
            &[62296],
        ),
        ("ports: [{port: 80}]", &[]),
        (
            "type: ExternalName, selector: {app: x}, ports: [{port: 80}]",
            &[],
        ),
    ] {
        let text = WORKLOADS.to_owned() + &service("a", spec);
        let pair = load_texts(&text, &text);
        let found = endpoints(&pair.before);
        assert_eq!(found, endpoints(&pair.after), "{spec}");
        assert_eq!(found.len(), 2 * numbers.len(), "{spec}: {found:?}");
        for (endpoint, node) in found.iter().zip(["@here", "@not-here"]) {
            assert!(endpoint.starts_with("198.19."), "{spec}: {endpoint}");
            let end = format!(":{}{node}", numbers[0]);
            assert!(endpoint.ends_with(&end), "{spec}: {endpoint}");
        }
    }
}

#[test]
fn different_numbers_of_one_named_port_have_endpoints_each() {
    let other = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: b}\nspec: {template: {\
                 metadata: {labels: {app: web}}, spec: {containers: [\
                 {ports: [{name: http, containerPort: 7070}]}]}}}\n---\n";
    let spec = "selector: {app: web}, ports: [{port: 80, targetPort: http}]";
    let text = WORKLOADS.to_owned() + other + &service("a", spec);
    let found = endpoints(&load_texts(&text, &text).before);
    assert_eq!(found.len(), 4);
    for number in [
        ":7070@here",
        ":8080@here",
        ":7070@not-here",
        ":8080@not-here",
    ] {
        let of_number = found.iter().filter(|one| one.ends_with(number));
        assert_eq!(of_number.count(), 1, "{number}: {found:?}");
    }
}

/// The controller keeps its slices when the Service is applied again from a repository.
#[test]
fn slices_of_one_side_are_those_of_both() {
    let slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
                 metadata: {name: a-1, labels: {kubernetes.io/service-name: a}}\n\
                 addressType: IPv4\nports: [{port: 80}]\n\
                 endpoints: [{addresses: [10.4.0.1], nodeName: here}]\n";
    let bare = service("a", "selector: {app: x}, ports: [{port: 80}]");
    let full = bare.clone() + slice;
    for (before, after) in [(&bare, &full), (&full, &bare)] {
        let pair = load_texts(before, after);
        for side in [&pair.before, &pair.after] {
            assert_eq!(endpoints(side), ["10.4.0.1:80@here"]);
        }
    }
    // Without a selector, a slice is an object like any other.
    let bare = service("a", "ports: [{port: 80}]");
    let pair = load_texts(&(bare.clone() + slice), &bare);
    assert!(endpoints(&pair.after).is_empty());
}

/// A link without a target is the error, not each file that was below it.
#[test]
fn services_below_a_directory_that_is_missing_are_incomplete() {
    let directory = tempfile::tempdir().unwrap();
    let [old, new] = ["before", "after"].map(|name| directory.path().join(name));
    fs::create_dir_all(old.join("c")).unwrap();
    fs::create_dir(&new).unwrap();
    fs::write(old.join("c/web.yaml"), service("web", TWO_PORTS)).unwrap();
    for state in [&old, &new] {
        fs::write(state.join("other.yaml"), service("other", TWO_PORTS)).unwrap();
    }
    std::os::unix::fs::symlink("nowhere", new.join("c")).unwrap();
    let pair = load_pair([&old, &new], &preview(), Validation::Lenient).unwrap();
    let is_incomplete = |name| pair.incomplete_services.contains("default", name);
    assert_eq!(["web", "other"].map(is_incomplete), [true, false]);
}
