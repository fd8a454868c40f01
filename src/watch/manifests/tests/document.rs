//! Tests of kinds of documents.

use super::*;

#[track_caller]
fn check(version: &str, kind: &str, expected: &str) {
    let version = Some(version).filter(|version| !version.is_empty());
    let found = match DocumentKind::of(version, kind) {
        DocumentKind::Ingested(kind) => kind.as_str().to_owned(),
        other => format!("{other:?}"),
    };
    assert!(found.starts_with(expected), "{version:?} {kind}: {found}");
}

#[test]
fn the_group_and_the_kind_decide() {
    check("v1", "Service", "Service");
    check("", "Service", "Service");
    check("v1", "Servcie", "Unserved");
    check("v1beta1", "Service", "Unserved");
    check("apps/v1", "Service", "Unserved");
    check("serving.knative.dev/v1", "Service", "Other");
    check("discovery.k8s.io/v1", "EndpointSlice", "EndpointSlice");
    check("discovery.k8s.io/v1beta1", "EndpointSlice", "Unserved");
    check("v1", "EndpointSlice", "Unserved");
    check("v1", "Endpoints", "Endpoints");
    check("v1", "Secret", "Other");
    check("apps/v1", "Deployment", "Other");
    check("", "Servcie", "Other");
    check("serving.knative.dev/v1", "ServiceList", "Other");
}
