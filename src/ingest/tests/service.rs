//! What a Service object amounts to.
//!
//! Upstream: `pkg/proxy/servicechangetracker_test.go`, `TestServiceToServiceMap` (v1.37)
//! Upstream: `pkg/proxy/iptables/proxier_test.go`, `TestBadIPs` (v1.37)

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{assert_noted, parse};
use crate::cases::cases;
use crate::ingest::{Diagnostic, Interner, ServiceObject, service};
use crate::model::{Service, TrafficPolicy};
use crate::net::PerFamily;

fn ingest(object: Value) -> (PerFamily<Option<Service>>, Vec<Diagnostic>) {
    let object: ServiceObject = parse(object);
    let (_, services, diagnostics) = service(&object, &mut Interner::default());
    (services, diagnostics)
}

/// An object called `shop/cart` with this spec, cluster IP 10.96.0.7 and port 80 unless it says
/// otherwise.
fn cart(mut spec: Value) -> Value {
    let defaults = json!({ "clusterIP": "10.96.0.7", "ports": [{ "port": 80 }] });
    for (key, value) in defaults.as_object().unwrap() {
        let spec = spec.as_object_mut().unwrap();
        spec.entry(key).or_insert_with(|| value.clone());
    }
    json!({ "metadata": { "namespace": "shop", "name": "cart" }, "spec": spec })
}

/// One line per family; only what differs from the plainest Service is written.
fn shown(services: &PerFamily<Option<Service>>) -> String {
    let family = |service: &Option<Service>| service.as_ref().map_or("-".into(), one);
    format!("{} | {}", family(&services.v4), family(&services.v6))
}

fn one(service: &Service) -> String {
    let mut out = service.cluster_ip.to_string();
    if !service.external_ips.is_empty() {
        write!(out, " external {:?}", service.external_ips).unwrap();
    }
    if !service.load_balancer_ips.is_empty() {
        write!(out, " lb {:?}", service.load_balancer_ips).unwrap();
    }
    if !service.source_ranges.is_empty() {
        write!(out, " from {:?}", service.source_ranges).unwrap();
    }
    if service.internal_policy == TrafficPolicy::Local {
        out.push_str(" internal-local");
    }
    if service.external_policy == TrafficPolicy::Local {
        out.push_str(" external-local");
    }
    if let Some(affinity) = service.affinity {
        write!(out, " sticky {}s", affinity.as_secs()).unwrap();
    }
    if let Some(port) = service.health_check_node_port {
        write!(out, " health {port}").unwrap();
    }
    for port in &service.ports {
        write!(out, " {}:{}/{}", port.name, port.port, port.protocol).unwrap();
        if let Some(node_port) = port.node_port {
            write!(out, "@{node_port}").unwrap();
        }
    }
    out
}

/// `expected` is `IPv4 | IPv6`; nothing is reported.
#[track_caller]
fn check(spec: Value, expected: &str) {
    check_noted(spec, expected, &[]);
}

#[track_caller]
fn check_noted(spec: Value, expected: &str, noted: &[&str]) {
    let (services, diagnostics) = ingest(cart(spec));
    assert_eq!(shown(&services), expected);
    assert_noted(&diagnostics, noted);
}

/// Checks cases `SPEC => IPv4 | IPv6`, in JSON, each followed by what is reported.
#[track_caller]
fn check_all(table: &str) {
    for (case, noted) in cases(table) {
        let (spec, expected) = case.split_once(" => ").unwrap();
        let noted: Vec<&str> = noted.lines().collect();
        check_noted(serde_json::from_str(spec).unwrap(), expected, &noted);
    }
}

/// Without families the list is not looked at.
#[test]
fn cluster_ip_is_found_by_family() {
    check_all(
        r#"
{"clusterIP": "fd00::7"} => - | fd00::7 :80/tcp
{"clusterIPs": ["10.96.0.7", "fd00::7"]} => 10.96.0.7 :80/tcp | -
{"clusterIP": "fd00::7", "clusterIPs": ["fd00::7", "10.96.0.8"], "ipFamilies": ["IPv6", "IPv4"]} => 10.96.0.8 :80/tcp | fd00::7 :80/tcp
{"clusterIPs": ["10.96.0.7"], "ipFamilies": ["IPv4", "IPv6"]} => 10.96.0.7 :80/tcp | -
{"ipFamilies": ["IPv4"]} => - | -
"#,
    );
}

#[test]
fn cluster_ips_that_are_none_cost_their_family() {
    check_all(
        r#"
{"clusterIP": "10.96.0.700"} => - | -
    spec.clusterIP: `10.96.0.700` is not a valid address
{"clusterIPs": ["10.96.0.7", "10.96.0.8"], "ipFamilies": ["IPv4", "IPv6"]} => 10.96.0.7 :80/tcp | -
    spec.clusterIPs[1]: `10.96.0.8` is not a valid IPv6 address
"#,
    );
}

#[test]
fn external_ips_go_to_their_family_for_any_type() {
    for kind in ["ClusterIP", "NodePort", "LoadBalancer"] {
        check(
            json!({
                "type": kind,
                "clusterIPs": ["10.96.0.7", "fd00::7"],
                "ipFamilies": ["IPv4", "IPv6"],
                "externalIPs": ["192.0.2.9", "2001:db8::9", "192.0.2.1", " "],
            }),
            "10.96.0.7 external [192.0.2.9, 192.0.2.1] :80/tcp \
             | fd00::7 external [2001:db8::9] :80/tcp",
        );
    }
    check_noted(
        json!({ "externalIPs": ["", "lb.example", "192.0.2.9"] }),
        "10.96.0.7 external [192.0.2.9] :80/tcp | -",
        &["spec.externalIPs[1]: `lb.example` is not a valid address; it is skipped"],
    );
}

/// The API server rejects them: traffic to them would end on the node itself.
#[test]
fn external_ips_that_are_not_routed_are_skipped() {
    let special = [
        "127.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "::ffff:127.0.0.1",
    ];
    let (services, diagnostics) = ingest(cart(json!({ "externalIPs": special })));
    assert_eq!(shown(&services), "10.96.0.7 :80/tcp | -");
    assert_eq!(diagnostics.len(), special.len());
    assert_eq!(
        diagnostics[0].problem,
        "`127.0.0.1` is unspecified, loopback or link-local; it is skipped"
    );
}

#[test]
fn load_balancer_addresses_depend_on_their_mode() {
    let mut object = cart(json!({ "type": "ClusterIP" }));
    object["status"] = json!({ "loadBalancer": { "ingress": [
        { "ip": "198.51.100.1" },
        { "ip": "198.51.100.2", "ipMode": "Proxy" },
        { "ip": "198.51.100.3", "ipMode": "VIP" },
        { "hostname": "lb.example" },
        { "ip": "" },
        { "ip": "2001:db8::1" },
        { "ip": "nowhere" },
    ] } });
    let (services, diagnostics) = ingest(object);
    assert_eq!(
        shown(&services),
        "10.96.0.7 lb [198.51.100.1, 198.51.100.3] :80/tcp | -"
    );
    assert_noted(
        &diagnostics,
        &["status.loadBalancer.ingress[6].ip: `nowhere` is not a valid address; it is skipped"],
    );
}

#[test]
fn source_ranges_restrict_only_their_family() {
    let table = r#"
[" 10.1.2.3/8\t", "2001:db8::/32 ", "  "] => 10.96.0.7 from [10.0.0.0/8] | fd00::7 from [2001:db8::/32]
["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32"] => 10.96.0.7 | fd00::7 from [2001:db8::/32]
["::/0", "10.0.0.0/8"] => 10.96.0.7 from [10.0.0.0/8] | fd00::7
["10.0.0.0/33", "10.0.0.1"] => 10.96.0.7 | fd00::7
    spec.loadBalancerSourceRanges[0]: `10.0.0.0/33` is not a valid network; it is skipped
    spec.loadBalancerSourceRanges[1]: `10.0.0.1` is not a valid network; it is skipped
"#;
    let dual = r#"
{"clusterIPs": ["10.96.0.7", "fd00::7"], "ipFamilies": ["IPv4", "IPv6"], "ports": [], "loadBalancerSourceRanges": ["#;
    check_all(&table.replace("\n[", dual).replace("] =>", "]} =>"));
}

/// Otherwise a mistake in the only range would open the load balancer to everybody.
#[test]
fn a_source_range_that_cannot_be_parsed_admits_no_client() {
    let bad =
        "spec.loadBalancerSourceRanges[0]: `10.0.0.0/33` is not a valid network; it is skipped";
    let dropped = "spec.loadBalancerSourceRanges: invalid ranges leave an IP family without a \
                   source range; its load balancer addresses are skipped";
    for (ranges, is_open, noted) in [
        (json!([]), true, &[][..]),
        (json!([" "]), true, &[]),
        (json!(["10.0.0.0/33", "10.0.0.0/8"]), true, &[bad]),
        (json!(["10.0.0.0/33"]), false, &[bad, dropped]),
        (json!(["10.0.0.0/33", "fd00::/8"]), false, &[bad, dropped]),
        (json!(["fd00::/8"]), true, &[]),
    ] {
        let mut object = cart(json!({ "loadBalancerSourceRanges": ranges }));
        object["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }] } });
        let (services, diagnostics) = ingest(object);
        assert_noted(&diagnostics, noted);
        let has_address = !services.v4.unwrap().load_balancer_ips.is_empty();
        assert_eq!(has_address, is_open, "{ranges}");
    }
}

#[test]
fn affinity_has_a_default_timeout() {
    let with = |affinity: &str, config: Value| json!({ "sessionAffinity": affinity, "sessionAffinityConfig": config });
    let day = json!({ "clientIP": { "timeoutSeconds": 86400 } });
    check(
        with("ClientIP", day.clone()),
        "10.96.0.7 sticky 86400s :80/tcp | -",
    );
    check(with("None", day), "10.96.0.7 :80/tcp | -");
    for config in [json!(null), json!({}), json!({ "clientIP": {} })] {
        check(
            with("ClientIP", config),
            "10.96.0.7 sticky 10800s :80/tcp | -",
        );
    }
    for seconds in [0, -1, 86_401] {
        let problem = format!(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: \
             {seconds} is not from 1 to 86400; 10800 is used"
        );
        let config = json!({ "clientIP": { "timeoutSeconds": seconds } });
        let expected = "10.96.0.7 sticky 10800s :80/tcp | -";
        check_noted(with("ClientIP", config), expected, &[&problem]);
    }
}

#[test]
fn health_check_port_is_for_local_load_balancers() {
    let table = "
LoadBalancer Cluster 30100 => 10.96.0.7 :80/tcp | -
NodePort Local 30100 => 10.96.0.7 external-local :80/tcp | -
LoadBalancer Local 30100 => 10.96.0.7 external-local health 30100 :80/tcp | -
LoadBalancer Local null => 10.96.0.7 external-local :80/tcp | -
    spec.healthCheckNodePort: 0 is not a valid port; load balancers cannot ask for local endpoints
LoadBalancer Local 0 => 10.96.0.7 external-local :80/tcp | -
    spec.healthCheckNodePort: 0 is not a valid port; load balancers cannot ask for local endpoints
LoadBalancer Local 65536 => 10.96.0.7 external-local :80/tcp | -
    spec.healthCheckNodePort: 65536 is not a valid port; load balancers cannot ask for local endpoints
";
    for (case, noted) in cases(table) {
        let (spec, expected) = case.split_once(" => ").unwrap();
        let [kind, policy, port] = spec.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{case}");
        };
        let port: Value = serde_json::from_str(port).unwrap();
        let spec = json!({
            "type": kind, "externalTrafficPolicy": policy, "healthCheckNodePort": port,
        });
        check_noted(spec, expected, &noted.lines().collect::<Vec<_>>());
    }
}

#[test]
fn ports_are_sorted_by_name_then_protocol() {
    let ports = json!([
        { "name": "web", "port": 80, "nodePort": 30080 },
        { "name": "dns", "port": 53, "protocol": "UDP" },
        { "name": "call", "port": 5060, "protocol": "SCTP", "nodePort": 0 },
        { "name": "dns", "port": 53, "protocol": "TCP" },
    ]);
    let expected = "10.96.0.7 call:5060/sctp dns:53/tcp dns:53/udp web:80/tcp@30080 | -";
    check(json!({ "ports": ports }), expected);
}

#[test]
fn bad_ports_do_not_cost_the_good_ones() {
    let ports = json!([
        { "name": "a", "port": 70000 },
        { "name": "b" },
        { "name": "c", "port": 0 },
        { "name": "d", "port": 80, "protocol": "tcp" },
        { "name": "e", "port": 80, "nodePort": -5 },
        { "name": "f", "port": 80, "protocol": "" },
    ]);
    check_noted(
        json!({ "ports": ports }),
        "10.96.0.7 e:80/tcp f:80/tcp | -",
        &[
            "spec.ports[0].port: 70000 is not a valid port; the port is skipped",
            "spec.ports[1].port: is missing; the port is skipped",
            "spec.ports[2].port: is missing; the port is skipped",
            "spec.ports[3].protocol: `tcp` is not a valid protocol; the port is skipped",
            "spec.ports[4].nodePort: -5 is not a valid port; the port has no node port",
        ],
    );
}

#[test]
fn later_of_two_equal_ports_counts() {
    let ports = json!([
        { "name": "web", "port": 80 },
        { "name": "web", "port": 8080 },
        { "name": "web", "port": 8081, "protocol": "UDP" },
    ]);
    check_noted(
        json!({ "ports": ports }),
        "10.96.0.7 web:8080/tcp web:8081/udp | -",
        &["spec.ports[1]: has the name and protocol of an earlier port, and replaces it"],
    );
}

#[test]
fn names_that_could_break_a_rule_cost_the_object() {
    #[track_caller]
    fn check_name(namespace: &str, name: &str, port: &str, noted: &[&str]) {
        let mut object = cart(json!({ "ports": [{ "name": port, "port": 80 }] }));
        object["metadata"] = json!({ "namespace": namespace, "name": name });
        let (services, diagnostics) = ingest(object);
        assert_noted(&diagnostics, noted);
        assert_eq!(services.v4.is_some(), noted.is_empty());
    }

    let longest = "x".repeat(63);
    check_name(&longest, &longest, &longest, &[]);
    check_name("shop", "cart.v1_A", "", &[]);
    check_name(
        "",
        "cart",
        "",
        &["metadata.namespace: is missing; the object is skipped"],
    );
    check_name(
        "shop",
        "",
        "",
        &["metadata.name: is missing; the object is skipped"],
    );
    let field = "metadata.name";
    for (bad, shown) in [
        ("ca\"rt", r#"ca\"rt"#),
        ("ca rt", "ca rt"),
        ("cart\nCOMMIT", r"cart\nCOMMIT"),
        ("ca/rt", "ca/rt"),
        ("c\u{0}", r"c\0"),
        ("wägen", "wägen"),
        ("-t", "-t"),
        (".", "."),
    ] {
        let problem = format!("{field}: `{shown}` is not a valid name; the object is skipped");
        check_name("shop", bad, "", &[&problem]);
    }
    check_name(
        "shop",
        "cart",
        "we'b",
        &[r"spec.ports[0].name: `we\'b` is not a valid name; the object is skipped"],
    );
    let problem = format!("{field}: `{longest}x` is too long for a name; the object is skipped");
    check_name("shop", &"x".repeat(64), "", &[&problem]);
}

/// What other controllers act upon, and earlier releases of kube-proxy did.
#[test]
fn what_is_not_for_a_proxy_changes_nothing() {
    let mut object = cart(json!({
        "trafficDistribution": "PreferSameZone",
        "publishNotReadyAddresses": true,
        "loadBalancerIP": "192.0.2.1",
        "loadBalancerClass": "example.com/lb",
        "allocateLoadBalancerNodePorts": true,
        "selector": { "app": "cart" },
        "ports": [{ "port": 80, "targetPort": 8080, "appProtocol": "http" }],
    }));
    object["metadata"]["annotations"] = json!({
        "service.kubernetes.io/topology-mode": "Auto",
        "service.beta.kubernetes.io/load-balancer-source-ranges": "192.0.2.0/24",
    });
    let (services, diagnostics) = ingest(object);
    assert_eq!(services, ingest(cart(json!({}))).0);
    assert_noted(&diagnostics, &[]);
}

#[test]
fn port_names_are_shared() {
    let mut interner = Interner::default();
    let spec = json!({ "ports": [{ "name": "web", "port": 80 }] });
    let object: ServiceObject = parse(cart(spec));
    let mut name = || {
        let (_, services, _) = service(&object, &mut interner);
        services.v4.unwrap().ports[0].name.clone()
    };
    assert!(std::sync::Arc::ptr_eq(&name(), &name()));
}
