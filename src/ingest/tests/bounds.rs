//! What of an object is left out because it is too much.

use serde_json::{Value, json};

use super::{assert_noted, parse};
use crate::ingest::{Diagnostic, Interner, ServiceObject, endpoint_slice, service};
use crate::model::{ExternalIps, Service};

fn ingest(spec: &Value) -> (Service, Vec<Diagnostic>) {
    ingest_object(json!({
        "metadata": { "namespace": "shop", "name": "cart" },
        "spec": spec,
    }))
}

fn ingest_object(object: Value) -> (Service, Vec<Diagnostic>) {
    let object: ServiceObject = parse(object);
    let (_, services, diagnostics) = service(&object, &mut Interner::default());
    (services.v4.unwrap(), diagnostics)
}

fn ports(count: u32) -> Vec<Value> {
    let port = |n: u32| json!({ "name": format!("p{n}"), "port": 1 + n % 65535, "protocol": if n < 65535 { "TCP" } else { "UDP" } });
    (0..count).map(port).collect()
}

/// Indexes of ports have 16 bits.
#[test]
fn as_many_ports_are_served_as_have_an_index() {
    for (count, served) in [(65_535, 65_535), (65_536, 65_536), (65_537, 65_536)] {
        let spec = json!({ "clusterIP": "10.96.0.7", "ports": ports(count) });
        let (service, diagnostics) = ingest(&spec);
        let skipped =
            "spec.ports: 65537 ports are too many; those after the first 65536 are skipped";
        let expected: &[&str] = if count > served { &[skipped] } else { &[] };
        assert_noted(&diagnostics, expected);
        let frontends = service.frontends(ExternalIps::Served);
        assert_eq!(frontends.len(), usize::try_from(served).unwrap());
    }
}

#[test]
fn ports_times_addresses_are_limited() {
    let ips: Vec<_> = (0..999)
        .map(|n| format!("192.0.{}.{}", n / 250, n % 250))
        .collect();
    let spec = json!({ "clusterIP": "10.96.0.7", "ports": ports(10_000), "externalIPs": ips });
    let (service, diagnostics) = ingest(&spec);
    assert_noted(
        &diagnostics,
        &[
            "spec.ports: 10000 ports, each with 1000 addresses and source ranges, are more than \
           90000 rules; those after the first 90 are skipped",
        ],
    );
    assert_eq!(service.ports.len(), 90);
    assert!(service.ports.iter().any(|port| &*port.name == "p89"));
}

/// Those of its load balancer come first.
#[test]
fn external_addresses_of_a_service_are_limited() {
    let ips = |count: usize| -> Vec<_> {
        let ip = |n| format!("192.0.{}.{}", n / 250, n % 250);
        (0..count).map(ip).collect()
    };
    for (external, ingress, expected) in [
        (1000, 0, (1000, 0)),
        (1001, 0, (1000, 0)),
        (60_000, 10, (990, 10)),
        (10, 1001, (0, 1000)),
    ] {
        let ingress: Vec<_> = ips(ingress).iter().map(|ip| json!({ "ip": ip })).collect();
        let object = json!({
            "metadata": { "namespace": "shop", "name": "cart" },
            "spec": {
                "type": "LoadBalancer",
                "clusterIP": "10.96.0.7",
                "ports": ports(1),
                "externalIPs": ips(external),
            },
            "status": { "loadBalancer": { "ingress": ingress } },
        });
        let (service, diagnostics) = ingest_object(object);
        let found = (service.external_ips.len(), service.load_balancer_ips.len());
        assert_eq!(found, expected);
        let is_over = external + ingress.len() > 1000;
        assert_eq!(!diagnostics.is_empty(), is_over, "{diagnostics:?}");
    }
    let spec = json!({ "clusterIP": "10.96.0.7", "ports": ports(1), "externalIPs": ips(1001) });
    let expected = "spec.externalIPs: a Service can have 1000 external addresses; of 1001 here, \
                    those after the first 1000 are skipped";
    assert_noted(&ingest(&spec).1, &[expected]);
}

#[test]
fn ports_times_endpoints_of_a_slice_are_limited() {
    let slice = |ports: u32, endpoints: u32| {
        let ip = |n: u32| std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).to_string();
        let endpoints: Vec<_> = (0..endpoints)
            .map(|n| json!({ "addresses": [ip(n)] }))
            .collect();
        let object = parse(json!({
            "metadata": {
                "namespace": "shop",
                "name": "cart-1",
                "labels": { "kubernetes.io/service-name": "cart" },
            },
            "addressType": "IPv4",
            "ports": ports_reversed(ports),
            "endpoints": endpoints,
        }));
        endpoint_slice(&object, "", &mut Interner::default())
    };
    let all = slice(10_000, 10);
    assert_noted(&all.diagnostics, &[]);
    let all = all.slice.unwrap();
    assert_eq!((all.ports.len(), all.endpoints.len()), (10_000, 10));
    let some = slice(1000, 1000);
    assert_noted(
        &some.diagnostics,
        &[
            "ports: 1000 ports of 1000 endpoints are more than 250000 targets; those after the first \
           250 are skipped",
        ],
    );
    assert_eq!(some.slice.unwrap().ports.len(), 250);
}

fn ports_reversed(count: u32) -> Vec<Value> {
    ports(count).into_iter().rev().collect()
}
