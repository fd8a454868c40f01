//! What an EndpointSlice object amounts to.
//!
//! Upstream: `pkg/proxy/endpointslicecache_test.go`, `TestEndpointInfoByServicePort`,
//! `TestEndpointsMapFromESC` (v1.37)

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{assert_noted, parse};
use crate::ingest::{EndpointSliceObject, IngestedSlice, Interner, endpoint_slice};
use crate::model::{Endpoint, NodeHint};
use crate::net::IpFamily;

/// A slice of `shop/cart`, with these fields on top of plain ones.
fn object(fields: Value) -> EndpointSliceObject {
    let mut object = json!({
        "metadata": {
            "namespace": "shop",
            "name": "cart-x1",
            "labels": { "kubernetes.io/service-name": "cart" },
        },
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    });
    for (key, value) in fields.as_object().unwrap() {
        object[key] = value.clone();
    }
    parse(object)
}

/// Ingests a slice with these fields on node `here`.
fn ingest(fields: Value) -> IngestedSlice {
    endpoint_slice(&object(fields), "here", &mut Interner::default())
}

fn shown(endpoint: &Endpoint) -> String {
    let mut out = endpoint.ip.to_string();
    let facts = [
        (endpoint.is_ready, " ready"),
        (endpoint.is_serving, " serving"),
        (endpoint.is_terminating, " terminating"),
        (endpoint.is_local, " local"),
        (endpoint.node_hint == NodeHint::Here, " for-us"),
        (endpoint.node_hint == NodeHint::Elsewhere, " for-others"),
    ];
    for (_, word) in facts.iter().filter(|(holds, _)| *holds) {
        out.push_str(word);
    }
    if !endpoint.zone_hints.is_empty() {
        write!(out, " zones {:?}", endpoint.zone_hints).unwrap();
    }
    out
}

/// The endpoints of a slice with these, and no diagnostics.
#[track_caller]
fn check(endpoint: Value, expected: &str) {
    check_noted(json!({ "endpoints": [endpoint] }), &[expected], &[]);
}

#[track_caller]
fn check_noted(fields: Value, expected: &[&str], noted: &[&str]) {
    let ingested = ingest(fields);
    assert_noted(&ingested.diagnostics, noted);
    let endpoints = ingested.slice.unwrap().endpoints;
    let endpoints: Vec<String> = endpoints.iter().map(shown).collect();
    assert_eq!(endpoints, expected);
}

#[test]
fn nothing_is_local_to_a_nameless_node() {
    let endpoint =
        json!({ "addresses": ["10.1.0.1"], "nodeName": "", "hints": { "forNodes": [{}] } });
    let object = object(json!({ "endpoints": [endpoint] }));
    let slice = endpoint_slice(&object, "", &mut Interner::default()).slice;
    assert_eq!(
        shown(&slice.unwrap().endpoints[0]),
        "10.1.0.1 ready serving for-others"
    );
}

#[test]
fn only_the_first_address_counts() {
    check(
        json!({ "addresses": ["10.1.0.1", "10.1.0.2"] }),
        "10.1.0.1 ready serving",
    );
    check(
        json!({ "addresses": ["010.001.0.1"] }),
        "10.1.0.1 ready serving",
    );
    check_noted(
        json!({ "endpoints": [
            { "addresses": [] },
            { "addresses": ["pod.example", "10.1.0.2"] },
            { "addresses": ["fd00::1"] },
            { "addresses": ["127.0.0.1"] },
            { "addresses": ["10.1.0.3"] },
        ] }),
        &["10.1.0.3 ready serving"],
        &[
            "endpoints[0].addresses: is empty; the endpoint is skipped",
            "endpoints[1].addresses[0]: `pod.example` is not a valid IPv4 address; the endpoint is skipped",
            "endpoints[2].addresses[0]: `fd00::1` is not a valid IPv4 address; the endpoint is skipped",
            "endpoints[3].addresses[0]: `127.0.0.1` is unspecified, loopback or link-local; the endpoint is skipped",
        ],
    );
    check_noted(
        json!({ "addressType": "IPv6", "endpoints": [
            { "addresses": ["fd00::1"] },
            { "addresses": ["::ffff:10.1.0.1"] },
        ] }),
        &["fd00::1 ready serving"],
        &[
            "endpoints[1].addresses[0]: `::ffff:10.1.0.1` is not a valid IPv6 address; the endpoint is \
           skipped",
        ],
    );
}

#[test]
fn ports_need_a_name_and_a_number() {
    let ingested = ingest(json!({ "ports": [
        { "port": 80 },
        { "name": null, "port": 80 },
        { "name": "" , "port": 8080 },
        { "name": "dns", "port": 53, "protocol": "UDP" },
        { "name": "a" },
        { "name": "b", "port": 0 },
        { "name": "c", "port": 80, "protocol": "QUIC" },
    ] }));
    let ports = ingested.slice.unwrap().ports;
    let ports: Vec<String> = ports
        .iter()
        .map(|port| format!("{}:{}/{}", port.name, port.number, port.protocol))
        .collect();
    assert_eq!(ports, [":8080/tcp", "dns:53/udp"]);
    assert_noted(
        &ingested.diagnostics,
        &[
            "ports[0].name: is missing; the port is skipped",
            "ports[1].name: is missing; the port is skipped",
            "ports[4].port: is missing; the port is skipped",
            "ports[5].port: 0 is not a valid port; the port is skipped",
            "ports[6].protocol: `QUIC` is not a valid protocol; the port is skipped",
        ],
    );
}

#[test]
fn slice_belongs_to_the_service_of_its_label() {
    let ingested = ingest(json!({}));
    assert_eq!(ingested.name.to_string(), "shop/cart-x1");
    assert_eq!(ingested.slice.unwrap().service.as_str(), "shop/cart");

    let label = "metadata.labels[kubernetes.io/service-name]";
    for (labels, problem) in [
        (json!({}), "is missing"),
        (json!({ "kubernetes.io/service-name": null }), "is missing"),
        (json!({ "kubernetes.io/service-name": "" }), "is missing"),
        (
            json!({ "kubernetes.io/service-name": "a b" }),
            "`a b` is not a valid name",
        ),
    ] {
        let metadata = json!({ "namespace": "shop", "name": "cart-x1", "labels": labels });
        let ingested = ingest(json!({ "metadata": metadata }));
        assert_eq!(
            (ingested.family, ingested.slice),
            (Some(IpFamily::V4), None)
        );
        let noted = format!("{label}: {problem}; the object is skipped");
        assert_noted(&ingested.diagnostics, &[&noted]);
    }
}

#[test]
fn slices_of_host_names_have_no_family() {
    for (kind, shown) in [
        (json!("FQDN"), "FQDN"),
        (json!("ipv4"), "ipv4"),
        (json!(null), ""),
    ] {
        let ingested = ingest(json!({ "addressType": kind }));
        assert_eq!((ingested.family, ingested.slice), (None, None));
        let noted =
            format!("addressType: `{shown}` is not an IP address type; the slice is skipped");
        assert_noted(&ingested.diagnostics, &[&noted]);
    }
    assert_eq!(
        ingest(json!({ "addressType": "IPv6" })).family,
        Some(IpFamily::V6)
    );
}

#[test]
fn trigger_time_is_read_to_the_nanosecond() {
    let with = |time: Value| {
        ingest(json!({ "metadata": {
            "namespace": "shop",
            "name": "cart-x1",
            "labels": { "kubernetes.io/service-name": "cart" },
            "annotations": { "endpoints.kubernetes.io/last-change-trigger-time": time },
        } }))
    };
    let expected = SystemTime::UNIX_EPOCH + Duration::new(1_767_225_600, 123_456_789);
    for text in [
        "2026-01-01T00:00:00.123456789Z",
        "2026-01-01T02:00:00.123456789+02:00",
    ] {
        assert_eq!(with(json!(text)).trigger, Some(expected), "{text}");
    }
    assert_eq!(with(json!(null)).trigger, None);
    let ingested = with(json!("yesterday"));
    assert_eq!(ingested.trigger, None);
    assert!(ingested.slice.is_some());
    assert_noted(
        &ingested.diagnostics,
        &[
            "metadata.annotations[endpoints.kubernetes.io/last-change-trigger-time]: \
           `yesterday` is not a valid time; it is ignored",
        ],
    );
}

#[test]
fn zones_and_port_names_are_shared_between_slices() {
    let endpoint = json!({ "addresses": ["10.1.0.1"], "hints": { "forZones": [{ "name": "a" }] } });
    let ports = json!([{ "name": "web", "port": 80 }]);
    let object = object(json!({ "endpoints": [endpoint], "ports": ports }));
    let mut interner = Interner::default();
    let mut slice = || {
        endpoint_slice(&object, "here", &mut interner)
            .slice
            .unwrap()
    };
    let (first, second) = (slice(), slice());
    assert!(Arc::ptr_eq(&first.ports[0].name, &second.ports[0].name));
    let zone = |slice: &crate::model::Slice| Arc::clone(&slice.endpoints[0].zone_hints[0]);
    assert!(Arc::ptr_eq(&zone(&first), &zone(&second)));
}
