//! Versions: `deltaproxy_build_info`, and `kubernetes_build_info` in place of kube-proxy's.
//!
//! Alerts compare `git_version` of `kubernetes_build_info` between the components of a cluster, up
//! to the minor version, because a kube-proxy of another release than its API server is a mistake.
//! deltaproxy is not released with Kubernetes, so its metric has the version of the API server;
//! until that is known, the release of kube-proxy whose behavior this program has. The version of
//! deltaproxy follows the plus sign, and is in `deltaproxy_build_info`.
//!
//! # Source
//!
//! Upstream: `staging/src/k8s.io/component-base/metrics/version_parser.go` (v1.37)
//!
//! Differs from upstream: `kubernetes_build_info` has the version of the API server, and no Go
//! version, commit or date; the last two would make two builds of one source differ. Prometheus
//! takes an empty label for a missing one.

use std::fmt::{self, Display, Formatter};

use prometheus::{IntGaugeVec, Registry, Result};

use super::factory::{MetricFactory, OWN};

/// Release of kube-proxy whose behavior this program has.
const RELEASE: KubernetesVersion = KubernetesVersion {
    major: 1,
    minor: 37,
    patch: 2,
};

/// That release, as Kubernetes spells it.
pub(crate) const KUBE_PROXY_VERSION: &str = "1.37.2";

pub(crate) const KUBE_PROXY_MINOR_VERSION: &str = "1.37";

/// Labels of `kubernetes_build_info`, in upstream's order.
const BUILD_LABELS: [&str; 9] = [
    "major",
    "minor",
    "git_version",
    "git_commit",
    "git_tree_state",
    "build_date",
    "go_version",
    "compiler",
    "platform",
];

/// Version of a component of Kubernetes, without the suffix of its vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KubernetesVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

impl KubernetesVersion {
    /// Parses `gitVersion`, as `v1.36.3` or `v1.34.2-eks-1`. `None` if it is not a valid version.
    pub(crate) fn parse(git_version: &str) -> Option<Self> {
        let numbers = git_version.strip_prefix('v')?;
        let end = numbers.find(|c: char| !c.is_ascii_digit() && c != '.');
        let numbers = end.map_or(Some(numbers), |end| numbers.get(..end))?;
        let mut numbers = numbers.split('.').map(|number| number.parse().ok());
        Some(Self {
            major: numbers.next()??,
            minor: numbers.next()??,
            patch: numbers.next()??,
        })
    }
}

impl Display for KubernetesVersion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Metric `kubernetes_build_info`. Clones share its value.
#[derive(Debug, Clone)]
pub(crate) struct KubernetesBuild(IntGaugeVec);

impl KubernetesBuild {
    /// Registers it, with the release of kube-proxy, and `deltaproxy_build_info`.
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        MetricFactory::new(registry, OWN)
            .gauges(
                "build_info",
                "Version of deltaproxy; always 1",
                &["version"],
            )?
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        let help =
            "Version of the API server, and of the program that replaces kube-proxy; always 1";
        let kubernetes = MetricFactory::new(registry, "kubernetes");
        let info = Self(kubernetes.gauges("build_info", help, &BUILD_LABELS)?);
        info.set(RELEASE);
        Ok(info)
    }

    /// Replaces the version by that of the API server.
    pub(crate) fn set(&self, version: KubernetesVersion) {
        let git_version = format!("{version}+deltaproxy-{}", env!("CARGO_PKG_VERSION"));
        let (major, minor) = (version.major.to_string(), version.minor.to_string());
        let platform = platform();
        let values = [
            &major,
            &minor,
            &git_version,
            "",
            "",
            "",
            "",
            "rustc",
            &platform,
        ];
        self.0.reset();
        self.0.with_label_values(&values).set(1);
    }
}

/// Returns operating system and architecture as Go names them.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{architecture}", std::env::consts::OS)
}

#[cfg(test)]
#[path = "tests/build.rs"]
mod tests;
