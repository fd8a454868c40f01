//! Values that are assumed because manifests do not set them, and the lines that report them.

use std::collections::BTreeMap;

use super::pools::ManifestRanges;
use crate::net::{IpNet, PerFamily};

/// Assumed value of one Service. Ordered by kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Assumption {
    /// Kind of the value.
    pub kind: AssumedValueKind,
    /// Namespace and name of the Service; for a node port, then `:` and the service port.
    pub subject: String,
    /// Value as text.
    pub value: String,
}

/// Kind of an assumed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AssumedValueKind {
    /// Cluster IP, which an API server allocates.
    ClusterIp,
    /// Node port of a service port, which an API server allocates.
    NodePort,
    /// Health check node port, which an API server allocates.
    HealthCheckNodePort,
    /// Load balancer IP, which a controller reports.
    LoadBalancerIp,
    /// Endpoints of a selector, for which a controller creates EndpointSlices.
    Endpoints,
    /// Number of a target port that is a name, which only Pods have.
    NamedPort,
}

/// Returns a line for each kind of value: the range of the values, and the first of them with their
/// Services.
pub(crate) fn assumption_lines(assumptions: &[Assumption], ranges: &ManifestRanges) -> Vec<String> {
    let mut by_kind: BTreeMap<AssumedValueKind, Vec<&Assumption>> = BTreeMap::new();
    for one in assumptions {
        by_kind.entry(one.kind).or_default().push(one);
    }
    let line = |(kind, mut values): (AssumedValueKind, Vec<&Assumption>)| {
        values.sort_unstable();
        values.dedup();
        let shown = values.iter().take(kind.max_values());
        let shown: Vec<_> = shown
            .map(|one| format!("{} {}", one.subject, one.value))
            .collect();
        let more = match values.len().saturating_sub(kind.max_values()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{}: {}{more}", kind.description(ranges), shown.join(", "))
    };
    by_kind.into_iter().map(line).collect()
}

impl AssumedValueKind {
    /// Returns the maximum values that a line names: many named ports, as each may be a mistake,
    /// and of other values a few examples of what to look for in the output.
    const fn max_values(self) -> usize {
        match self {
            Self::ClusterIp
            | Self::NodePort
            | Self::HealthCheckNodePort
            | Self::LoadBalancerIp
            | Self::Endpoints => 3,
            Self::NamedPort => 20,
        }
    }

    fn description(self, ranges: &ManifestRanges) -> String {
        match self {
            Self::ClusterIp => format!("cluster IPs from {}", pair(ranges.services)),
            Self::NodePort => format!("node ports from {}", ranges.node_ports),
            Self::HealthCheckNodePort => {
                format!("health check node ports from {}", ranges.node_ports)
            }
            Self::LoadBalancerIp => {
                let from = ranges.load_balancers.map(pair).unwrap_or_default();
                format!("load balancer IPs from {from}")
            }
            Self::Endpoints => {
                "two endpoints for each selector, the first one on this node".to_owned()
            }
            Self::NamedPort => "numbers of named ports, which only Pods have".to_owned(),
        }
    }
}

fn pair(ranges: PerFamily<IpNet>) -> String {
    format!("{},{}", ranges.v4, ranges.v6)
}
