//! Tests of unknown fields and values of wrong types.

use serde_json::json;

use super::*;

/// Returns the sorted texts of the problems of a Service.
fn sorted_problems(object: &Value) -> Vec<String> {
    let problems = problems(Kind::Service, object);
    let mut texts: Vec<_> = problems.into_iter().map(|one| one.text).collect();
    texts.sort();
    texts
}

#[test]
fn unknown_fields_and_wrong_types_are_found_together() {
    let object = json!({
        "metadata": {"name": "web", "labels": {"a": 5}},
        "spec": {
            "selektor": {"a": "b"},
            "ports": [{"port": "eighty"}, {"port": 81, "nodePort": [1]}, 7],
            "externalIPs": "10.0.0.1",
            "publishNotReadyAddresses": "yes",
            "selector": null,
        },
    });
    assert_eq!(
        sorted_problems(&object),
        [
            "metadata.labels.a: expected a string, got 5",
            "spec.externalIPs: expected an array, got \"10.0.0.1\"",
            "spec.ports[0].port: expected an integer, got \"eighty\"",
            "spec.ports[1].nodePort: expected an integer, got an array",
            "spec.ports[2]: expected an object, got 7",
            "spec.publishNotReadyAddresses: expected true or false, got \"yes\"",
            "unknown field \"spec.selektor\" (did you mean \"selector\"?)",
        ]
    );
}

#[test]
fn times_and_values_of_two_types_are_reported_once() {
    let object = json!({
        "metadata": {"name": "web", "creationTimestamp": "yesterday", "deletionTimestamp": 5},
        "spec": {"ports": [
            {"port": 80, "targetPort": [80]},
            {"port": 81, "targetPort": 80.5},
            {"port": 82, "targetPort": 3_000_000_000_u32},
        ]},
    });
    assert_eq!(
        sorted_problems(&object),
        [
            "metadata.creationTimestamp: expected a time in the format of RFC 3339, got \
             \"yesterday\"",
            "metadata.deletionTimestamp: expected a time in the format of RFC 3339, got 5",
            "spec.ports[0].targetPort: expected an integer or a string, got an array",
            "spec.ports[1].targetPort: expected an integer or a string, got 80.5",
            "spec.ports[2].targetPort: expected a 32-bit integer, got 3000000000",
        ]
    );
}

#[test]
fn an_object_without_a_required_field_is_reported_once() {
    let object = json!({"metadata": {"name": "web"}, "status": {"conditions": [{}]}});
    assert_eq!(
        sorted_problems(&object),
        ["status.conditions[0]: expected an object with all required fields, got an object"]
    );
}

#[test]
fn a_patch_is_named() {
    let object = json!({"metadata": {"name": "web"}, "spec": {"$patch": "delete"}});
    let text = &sorted_problems(&object)[0];
    assert!(
        text.starts_with("unknown field \"spec.$patch\": this is a patch"),
        "{text}"
    );
}
