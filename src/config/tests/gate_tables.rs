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
    for (release, count) in RELEASES.iter().zip([242, 254]) {
        assert_eq!(release.gates.len(), count, "{}", release.minor);
        for (name, gate) in &release.gates {
            let stages = ["alpha", "beta", "ga", "deprecated"];
            assert!(stages.contains(&gate.stage), "{name}");
            let mut requires = gate.requires.iter();
            assert!(
                requires.all(|name| release.gates.contains_key(name)),
                "{name}"
            );
        }
    }
    let [_, release] = &*RELEASES;
    let gate = &release.gates["ClusterTrustBundleProjection"];
    assert_eq!(
        (gate.stage, gate.is_on, gate.is_locked),
        ("ga", true, false)
    );
    assert_eq!(gate.requires, ["ClusterTrustBundle"]);
    let gate = &release.gates["NFTablesProxyMode"];
    assert_eq!((gate.stage, gate.is_on, gate.is_locked), ("ga", true, true));
}

/// Single gates that kube-proxy v1.37.2 was seen to reject because of other gates. AllAlpha is
/// accepted by v1.36.
#[test]
fn gates_that_require_others_cannot_be_changed_alone() {
    let rejected = |release: &Release, value| -> Vec<&'static str> {
        let is_rejected = |name| release.objection(name, &set(&[(name, value)])).is_some();
        let gates = release.gates.iter();
        gates
            .filter(|(name, gate)| !gate.is_locked && is_rejected(name))
            .map(|(name, _)| *name)
            .collect()
    };
    let [old, new] = &*RELEASES;
    assert_eq!(
        rejected(new, false),
        [
            "APIServerIdentity",
            "AtomicFIFO",
            "ClusterTrustBundle",
            "ContainerRestartRules",
            "DRADeviceTaints",
            "GracefulNodeShutdown",
            "MatchLabelKeysInPodTopologySpread",
            "PodLevelResources",
            "ResourceHealthStatus",
        ]
    );
    assert_eq!(
        rejected(new, true),
        [
            "AllAlpha",
            "CompositePodGroup",
            "DRAPartitionableDevicesType",
            "DRAWorkloadResourceClaims",
            "PodGroupPreemptionPolicy",
            "TopologyAwareWorkloadScheduling",
            "WorkloadWithJob",
        ]
    );
    assert_eq!(rejected(old, false).len() + rejected(old, true).len(), 15);
    assert!(!rejected(old, true).contains(&"AllAlpha"));
    assert_eq!(
        problems(&[("ResourceHealthStatus", false)]),
        ["feature gate `ResourceHealthStatusMessage` requires `ResourceHealthStatus`"]
    );
    let both = [
        ("ResourceHealthStatus", false),
        ("ResourceHealthStatusMessage", false),
    ];
    assert_eq!(problems(&both), [""; 0]);
}

#[test]
fn a_value_that_either_release_accepts_is_accepted_and_noted() {
    let rejects = |minor, gate, reason| {
        format!("kube-proxy {minor} would reject feature gate `{gate}`: {reason}")
    };
    let unknown = "unknown feature gate";
    for (name, value, minor, reason) in [
        ("KubeProxyIPVS", false, "1.36", unknown),
        ("GangScheduling", false, "1.37", unknown),
        ("SidecarContainers", true, "1.37", unknown),
        (
            "HostnameOverride",
            false,
            "1.37",
            "feature gate `HostnameOverride` must be true, got false",
        ),
        (
            "AllAlpha",
            true,
            "1.37",
            "feature gate `CompositePodGroup` requires `GenericWorkload` (because of `AllAlpha`), and 3 more",
        ),
    ] {
        assert_eq!(problems(&[(name, value)]), [""; 0], "{name}");
        let note = ConfigNote::Note(rejects(minor, name, reason));
        assert_eq!(notes(&set(&[(name, value)])), [note]);
    }
    for (name, value) in [
        ("AllowServiceExternalIPs", false),
        ("NFTablesProxyMode", true),
    ] {
        assert_eq!(problems(&[(name, value)]), [""; 0]);
        assert_eq!(notes(&set(&[(name, value)])), []);
    }
}

/// One release does not have these, and the other rejects them: so would any kube-proxy.
#[test]
fn a_value_that_neither_release_accepts_is_a_problem() {
    for (name, value, problem) in [
        (
            "SidecarContainers",
            false,
            "feature gate `SidecarContainers` must be true, got false",
        ),
        (
            "CompositePodGroup",
            true,
            "feature gate `CompositePodGroup` requires `GenericWorkload`, and 1 more",
        ),
        (
            "GangScheduling",
            true,
            "feature gate `GangScheduling` requires `GenericWorkload`",
        ),
    ] {
        assert_eq!(problems(&[(name, value)]), [problem], "{name}");
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
            "feature gate `TopologyAwareHints` was removed: the feature is always on",
        ),
    ] {
        let gates = [(name, true)];
        assert_eq!(problems(&gates), [""; 0], "{name}");
        assert_eq!(notes(&set(&gates)), [ConfigNote::Warning(text.to_owned())]);
        assert_eq!(unknown(&set(&gates)).collect::<Vec<_>>(), [name]);
    }
    // Rules have the feature, whatever the gate says.
    assert_eq!(
        problems(&[("TopologyAwareHints", false)]),
        ["feature gate `TopologyAwareHints` was removed: the feature is always on"]
    );
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
