//! Parts of an object that are left out although they can be read, because no API server accepts
//! them.

use serde_json::{Value, json};

use super::{assert_noted, parse};
use crate::ingest::{Diagnostic, Interner, ServiceObject, endpoint_slice, service};
use crate::model::Service;

fn ingest(spec: &Value, ingress: &Value) -> (Service, Vec<Diagnostic>) {
    let object: ServiceObject = parse(json!({
        "metadata": { "namespace": "shop", "name": "cart" },
        "spec": spec,
        "status": { "loadBalancer": { "ingress": ingress } },
    }));
    let (_, services, diagnostics) = service(&object, &mut Interner::default());
    (services.v4.unwrap(), diagnostics)
}

#[test]
fn traffic_is_not_sent_to_the_node_itself() {
    let special = [
        "127.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "::ffff:127.0.0.1",
    ];
    let spec = json!({ "clusterIP": "10.96.0.7", "externalIPs": special });
    let (service, diagnostics) = ingest(&spec, &json!([]));
    assert!(service.external_ips.is_empty());
    assert_eq!(diagnostics.len(), 4);
    assert_eq!(
        diagnostics[0].problem,
        "`127.0.0.1` is unspecified, loopback or link-local; it is skipped"
    );
    let slice = parse(json!({
        "metadata": {
            "namespace": "shop",
            "name": "cart-1",
            "labels": { "kubernetes.io/service-name": "cart" },
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["127.0.0.1"] }, { "addresses": ["10.0.0.1"] }],
    }));
    let slice = endpoint_slice(&slice, "", &mut Interner::default());
    assert_noted(
        &slice.diagnostics,
        &[
            "endpoints[0].addresses[0]: `127.0.0.1` is unspecified, loopback or link-local; the endpoint is skipped",
        ],
    );
    assert_eq!(slice.slice.unwrap().endpoints.len(), 1);
}

#[test]
fn a_restriction_that_cannot_be_read_admits_nobody() {
    #[track_caller]
    fn check(ranges: &Value, expected: &[&str], noted: &[&str]) {
        let spec = json!({ "clusterIP": "10.96.0.7", "loadBalancerSourceRanges": ranges });
        let (service, diagnostics) = ingest(&spec, &json!([{ "ip": "1.2.3.4" }]));
        assert_noted(&diagnostics, noted);
        let ips: Vec<_> = service
            .load_balancer_ips
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(ips, expected);
    }
    let bad =
        "spec.loadBalancerSourceRanges[0]: `10.0.0.0/33` is not a valid network; it is skipped";
    let dropped = "spec.loadBalancerSourceRanges: invalid ranges leave an IP family without a \
                   source range; its load balancer addresses are skipped";
    check(&json!([]), &["1.2.3.4"], &[]);
    check(&json!([" "]), &["1.2.3.4"], &[]);
    check(&json!(["10.0.0.0/33", "10.0.0.0/8"]), &["1.2.3.4"], &[bad]);
    check(&json!(["10.0.0.0/33"]), &[], &[bad, dropped]);
    check(&json!(["10.0.0.0/33", "fd00::/8"]), &[], &[bad, dropped]);
    check(&json!(["fd00::/8"]), &["1.2.3.4"], &[]);
}
