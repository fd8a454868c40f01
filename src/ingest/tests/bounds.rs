//! What of an object is left out because it is too much.

use serde_json::{Value, json};

use super::{assert_noted, parse};
use crate::ingest::{Diagnostic, Interner, ServiceObject, service};
use crate::model::Service;

fn ingest(spec: &Value) -> (Service, Vec<Diagnostic>) {
    let object: ServiceObject = parse(json!({
        "metadata": { "namespace": "shop", "name": "cart" },
        "spec": spec,
    }));
    let (_, services, diagnostics) = service(&object, &mut Interner::default());
    (services.v4.unwrap(), diagnostics)
}

fn ports(count: u32) -> Vec<Value> {
    let port = |n: u32| json!({ "name": format!("p{n}"), "port": 1 + n % 65535 });
    (0..count).map(port).collect()
}

#[test]
fn ten_thousand_ports_are_served() {
    let spec = json!({ "clusterIP": "10.96.0.7", "ports": ports(10_000) });
    let (service, diagnostics) = ingest(&spec);
    assert_noted(&diagnostics, &[]);
    assert_eq!(service.ports.len(), 10_000);
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
           100000 rules; those after the first 100 are skipped",
        ],
    );
    assert_eq!(service.ports.len(), 100);
    assert!(service.ports.iter().any(|port| &*port.name == "p99"));
}

#[test]
fn ten_thousand_bad_ports_are_a_few_lines() {
    let bad = vec![json!({ "port": 0 }); 10_000];
    let spec = json!({ "clusterIP": "10.96.0.7", "ports": bad });
    let (service, diagnostics) = ingest(&spec);
    assert!(service.ports.is_empty());
    assert_eq!(diagnostics.len(), 21);
    assert_eq!(diagnostics[20].problem, "9980 more problems are not told");
}
