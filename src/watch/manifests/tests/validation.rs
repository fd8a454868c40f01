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
fn the_first_value_of_a_wrong_type_is_found() {
    for (spec, expected) in [
        (
            json!({"ports": [{"port": "eighty"}], "selektor": {}}),
            "spec.ports[0].port: invalid type: string \"eighty\", expected i32",
        ),
        (
            json!({"ports": [{"port": 81}, 7]}),
            "spec.ports[1]: must be an object, got 7",
        ),
        (
            json!({"externalIPs": "10.0.0.1"}),
            "spec.externalIPs: invalid type: string \"10.0.0.1\", expected a sequence",
        ),
        (
            json!({"ports": [{"port": 80, "targetPort": [80]}]}),
            "spec.ports[0].targetPort: invalid type: sequence, expected IntOrString",
        ),
    ] {
        let object = json!({"metadata": {"name": "web"}, "spec": spec});
        assert_eq!(sorted_problems(&object), [expected]);
    }
}

#[test]
fn an_object_without_a_required_field_is_reported_once() {
    let object = json!({"metadata": {"name": "web"}, "status": {"conditions": [{}]}});
    let problems = sorted_problems(&object);
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].starts_with("status.conditions[0]: missing field "),
        "{problems:?}"
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
