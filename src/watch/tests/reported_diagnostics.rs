//! Problems of objects that are logged, and those that are not logged again.

use super::*;

/// Returns the problems of an object that are logged.
fn logged(reported: &mut ReportedDiagnostics, object: u64, problems: &[&str]) -> Vec<String> {
    let diagnostics = problems.iter().map(|&problem| Diagnostic {
        kind: Kind::Service,
        object: format!("shop/{object}"),
        field: "spec".into(),
        problem: problem.into(),
    });
    let unreported = reported.unreported(object, diagnostics.collect());
    unreported.into_iter().map(|one| one.problem).collect()
}

#[test]
fn diagnostics_are_logged_once_while_they_hold() {
    let name = ObjectName {
        namespace: "shop".to_owned(),
        name: "a".to_owned(),
    };
    let a = hash((Kind::Service, &name.namespace, &name.name));
    let mut reported = ReportedDiagnostics::default();
    assert_eq!(logged(&mut reported, a, &["x", "y"]), ["x", "y"]);
    assert!(logged(&mut reported, a, &["x", "y"]).is_empty());
    assert_eq!(logged(&mut reported, a, &["x", "z"]), ["z"]);
    assert_eq!(logged(&mut reported, 1, &["x"]), ["x"]);
    // Valid for a while, and then invalid again.
    assert!(logged(&mut reported, a, &[]).is_empty());
    assert_eq!(logged(&mut reported, a, &["x"]), ["x"]);
    reported.forget(Kind::Service, &name);
    assert_eq!(logged(&mut reported, a, &["x"]), ["x"]);
}

#[test]
fn reported_diagnostics_are_bounded() {
    let mut reported = ReportedDiagnostics::default();
    for object in 0..3 * MAX_REPORTED_OBJECTS as u64 {
        logged(&mut reported, object, &["x"]);
    }
    assert!(reported.objects.len() <= MAX_REPORTED_OBJECTS);
}
