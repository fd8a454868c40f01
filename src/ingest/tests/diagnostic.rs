//! Tests of `diagnostic`.

use super::*;

#[track_caller]
fn check(namespace: &str, name: &str, expected: &str) {
    let metadata = Metadata {
        namespace: namespace.into(),
        name: name.into(),
        ..Metadata::default()
    };
    let mut diagnostics = DiagnosticList::new(Kind::Service, &metadata);
    diagnostics.note(
        "spec.ports[1].port",
        "70000 is not a valid port; the port is skipped",
    );
    assert_eq!(diagnostics.into_list()[0].to_string(), expected);
}

#[test]
fn names_object_field_and_problem() {
    check(
        "shop",
        "cart",
        "Service `shop/cart`: spec.ports[1].port: 70000 is not a valid port; the port is skipped",
    );
    check(
        "",
        "a\nb\"",
        r#"Service `a\nb\"`: spec.ports[1].port: 70000 is not a valid port; the port is skipped"#,
    );
}

#[test]
fn many_problems_are_counted() {
    let metadata = Metadata::default();
    let mut diagnostics = DiagnosticList::new(Kind::Service, &metadata);
    for number in 0..MAX_DIAGNOSTICS + 3 {
        diagnostics.note(format!("spec.ports[{number}].port"), "is missing");
    }
    let list = diagnostics.into_list();
    assert_eq!(list.len(), MAX_DIAGNOSTICS + 1);
    assert_eq!(list[MAX_DIAGNOSTICS - 1].field, "spec.ports[19].port");
    assert_eq!(
        list[MAX_DIAGNOSTICS].to_string(),
        "Service ``: ...: 3 more problems are not listed"
    );
}

#[test]
fn long_text_is_cut() {
    assert_eq!(quoted(&"x".repeat(80)), format!("`{}`", "x".repeat(80)));
    assert_eq!(quoted(&"x".repeat(81)), format!("`{}…`", "x".repeat(80)));
}
