//! Releases of kube-proxy that rules are compared with, and differences between their own rules.
//!
//! Features show each difference, in the chains that it may concern and in no others; random
//! histories avoid the objects that cause one. A difference that is not listed is a fault, and a
//! listed one that does not appear fails as well.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;

use serde_json::{Value, json};

use super::stage::Op;
use super::support::kube;
use super::variant::NODE_ADDRESSES;

/// The minor release that deltaproxy follows: the last number of 1.37.
pub const FOLLOWED: u32 = 37;

/// A release of Kubernetes 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// For example `v1.33.13`.
    pub version: String,
    /// For example 33.
    pub minor: u32,
}

impl Release {
    /// Release of a program of [`kube::binary`], by its `--version`.
    pub fn of(program: &str) -> Self {
        let path = kube::binary(program).unwrap_or_else(|why| panic!("{why}"));
        let output = Command::new(path).arg("--version").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        Self::parse(&text).unwrap_or_else(|| panic!("{program} --version: {text}"))
    }

    /// Reads `Kubernetes v1.33.13`.
    pub fn parse(text: &str) -> Option<Self> {
        let version = text.trim().strip_prefix("Kubernetes ")?;
        let minor = version.strip_prefix("v1.")?.split('.').next()?;
        Some(Self {
            version: version.to_owned(),
            minor: minor.parse().ok()?,
        })
    }

    /// Flag as this release accepts it: keywords among other items of `--nodeport-addresses`, which
    /// 1.37 introduced, become CIDRs.
    pub fn spelled(&self, flag: &str) -> String {
        let items = flag.strip_prefix("--nodeport-addresses=");
        let Some(items) = items.filter(|items| self.minor < 37 && *items != "primary") else {
            return flag.to_owned();
        };
        let [v4, v6] = NODE_ADDRESSES;
        let primary = format!("{v4}/32,{v6}/128");
        let items = items.split(',').map(|item| match item {
            "primary" => primary.as_str(),
            "localhost" => "127.0.0.0/8,::1/128",
            "all" => "0.0.0.0/0,::/0",
            cidr => cidr,
        });
        let items: Vec<&str> = items.collect();
        format!("--nodeport-addresses={}", items.join(","))
    }

    /// Reports whether rules of this release have the difference.
    pub fn has(&self, difference: &ReleaseDifference) -> bool {
        self.minor <= difference.last
    }

    /// Differences that rules of this release have.
    pub fn differences(&self) -> impl Iterator<Item = &'static ReleaseDifference> {
        ALL.into_iter().filter(|difference| self.has(difference))
    }

    /// Operations without what causes a difference in this release.
    pub fn avoid(&self, mut ops: Vec<Op>) -> Vec<Op> {
        for op in &mut ops {
            if let Op::Apply(object) = op {
                self.differences()
                    .for_each(|difference| (difference.avoid)(object));
            }
        }
        ops
    }
}

/// One way in which rules of older releases of kube-proxy differ from those of the followed one.
pub struct ReleaseDifference {
    /// Unique; the support matrix lists it.
    pub name: &'static str,
    /// The last minor release that has it.
    pub last: u32,
    /// Text of the support matrix.
    pub text: &'static str,
    /// Tables and beginnings of chain names in which rules may differ.
    chains: &'static [&'static str],
    /// Removes from an object what causes the difference.
    avoid: fn(&mut Value),
}

impl fmt::Debug for ReleaseDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Upstream: pkg/features/kube_features.go, `PreferSameTrafficDistribution`;
/// pkg/proxy/endpointslicecache.go (v1.33 and v1.34)
pub static NODE_HINTS: ReleaseDifference = ReleaseDifference {
    name: "node-hints",
    last: 33,
    text: "kube-proxy ignores the hints `forNodes` of EndpointSlices: the feature gate \
           PreferSameTrafficDistribution does not exist before 1.33, and is off by default in it. A control \
           plane of these releases writes no such hints, so no rule differs in a cluster of one release.",
    chains: &["nat KUBE-SVC-", "nat KUBE-SEP-"],
    avoid: |object| {
        for endpoint in endpoints(object) {
            if let Some(hints) = endpoint.get_mut("hints").and_then(Value::as_object_mut) {
                hints.remove("forNodes");
            }
        }
    },
};

/// Upstream: pkg/proxy/serviceport.go, `newBaseServiceInfo` (v1.33 and v1.34)
pub static OPEN_SOURCE_RANGE: ReleaseDifference = ReleaseDifference {
    name: "open-source-range",
    last: 33,
    text: "If `loadBalancerSourceRanges` has `0.0.0.0/0` or `::/0`, kube-proxy writes a `KUBE-FW-*` chain whose \
           rule for that range accepts every client, and a drop in `KUBE-PROXY-FIREWALL` that no packet reaches. \
           Since 1.34 it writes neither, as deltaproxy: the same packets pass.",
    chains: &[
        "filter KUBE-PROXY-FIREWALL",
        "nat KUBE-SERVICES",
        "nat KUBE-FW-",
    ],
    avoid: |object| {
        if let Some(Value::Array(ranges)) = object.pointer_mut("/spec/loadBalancerSourceRanges") {
            ranges.retain(|range| !range.as_str().is_some_and(|text| text.ends_with("/0")));
        }
    },
};

/// Upstream: cmd/kube-proxy/app/server.go, `Run` (v1.35 and v1.36)
pub static SELECTOR_LABELS: ReleaseDifference = ReleaseDifference {
    name: "selector-labels",
    last: 35,
    text: "kube-proxy ignores a Service with the label `service.kubernetes.io/headless`, which only EndpointSlices of \
           headless Services have, and an EndpointSlice with `service.kubernetes.io/service-proxy-name`, which is \
           meant for Services. Since 1.36 each label counts on its own kind only, as in deltaproxy.",
    chains: &[
        "filter KUBE-SERVICES",
        "nat KUBE-SERVICES",
        "nat KUBE-SVC-",
        "nat KUBE-SEP-",
    ],
    avoid: |object| {
        let label = match object["kind"].as_str() {
            Some("Service") => "service.kubernetes.io/headless",
            _ => "service.kubernetes.io/service-proxy-name",
        };
        if let Some(Value::Object(labels)) = object.pointer_mut("/metadata/labels") {
            labels.remove(label);
        }
    },
};

/// Upstream: pkg/proxy/endpointslicecache.go, `addEndpoints` (v1.35 and v1.36)
pub static DUPLICATE_ENDPOINT: ReleaseDifference = ReleaseDifference {
    name: "duplicate-endpoint",
    last: 35,
    text: "If an address is ready in one EndpointSlice of a Service and terminating in another, kube-proxy uses the \
           state in one of them, in the random order of a Go map. Since 1.36 it prefers the one that is not \
           terminating, as deltaproxy.",
    chains: &["nat KUBE-SVC-", "nat KUBE-SEP-"],
    avoid: |object| {
        for endpoint in endpoints(object) {
            let address = endpoint["addresses"][0].as_str().unwrap_or_default();
            if super::slice::is_shared(address) {
                endpoint["conditions"] = json!({"ready": true});
            }
        }
    },
};

/// All of them.
pub static ALL: [&ReleaseDifference; 4] = [
    &NODE_HINTS,
    &OPEN_SOURCE_RANGE,
    &SELECTOR_LABELS,
    &DUPLICATE_ENDPOINT,
];

fn endpoints(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    let endpoints = object.get_mut("endpoints").and_then(Value::as_array_mut);
    endpoints.into_iter().flatten()
}

impl ReleaseDifference {
    /// Checks that a report of [`super::compare`] is about the chains of this difference only.
    pub fn explains(&self, report: &str) -> Result<(), String> {
        let is_expected = |line: &&str| {
            let is_heading = line.starts_with("variant `") && !line.contains("route_localnet");
            let mut chains = self.chains.iter();
            line.starts_with(' ') || is_heading || chains.any(|chain| line.starts_with(chain))
        };
        match report.lines().find(|line| !is_expected(line)) {
            None => Ok(()),
            Some(line) => Err(format!(
                "{line} does not belong to the difference {}\n{report}",
                self.name
            )),
        }
    }
}

/// Number of feature steps in which each difference appeared.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Appeared(pub BTreeMap<&'static str, usize>);

impl Appeared {
    /// Counts one.
    pub fn add(&mut self, difference: &ReleaseDifference) {
        *self.0.entry(difference.name).or_default() += 1;
    }

    /// Checks that every difference of a release has appeared.
    pub fn check(&self, release: &Release) -> Result<(), String> {
        let mut expected = release.differences();
        let missing = expected.find(|difference| !self.0.contains_key(difference.name));
        missing.map_or(Ok(()), |difference| {
            let (name, version) = (difference.name, &release.version);
            Err(format!("the difference {name} never appeared in {version}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::features::features;

    fn release(minor: u32) -> Release {
        Release::parse(&format!("Kubernetes v1.{minor}.4\n")).unwrap()
    }

    #[test]
    fn mixed_keywords_are_written_as_cidrs_for_older_releases() {
        let mixed = "--nodeport-addresses=primary,localhost";
        assert_eq!(release(37).spelled(mixed), mixed);
        assert_eq!(
            release(36).spelled(mixed),
            "--nodeport-addresses=192.0.2.10/32,fd00:192::10/128,127.0.0.0/8,::1/128"
        );
        let alone = "--nodeport-addresses=primary";
        assert_eq!(release(36).spelled(alone), alone);
    }

    #[test]
    fn the_followed_release_has_no_differences() {
        assert_eq!(release(FOLLOWED).differences().count(), 0);
        assert_eq!(release(35).differences().count(), 2);
        assert_eq!(release(34).differences().count(), 2);
        assert_eq!(release(33).differences().count(), 4);
    }

    #[test]
    fn a_feature_shows_every_difference() {
        let features = features();
        let steps = || features.iter().flat_map(|feature| &feature.steps);
        for difference in ALL {
            let shows = |name: Option<&ReleaseDifference>| {
                name.is_some_and(|shown| shown.name == difference.name)
            };
            assert!(steps().any(|step| shows(step.difference)), "{difference:?}");
        }
    }
}
