//! Feature gates of kube-proxy: their names, the values they may have, and the gates they require.
//!
//! A gate may have each value that one of two releases accepts, so that one ConfigMap serves a
//! cluster that is between them. A gate that neither release has is ignored with a warning, as a
//! node without a proxy costs more than a gate without effect. Only [`EXTERNAL_IPS`] and those of
//! logging have an effect.
//!
//! # Source
//!
//! Upstream: pkg/features/kube_features.go,
//! staging/src/k8s.io/component-base/featuregate/feature_gate.go (v1.37)
//!
//! Differs from upstream: kube-proxy exits if it does not know a gate.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::problems::{ConfigNote, ConfigProblems, MOST_LISTED, nearest, shortened};

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

/// Gates that were locked to true and then removed from kube-proxy; their features are always on
/// here.
const REMOVED: &str = "\
    KubeProxyDrainingTerminatingNodes LoadBalancerIPMode MinimizeIPTablesRestore \
    ProxyTerminatingEndpoints ServiceInternalTrafficPolicy ServiceTrafficDistribution \
    TopologyAwareHints";

/// Gates of one release of kube-proxy.
struct Release {
    minor: &'static str,
    gates: BTreeMap<&'static str, Gate>,
}

/// 1.36, and the release whose behavior this program has.
static RELEASES: LazyLock<[Release; 2]> = LazyLock::new(|| {
    [
        Release::parse("1.36", include_str!("gates/1.36.txt")),
        Release::parse("1.37", include_str!("gates/1.37.txt")),
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

    /// Returns the gates that are on while a gate that they require is off because `cause` is set,
    /// each with that gate.
    ///
    /// Upstream: staging/src/k8s.io/component-base/featuregate/feature_gate.go,
    /// `unsafeSetFromMap` (v1.37)
    fn unmet_requirements(
        &self,
        cause: &str,
        set: &BTreeMap<String, bool>,
    ) -> Vec<(&'static str, &'static str)> {
        let is_cause = |(gate, required): &(&str, &str)| {
            let mut names = [*gate, *required, ALL_ALPHA, ALL_BETA].into_iter();
            names.find(|name| set.contains_key(*name)) == Some(cause)
        };
        let on = self.gates.iter().filter(|(name, _)| self.is_on(name, set));
        on.flat_map(|(name, gate)| gate.requires.iter().map(move |required| (*name, *required)))
            .filter(|(_, required)| !self.is_on(required, set))
            .filter(is_cause)
            .collect()
    }

    /// Returns the objection of the release to a gate that is set among others; `None` if the
    /// release accepts it.
    fn objection(&self, name: &str, set: &BTreeMap<String, bool>) -> Option<Objection> {
        let (Some(gate), Some(value)) = (self.gates.get(name), set.get(name)) else {
            return Some(Objection::Unknown);
        };
        if !gate.accepts(*value) {
            return Some(Objection::Locked);
        }
        let unmet = self.unmet_requirements(name, set);
        let ((gate, required), rest) = unmet.split_first()?;
        Some(Objection::Unmet {
            gate,
            required,
            more: rest.len(),
        })
    }
}

/// Reason of a release to reject a gate that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Objection {
    /// The release does not have the gate.
    Unknown,
    /// The gate is locked to the other value.
    Locked,
    /// Because of the gate, `gate` is on and `required` is off, and so are this many more pairs.
    Unmet {
        gate: &'static str,
        required: &'static str,
        more: usize,
    },
}

impl Objection {
    /// Returns the problem of setting the gate to this value.
    fn problem(self, name: &str, value: bool) -> String {
        match self {
            Self::Unknown => "unknown feature gate".to_owned(),
            Self::Locked => format!("feature gate `{name}` must be {}, got {value}", !value),
            Self::Unmet {
                gate,
                required,
                more,
            } => {
                // One gate may break the requirements of many.
                let more = match more {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                let cause = if name == gate || name == required {
                    String::new()
                } else {
                    format!(" (because of `{name}`)")
                };
                format!("feature gate `{gate}` requires `{required}`{cause}{more}")
            }
        }
    }
}

/// Returns what the releases object to a gate, that of the newest one first.
fn objections(name: &str, set: &BTreeMap<String, bool>) -> [(&'static str, Option<Objection>); 2] {
    let [older, newest] = &*RELEASES;
    [newest, older].map(|release| (release.minor, release.objection(name, set)))
}

/// Records the problems of gates that no release of kube-proxy accepts.
pub(super) fn check(set: &BTreeMap<String, bool>, problems: &mut ConfigProblems) {
    const REMOVE: &str = "remove the gate";
    const SET_BOTH: &str = "set both gates to the same value";

    for (name, value) in set {
        let [(_, Some(of_newest)), (_, Some(of_older))] = objections(name, set) else {
            continue;
        };
        let mut objections = [of_newest, of_older].into_iter();
        let (problem, hint) = match objections.find(|one| *one != Objection::Unknown) {
            Some(objection @ Objection::Unmet { .. }) => {
                (objection.problem(name, *value), SET_BOTH)
            }
            Some(objection) => (objection.problem(name, *value), REMOVE),
            None if !value && is_removed(name) => (removed(name), REMOVE),
            None => continue,
        };
        problems.add_with_hint("featureGates", problem, hint);
    }
}

fn removed(name: &str) -> String {
    format!("feature gate `{name}` was removed: the feature is always on")
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
    let all: Vec<_> = unknown(set).collect();
    let mut notes: Vec<ConfigNote> = all
        .iter()
        .take(MOST_LISTED)
        .map(|name| unknown_gate(name))
        .collect();
    if let more @ 1.. = all.len().saturating_sub(MOST_LISTED) {
        notes.push(ConfigNote::Warning(format!(
            "{more} more unknown feature gates ignored"
        )));
    }
    for (name, value) in set {
        let ([(_, None), (minor, Some(objection))] | [(minor, Some(objection)), (_, None)]) =
            objections(name, set)
        else {
            continue;
        };
        let reason = objection.problem(name, *value);
        notes.push(ConfigNote::Note(format!(
            "kube-proxy {minor} would reject feature gate `{name}`: {reason}"
        )));
    }
    notes
}

fn unknown_gate(name: &str) -> ConfigNote {
    if is_removed(name) {
        return ConfigNote::Warning(removed(name));
    }
    let known = RELEASES
        .iter()
        .flat_map(|release| release.gates.keys().copied());
    let similar = nearest(name, known);
    let hint = similar.map(|known| format!("; did you mean `{known}`?"));
    let hint = hint.unwrap_or_default();
    let name = shortened(name);
    ConfigNote::Warning(format!("unknown feature gate `{name}` ignored{hint}"))
}

#[cfg(test)]
#[path = "tests/gate_tables.rs"]
mod tests;
