//! Feature gates of kube-proxy: their names, the values they may have, and the gates they require.
//!
//! A setting is accepted if any of two releases accepts it, so that one ConfigMap serves a cluster
//! that is between them. A gate that neither release has is ignored with a warning: a node without
//! a proxy costs more than a gate without effect. Only [`EXTERNAL_IPS`] and those of logging have
//! an effect.
//!
//! # Source
//!
//! Upstream: pkg/features/kube_features.go,
//! staging/src/k8s.io/component-base/featuregate/feature_gate.go (v1.37)
//!
//! Differs from upstream: kube-proxy exits if it does not know a gate.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::problems::{ConfigNote, ConfigProblems, nearest};
use crate::telemetry::KUBE_PROXY_MINOR_VERSION;

/// Gate of `spec.externalIPs`, on by default.
pub(super) const EXTERNAL_IPS: &str = "AllowServiceExternalIPs";

/// Gate of logging options in alpha.
pub(super) const LOGGING_ALPHA: &str = "LoggingAlphaOptions";

/// Gate of log format `json`, on by default.
pub(super) const LOGGING_BETA: &str = "LoggingBetaOptions";

/// Switch for all gates in beta.
pub(super) const ALL_BETA: &str = "AllBeta";

/// Switch for all gates in alpha.
pub(super) const ALL_ALPHA: &str = "AllAlpha";

/// Gates that were locked to true and then removed from kube-proxy, of features that rules have.
const REMOVED: &str = "\
    KubeProxyDrainingTerminatingNodes LoadBalancerIPMode MinimizeIPTablesRestore \
    ProxyTerminatingEndpoints ServiceInternalTrafficPolicy ServiceTrafficDistribution \
    TopologyAwareHints";

/// Gates of one release of kube-proxy.
struct Release {
    minor: &'static str,
    gates: BTreeMap<&'static str, Gate>,
}

/// The release before the one whose behavior this program has, and that release.
static RELEASES: LazyLock<[Release; 2]> = LazyLock::new(|| {
    [
        Release::parse("1.36", include_str!("gates/1.36.txt")),
        Release::parse(KUBE_PROXY_MINOR_VERSION, include_str!("gates/1.37.txt")),
    ]
});

/// Gate of a release.
#[derive(Debug)]
struct Gate {
    stage: &'static str,
    is_on: bool,
    is_locked: bool,
    /// Gates that have to be on if this one is.
    requires: Vec<&'static str>,
}

impl Gate {
    fn accepts(&self, value: bool) -> bool {
        !self.is_locked || value == self.is_on
    }
}

impl Release {
    /// Parses a table that `tests/support/kube/gates` has printed. Each line has the name of a
    /// gate, its stage, its default, `locked` if it cannot be changed, and the gates it requires.
    fn parse(minor: &'static str, table: &'static str) -> Self {
        let gate = |line: &'static str| {
            let mut words = line.split(' ');
            let name = words.next()?;
            let mut gate = Gate {
                stage: words.next()?,
                is_on: words.next()? == "on",
                is_locked: false,
                requires: Vec::new(),
            };
            for word in words {
                gate.is_locked |= word == "locked";
                gate.requires.extend(word.strip_prefix("requires="));
            }
            Some((name, gate))
        };
        Self {
            minor,
            gates: table.lines().filter_map(gate).collect(),
        }
    }

    /// Reports whether the release accepts a value; `None` if it does not have the gate.
    fn accepts(&self, name: &str, value: bool) -> Option<bool> {
        self.gates.get(name).map(|gate| gate.accepts(value))
    }

    /// Reports whether a gate is on, with these values set.
    fn is_on(&self, name: &str, set: &BTreeMap<String, bool>) -> bool {
        let Some(gate) = self.gates.get(name) else {
            return false;
        };
        let all = match gate.stage {
            "alpha" => set.get(ALL_ALPHA),
            "beta" => set.get(ALL_BETA),
            _ => None,
        };
        let value = set.get(name).or(all.filter(|_| !gate.is_locked));
        value.copied().unwrap_or(gate.is_on)
    }

    /// Returns the gates that are on while a gate that they require is off, one line each.
    ///
    /// Upstream: staging/src/k8s.io/component-base/featuregate/feature_gate.go,
    /// `unsafeSetFromMap` (v1.37)
    fn unmet_requirements(&self, set: &BTreeMap<String, bool>) -> Vec<String> {
        let on = self.gates.iter().filter(|(name, _)| self.is_on(name, set));
        on.flat_map(|(name, gate)| gate.requires.iter().map(move |required| (name, required)))
            .filter(|(_, required)| !self.is_on(required, set))
            .map(|(name, required)| format!("feature gate `{name}` requires `{required}`"))
            .collect()
    }
}

/// Records the problems of gates that no release of kube-proxy accepts.
pub(super) fn check(set: &BTreeMap<String, bool>, problems: &mut ConfigProblems) {
    const REMOVE: &str = "remove the gate";

    for (name, value) in set {
        let answers = RELEASES
            .iter()
            .filter_map(|release| release.accepts(name, *value));
        let answers: Vec<bool> = answers.collect();
        let problem = if !answers.is_empty() && !answers.contains(&true) {
            format!("feature gate `{name}` must be {}, got {value}", !value)
        } else if !value && is_removed(name) {
            format!("feature gate `{name}` was removed: the feature is always on")
        } else {
            continue;
        };
        problems.add_with_hint("featureGates", problem, REMOVE);
    }
    let unmet = RELEASES.each_ref();
    let unmet = unmet.map(|release| release.unmet_requirements(set));
    if let [[_, ..], [first, rest @ ..]] = unmet.each_ref().map(Vec::as_slice) {
        // One gate may break the requirements of many.
        let more = match rest.len() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let hint = "set both gates to the same value";
        problems.add_with_hint("featureGates", format!("{first}{more}"), hint);
    }
}

fn is_removed(name: &str) -> bool {
    REMOVED.split(' ').any(|removed| removed == name)
}

/// Returns the gates that no release has.
pub(super) fn unknown(set: &BTreeMap<String, bool>) -> impl Iterator<Item = &String> {
    let is_known = |name: &str| {
        RELEASES
            .iter()
            .any(|release| release.gates.contains_key(name))
    };
    set.keys().filter(move |name| !is_known(name))
}

/// Returns notes on gates that are usable: unknown ones, and those that only one release accepts.
pub(super) fn notes(set: &BTreeMap<String, bool>) -> Vec<ConfigNote> {
    let mut notes: Vec<ConfigNote> = unknown(set).map(|name| unknown_gate(name)).collect();
    for (name, value) in set {
        let answers = RELEASES.each_ref();
        let answers = answers.map(|release| (release.minor, release.accepts(name, *value)));
        let (minor, reason) = match answers {
            [(minor, None), (_, Some(true))] | [(_, Some(true)), (minor, None)] => {
                (minor, "does not have")
            }
            [(minor, Some(false)), (_, Some(true))] | [(_, Some(true)), (minor, Some(false))] => {
                (minor, "rejects this value of")
            }
            _ => continue,
        };
        notes.push(ConfigNote::Note(format!(
            "kube-proxy {minor} {reason} feature gate `{name}`, which has no effect here"
        )));
    }
    for release in RELEASES.iter() {
        if let Some(unmet) = release.unmet_requirements(set).first() {
            let minor = release.minor;
            notes.push(ConfigNote::Note(format!(
                "kube-proxy {minor} would not start: {unmet}"
            )));
        }
    }
    notes
}

fn unknown_gate(name: &str) -> ConfigNote {
    if is_removed(name) {
        let text = format!("feature gate `{name}` was removed: the feature is always on");
        return ConfigNote::Warning(text);
    }
    let known = RELEASES
        .iter()
        .flat_map(|release| release.gates.keys().copied());
    let similar = nearest(name, known);
    let hint = similar.map(|known| format!("; did you mean `{known}`?"));
    let hint = hint.unwrap_or_default();
    ConfigNote::Warning(format!("unknown feature gate `{name}` ignored{hint}"))
}

#[cfg(test)]
#[path = "tests/gate_tables.rs"]
mod tests;
