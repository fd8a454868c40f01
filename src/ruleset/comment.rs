//! Comments of rules about one service port: templates that writers print and readers parse.
//!
//! # Source
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.36). Readers also know the texts
//! that releases up to 1.23 had in `KUBE-XLB-*`.

use std::fmt;

use super::service_chain::ServiceChain;

/// Comment of the jumps to `KUBE-NODEPORTS`.
pub(crate) const NODE_PORTS_COMMENT: &str =
    "kubernetes service nodeports; NOTE: this must be the last rule in this chain";

/// Comment template of a rule about one service port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortComment {
    /// Traffic to the cluster IP.
    ClusterIp,
    /// Traffic to an external IP.
    ExternalIp,
    /// Traffic to an address of the load balancer.
    LoadBalancerIp,
    /// The frontend rejects traffic, because no endpoint is usable.
    NoEndpoints,
    /// The frontend drops traffic, because the policy is Local and no endpoint is on this node.
    NoLocalEndpoints,
    /// The health check node port is open.
    HealthCheck,
    /// External traffic is masqueraded.
    MasqueradeExternal,
    /// Traffic of Pods is sent to all endpoints in spite of policy Local.
    PodTraffic,
    /// Traffic of this node to external addresses is masqueraded.
    MasqueradeNode,
    /// Traffic of this node is sent to all endpoints in spite of policy Local.
    RouteNode,
    /// Traffic from outside of the source ranges is dropped later, in `KUBE-PROXY-FIREWALL`.
    DroppedElsewhere,
    /// `KUBE-FW` chain that did not accept the traffic, which is dropped.
    NotAccepted(ServiceChain),
}

/// Text before and after the name of the service port.
type Affixes = (&'static str, &'static str);

/// Texts that older releases wrote in place of the present ones.
const RETIRED: [(PortComment, Affixes); 2] = [
    (
        PortComment::MasqueradeNode,
        ("masquerade LOCAL traffic for ", " LB IP"),
    ),
    (
        PortComment::RouteNode,
        ("route LOCAL traffic for ", " LB IP to service chain"),
    ),
];

impl PortComment {
    /// Every template without a chain.
    const PLAIN: [Self; 11] = [
        Self::ClusterIp,
        Self::ExternalIp,
        Self::LoadBalancerIp,
        Self::NoEndpoints,
        Self::NoLocalEndpoints,
        Self::HealthCheck,
        Self::MasqueradeExternal,
        Self::PodTraffic,
        Self::MasqueradeNode,
        Self::RouteNode,
        Self::DroppedElsewhere,
    ];

    /// Returns the text of the comment for a service port.
    pub const fn for_port<N: fmt::Display>(self, name: N) -> PortCommentText<N> {
        PortCommentText {
            comment: self,
            name,
        }
    }

    /// Parses a comment of any release. Returns it with the name of the service port.
    pub fn parse(text: &str) -> Option<(Self, &str)> {
        let current = Self::PLAIN.map(|comment| (comment, comment.affixes()));
        let mut known = current.into_iter().chain(RETIRED);
        let plain = known.find_map(|(comment, (before, after))| {
            let name = text.strip_prefix(before)?.strip_suffix(after)?;
            Some((comment, name))
        });
        plain.or_else(|| {
            let (name, chain) = text.split_once(NOT_ACCEPTED)?;
            Some((Self::NotAccepted(ServiceChain::parse(chain)?), name))
        })
    }

    const fn affixes(self) -> Affixes {
        const EXTERNAL: &str = " external destinations";
        match self {
            Self::ClusterIp => ("", " cluster IP"),
            Self::ExternalIp => ("", " external IP"),
            Self::LoadBalancerIp => ("", " loadbalancer IP"),
            Self::NoEndpoints => ("", " has no endpoints"),
            Self::NoLocalEndpoints => ("", " has no local endpoints"),
            Self::HealthCheck => ("", " health check node port"),
            Self::MasqueradeExternal => ("masquerade traffic for ", EXTERNAL),
            Self::PodTraffic => ("pod traffic for ", EXTERNAL),
            Self::MasqueradeNode => ("masquerade LOCAL traffic for ", EXTERNAL),
            Self::RouteNode => ("route LOCAL traffic for ", EXTERNAL),
            Self::DroppedElsewhere => (
                "other traffic to ",
                " will be dropped by KUBE-PROXY-FIREWALL",
            ),
            Self::NotAccepted(_) => ("", NOT_ACCEPTED),
        }
    }
}

/// Text before the chain of [`PortComment::NotAccepted`].
const NOT_ACCEPTED: &str = " traffic not accepted by ";

/// Text of a comment about a service port, which is written without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortCommentText<N> {
    comment: PortComment,
    name: N,
}

impl<N: fmt::Display> fmt::Display for PortCommentText<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = self.comment.affixes();
        write!(f, "{before}{}{after}", self.name)?;
        match self.comment {
            PortComment::NotAccepted(chain) => write!(f, "{chain}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_parse_to_the_template_that_wrote_them() {
        let chain = ServiceChain::parse("KUBE-FW-XPGD46QRK7WJZT7O");
        let chains = chain.map(PortComment::NotAccepted);
        assert!(chains.is_some());
        for comment in PortComment::PLAIN.into_iter().chain(chains) {
            let text = comment.for_port("shop/web:http").to_string();
            let parsed = PortComment::parse(&text);
            assert_eq!(parsed, Some((comment, "shop/web:http")), "{text}");
        }
    }

    #[test]
    fn comments_of_older_releases_are_parsed() {
        for (text, expected) in [
            (
                "route LOCAL traffic for shop/web LB IP to service chain",
                PortComment::RouteNode,
            ),
            (
                "masquerade LOCAL traffic for shop/web LB IP",
                PortComment::MasqueradeNode,
            ),
        ] {
            assert_eq!(PortComment::parse(text), Some((expected, "shop/web")));
        }
        for other in ["", "shop/web:http", NODE_PORTS_COMMENT, "cluster IP"] {
            assert_eq!(PortComment::parse(other), None, "{other}");
        }
    }
}
