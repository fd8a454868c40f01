//! Frontend in JSON and YAML output, which has the same fields in every command.

use std::net::IpAddr;

use serde::Serialize;

use super::view::FrontendView;
#[cfg(test)]
use super::view::{FrontendDisposition, FrontendKind, TrafficOrigin};

/// Address and port where a service port receives traffic.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct FrontendDocument<'a> {
    /// Field of the Service that the frontend is from. External is an external IP or a load
    /// balancer address: rules that drop or reject do not distinguish them.
    #[cfg_attr(test, schemars(extend("enum" = FrontendKind::ALL.map(FrontendKind::id))))]
    kind: &'static str,
    /// Virtual IP; null for every address of the node that serves NodePorts.
    ip: Option<IpAddr>,
    /// Port of the frontend.
    port: u16,
    /// Treatment of traffic from outside of the cluster: Served by an endpoint, Dropped because
    /// the policy is Local and no endpoint is on this node, Rejected because there are no
    /// endpoints, or Unreachable because a jump on the path to an endpoint is missing.
    /// `unreachableFrom` has the same for processes of the node.
    #[cfg_attr(
        test,
        schemars(extend("enum" = FrontendDisposition::ALL.map(FrontendDisposition::id)))
    )]
    fate: &'static str,
    /// Origins of traffic that does not reach an endpoint, because a jump is missing or another
    /// Service has the frontend: outside (other hosts and Pods) and node (processes of this node).
    #[cfg_attr(
        test,
        schemars(extend("items" = {"enum": TrafficOrigin::ALL.map(TrafficOrigin::id)}))
    )]
    unreachable_from: Vec<&'static str>,
    /// Chain of the nat table that the frontend jumps to; null if there is none.
    chain: Option<&'a str>,
}

impl<'a> From<&'a FrontendView> for FrontendDocument<'a> {
    fn from(view: &'a FrontendView) -> Self {
        Self {
            kind: view.kind.id(),
            ip: view.ip,
            port: view.port,
            fate: view.disposition.id(),
            unreachable_from: view.unreachable_from.iter().map(|one| one.id()).collect(),
            chain: view.chain.as_deref(),
        }
    }
}
