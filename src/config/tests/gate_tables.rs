//! Tables of feature gates, and what follows from them for a set of gates.

use super::*;

fn set(gates: &[(&str, bool)]) -> BTreeMap<String, bool> {
    let gates = gates
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value));
    gates.collect()
}

fn problems(gates: &[(&str, bool)]) -> Vec<String> {
    let mut problems = ConfigProblems::of(None);
    check(&set(gates), &mut problems);
    let problems = problems.unless_any(Some(())).err();
    let problems = problems
        .map(|unusable| unusable.problems)
        .unwrap_or_default();
    problems.into_iter().map(|one| one.problem).collect()
}

#[test]
fn every_line_of_a_table_is_a_gate() {
    for (gates, count) in RELEASES.iter().zip([242, 254]) {
        assert_eq!(gates.len(), count);
        for (name, gate) in gates {
            assert!(gate.accepts(gate.is_on), "{name}");
        }
    }
    let [_, newest] = &*RELEASES;
    let gate = &newest["ClusterTrustBundleProjection"];
    assert_eq!((gate.is_on, gate.is_locked), (true, false));
    let gate = &newest["NFTablesProxyMode"];
    assert_eq!((gate.is_on, gate.is_locked), (true, true));
}

#[test]
fn a_value_that_either_release_accepts_is_accepted() {
    for (name, value) in [
        ("KubeProxyIPVS", false),
        ("GangScheduling", false),
        ("SidecarContainers", true),
        ("HostnameOverride", false),
        ("AllowServiceExternalIPs", false),
        ("NFTablesProxyMode", true),
    ] {
        assert_eq!(problems(&[(name, value)]), [""; 0], "{name}");
        assert_eq!(notes(&set(&[(name, value)])), []);
    }
}

/// A release that this version does not follow may have them.
#[test]
fn unknown_gates_are_ignored_with_a_warning() {
    for (name, text) in [
        ("FutureGate", "unknown feature gate `FutureGate` ignored"),
        (
            "NFTableNetlink",
            "unknown feature gate `NFTableNetlink` ignored; did you mean `NFTablesNetlink`?",
        ),
        (
            "allowServiceExternalIPs",
            "unknown feature gate `allowServiceExternalIPs` ignored; did you mean \
             `AllowServiceExternalIPs`?",
        ),
        (
            "TopologyAwareHints",
            "unknown feature gate `TopologyAwareHints` ignored",
        ),
    ] {
        let gates = [(name, true)];
        assert_eq!(problems(&gates), [""; 0], "{name}");
        assert_eq!(notes(&set(&gates)), [ConfigNote::Warning(text.to_owned())]);
        assert_eq!(unknown(&set(&gates)).collect::<Vec<_>>(), [name]);
    }
}

/// Logs and pages stay readable, whatever a file holds.
#[test]
fn few_unknown_gates_are_named_and_none_at_length() {
    let long = "x".repeat(200);
    let names: Vec<String> = (0..5000).map(|index| format!("{long}{index}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), true)).collect();
    let notes = notes(&set(&many));
    assert_eq!(notes.len(), 11);
    assert_eq!(notes[10].text(), "4990 more unknown feature gates ignored");
    let shown = format!("unknown feature gate `{}...` ignored", "x".repeat(100));
    assert_eq!(notes[0].text(), shown);
}
