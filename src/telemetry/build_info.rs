//! `kubernetes_build_info`: which release this program counts as.
//!
//! Apart because it is a promise, not a fact about a build. Alerts compare its `git_version`
//! between the components of a cluster, up to the minor version; what they want to know is whose
//! behaviour a node has, and that is kube-proxy's of the release below. What was really built
//! stands behind the plus sign, and in `deltaproxy_build_info`.
//!
//! # Source
//!
//! Upstream: `staging/src/k8s.io/component-base/metrics/version_parser.go` (v1.36)
//!
//! Differs from upstream: there is no Go, and no commit or date, which would make two builds of one
//! source differ. Prometheus takes an empty label for one that is not there.

use prometheus::{Registry, Result};

use super::register::Names;

/// The release of kube-proxy that this one behaves like.
const STANDS_IN_FOR: &str = "v1.36.3";

/// Its first two numbers.
pub(super) const BINARY_VERSION: &str = "1.36";

/// In upstream's order.
const LABELS: [&str; 9] = [
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

pub(super) fn register(registry: &Registry) -> Result<()> {
    let help = "Always 1, labeled by the kube-proxy that this program stands in for";
    let (major, minor) = BINARY_VERSION.split_once('.').unwrap_or_default();
    let gauges = Names::kubernetes(registry).gauges("build_info", help, &LABELS)?;
    let version = format!("{STANDS_IN_FOR}+deltaproxy-{}", env!("CARGO_PKG_VERSION"));
    let platform = platform();
    let values = [major, minor, &version, "", "", "", "", "rustc", &platform];
    gauges.with_label_values(&values).set(1);
    Ok(())
}

/// In Go's words.
fn platform() -> String {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{machine}", std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_agree() {
        assert!(STANDS_IN_FOR.starts_with(&format!("v{BINARY_VERSION}.")));
    }
}
