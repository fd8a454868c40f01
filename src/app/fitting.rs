//! Whether configuration, Node and machine fit together: one line for each thing that is odd.
//!
//! Apart from [`first_look`](super::first_look), which knows when to ask, so that every answer can
//! be had without a machine.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/server.go`, `newProxyServer`, `checkBadConfig`,
//! `checkBadIPConfig`, `detectNodeIPs` (v1.36)
//!
//! Differs from upstream: what is odd is a warning and no error, and that NodePorts answer
//! everywhere, which is the default, is not even odd. Nothing is waited for: there, half a minute
//! for addresses, and for podCIDRs five minutes, after which it ends; here, rules follow both as
//! they come.

use std::net::{IpAddr, SocketAddr};

use crate::config::Config;
use crate::model::Node;
use crate::net::{IpFamily, IpNet, PerFamily};
use crate::sync::{LocalMode, NodePortSource, Surroundings};

/// Something to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// Worth knowing.
    Usual(String),
    /// Hardly meant, but rules can be made of it.
    Odd(String),
    /// Rules made of it would do harm; nothing is said after it.
    Fatal(String),
}

/// All that is to be said of this machine, on which these families can be programmed, as this Node.
pub(super) fn findings(
    config: &Config,
    usable: PerFamily<bool>,
    node: Option<&Node>,
) -> Vec<Finding> {
    let rules = &config.rules.surroundings.v4;
    let primary = primary(rules.bind_address, node);
    let scene = Scene {
        rules,
        usable,
        primary,
        pod_cidrs: node.map_or(&[], |node| &node.pod_cidrs),
    };
    let mut findings = vec![scene.families()];
    findings.extend(scene.node_ports(node));
    findings.extend(scene.local_traffic());
    let serving = config.serving;
    let addresses = [
        ("healthzBindAddress", serving.healthz),
        ("metricsBindAddress", serving.metrics),
    ];
    findings.extend(addresses.into_iter().filter_map(|(name, address)| {
        let address = address?;
        scene.is_lost(address).then(|| {
            let only = scene.only();
            Finding::Odd(format!("this node is {only}, and {name} is `{address}`"))
        })
    }));
    findings
}

/// The family of the address that stands for this node, IPv4 if there is none.
fn primary(bind_address: Option<IpAddr>, node: Option<&Node>) -> IpFamily {
    let first = || node.and_then(|node| node.addresses.first().copied());
    bind_address
        .or_else(first)
        .map_or(IpFamily::V4, IpFamily::of)
}

struct Scene<'a> {
    rules: &'a Surroundings,
    usable: PerFamily<bool>,
    primary: IpFamily,
    pod_cidrs: &'a [IpNet],
}

impl Scene<'_> {
    fn is_dual_stack(&self) -> bool {
        self.usable.v4 && self.usable.v6
    }

    /// What the node is, in words.
    fn only(&self) -> String {
        let kind = if self.is_dual_stack() {
            "primary"
        } else {
            "only"
        };
        format!("{}-{kind}", self.primary)
    }

    fn families(&self) -> Finding {
        let primary = self.primary;
        if !self.usable.get(primary) {
            Finding::Fatal(format!(
                "this node's primary addresses are {primary}, which this machine cannot program\n\
                 hint: install the programs of both families, or set --bind-address to an address of \
                 the other"
            ))
        } else if self.is_dual_stack() {
            Finding::Usual(format!("both families are served, {primary} first"))
        } else {
            Finding::Usual(format!("{primary} alone is served"))
        }
    }

    /// Upstream: `cmd/kube-proxy/app/server.go`, `checkBadConfig` (v1.36)
    fn node_ports(&self, node: Option<&Node>) -> Option<Finding> {
        let families = match &self.rules.node_ports {
            NodePortSource::All => {
                let hint = "--nodeport-addresses=primary would limit them";
                let text = format!("NodePorts answer on every address of this machine; {hint}");
                return Some(Finding::Usual(text));
            }
            NodePortSource::Within(cidrs) => families_of(cidrs),
            NodePortSource::Primary => {
                let addresses = node.into_iter().flat_map(|node| &node.addresses);
                let all = addresses.chain(&self.rules.bind_address);
                let usable = all.filter(|ip| !ip.is_loopback());
                usable.map(|ip| IpFamily::of(*ip)).collect()
            }
        };
        let everywhere = |family| {
            let text = format!(
                "--nodeport-addresses has no {family} address: {family} NodePorts answer on all of them"
            );
            Some(Finding::Odd(text))
        };
        let has = |family| families.contains(&family);
        let other = self.primary.other();
        if families.is_empty() {
            // `primary`, and no address yet: none answers until there is one.
            None
        } else if !has(self.primary) {
            everywhere(self.primary)
        } else if !has(other) && self.is_cluster_dual_stack() {
            everywhere(other)
        } else {
            None
        }
    }

    /// Whether something was configured that only makes sense in a cluster of both families.
    fn is_cluster_dual_stack(&self) -> bool {
        let is_dual = |cidrs: &[IpNet]| {
            let families = families_of(cidrs);
            IpFamily::ALL.iter().all(|family| families.contains(family))
        };
        let clusters: &[IpNet] = match &self.rules.local_mode {
            LocalMode::ClusterCidr(cidrs) => cidrs,
            _ => &[],
        };
        is_dual(clusters) || is_dual(self.pod_cidrs)
    }

    /// Networks of Pods of the wrong family, or none, for the detection of local traffic.
    ///
    /// Upstream: `cmd/kube-proxy/app/server.go`, `checkBadIPConfig`, `server_linux.go`,
    /// `getLocalDetectors` (v1.36)
    fn local_traffic(&self) -> Vec<Finding> {
        let (primary, only) = (self.primary, self.only());
        let mut findings = Vec::new();
        if let LocalMode::ClusterCidr(cidrs) = &self.rules.local_mode {
            let text = format!("this node is {only}, and --cluster-cidr has no {primary} network");
            findings.extend(match (cidrs.as_slice(), self.is_wrong(cidrs)) {
                ([], _) => Some(Finding::Usual(
                    "no --cluster-cidr: Pods are not told from others".to_owned(),
                )),
                (_, true) if !self.is_dual_stack() => Some(Finding::Fatal(text)),
                (_, true) => Some(Finding::Odd(text)),
                _ => None,
            });
        }
        let is_by_node = self.rules.local_mode == LocalMode::NodeCidr;
        if self.is_wrong(self.pod_cidrs) {
            let text = format!("this node is {only}, and its podCIDRs have no {primary} network");
            findings.push(if is_by_node {
                Finding::Fatal(text)
            } else {
                Finding::Odd(text)
            });
        } else if is_by_node && self.pod_cidrs.is_empty() {
            let text = "--detect-local-mode=NodeCIDR, and this Node has no podCIDRs yet: until it \
                        has, Pods are not told from others";
            findings.push(Finding::Odd(text.to_owned()));
        }
        findings
    }

    /// Whether all of these are of the other family.
    fn is_wrong(&self, cidrs: &[IpNet]) -> bool {
        !cidrs.is_empty() && !families_of(cidrs).contains(&self.primary)
    }

    /// Whether nobody can ask at this address. One that is unspecified will do.
    fn is_lost(&self, address: SocketAddr) -> bool {
        let ip = address.ip();
        !self.is_dual_stack() && IpFamily::of(ip) != self.primary && !ip.is_unspecified()
    }
}

fn families_of(cidrs: &[IpNet]) -> Vec<IpFamily> {
    cidrs.iter().map(|cidr| IpFamily::of_cidr(*cidr)).collect()
}

#[cfg(test)]
#[path = "tests/fitting.rs"]
mod tests;
