//! Text of `/flagz` and `/statusz`: the flags of the command line, and version and uptime.
//!
//! # Source
//!
//! Upstream: `staging/src/k8s.io/apiserver/pkg/server/flagz/flagz.go`,
//! `staging/src/k8s.io/apiserver/pkg/server/statusz/statusz.go` (v1.37)
//!
//! Differs from upstream: the separator between names and values is fixed, which upstream picks at
//! random; there is no Go version; and there are no objects in JSON and YAML, which are in beta and
//! served only to clients that name kind, group and version of the object.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;

use crate::telemetry::metrics::{KUBE_PROXY_MINOR_VERSION, KUBE_PROXY_VERSION};

/// Component that this program stands in for.
const COMPONENT: &str = "kube-proxy";

/// Second line of both pages.
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no \
                       formatting compatibility guarantees and is for debugging purposes only.";

/// Pages that `/statusz` lists, as upstream does.
const PATHS: &str = "/configz /flagz /healthz /metrics /proxyMode";

/// Returns `/flagz`: the flags of the command line with their values or defaults.
pub(super) fn flagz(flags: &BTreeMap<String, String>) -> String {
    let mut text = format!("\n{COMPONENT} flagz\n{WARNING}\n");
    for (name, value) in flags {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}:{value}");
    }
    text
}

/// Returns `/statusz`: start time, uptime and versions.
pub(super) fn statusz(started: Timestamp, now: Timestamp) -> String {
    let up = now.as_second().saturating_sub(started.as_second()).max(0);
    let since = started.strftime("%a %b %e %H:%M:%S UTC %Y");
    let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
    let (program, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    format!(
        "\n{COMPONENT} statusz\n{WARNING}\n\n\
         Started= {since}\n\
         Up= {hours} hr {minutes:02} min {seconds:02} sec\n\
         Go version= none, this is {program} {version}\n\
         Binary version= {KUBE_PROXY_VERSION}\n\
         Emulation version= {KUBE_PROXY_MINOR_VERSION}\n\
         Paths= {PATHS}\n"
    )
}

#[cfg(test)]
#[path = "tests/zpages.rs"]
mod tests;
