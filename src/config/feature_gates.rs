//! Feature gates of kube-proxy: their names, and the values they may have.
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
//! Differs from upstream: kube-proxy exits if it does not know a gate, or if one is on while a gate
//! that it requires is off.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::problems::{ConfigNote, ConfigProblems, MOST_LISTED, shortened};
use crate::ingest::nearest;

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

/// Gate of a release.
#[derive(Debug)]
struct Gate {
    is_on: bool,
    is_locked: bool,
}

/// Gates of 1.36, and of the release whose behavior this program has.
static RELEASES: LazyLock<[BTreeMap<&'static str, Gate>; 2]> = LazyLock::new(|| {
    [
        parse(include_str!("gates/1.36.txt")),
        parse(include_str!("gates/1.37.txt")),
    ]
});

/// Parses a table that `tests/support/kube/gates` has printed. Each line has the name of a gate,
/// its stage, its default, `locked` if it cannot be changed, and the gates it requires.
fn parse(table: &'static str) -> BTreeMap<&'static str, Gate> {
    let gate = |line: &'static str| {
        let mut words = line.split(' ');
        let (name, _stage) = (words.next()?, words.next()?);
        let gate = Gate {
            is_on: words.next()? == "on",
            is_locked: words.next() == Some("locked"),
        };
        Some((name, gate))
    };
    table.lines().filter_map(gate).collect()
}

impl Gate {
    fn accepts(&self, value: bool) -> bool {
        !self.is_locked || value == self.is_on
    }
}

/// Records the problems of gates that no release of kube-proxy accepts.
pub(super) fn check(set: &BTreeMap<String, bool>, problems: &mut ConfigProblems) {
    for (name, value) in set {
        let known = || RELEASES.iter().filter_map(|gates| gates.get(name.as_str()));
        if known().next().is_some() && !known().any(|gate| gate.accepts(*value)) {
            let problem = format!("feature gate `{name}` must be {}, got {value}", !value);
            problems.add_with_hint("featureGates", problem, "remove the gate");
        }
    }
}

/// Returns the gates that no release has.
pub(super) fn unknown(set: &BTreeMap<String, bool>) -> impl Iterator<Item = &String> {
    let is_known = |name: &str| RELEASES.iter().any(|gates| gates.contains_key(name));
    set.keys().filter(move |name| !is_known(name))
}

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
    notes
}

fn unknown_gate(name: &str) -> ConfigNote {
    let known = RELEASES.iter().flat_map(|gates| gates.keys().copied());
    let similar = nearest(name, known);
    let hint = similar.map(|known| format!("; did you mean `{known}`?"));
    let hint = hint.unwrap_or_default();
    let name = shortened(name);
    ConfigNote::Warning(format!("unknown feature gate `{name}` ignored{hint}"))
}

#[cfg(test)]
#[path = "tests/gate_tables.rs"]
mod tests;
