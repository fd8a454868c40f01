//! Startup checks: compares the configuration, this node and its Node object once all are known,
//! and logs what does not fit together.
//!
//! Rules are written meanwhile: nothing waits for the checks.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/server.go`, `newProxyServer`, `checkBadConfig`,
//! `checkBadIPConfig`, `detectNodeIPs` (v1.37)
//!
//! Differs from upstream: what looks like a mistake is a warning and not an error, and NodePorts
//! on all addresses, the default, are not even a warning. kube-proxy waits half a minute for
//! addresses and five minutes for podCIDRs, after which it exits; here rules follow both when they
//! appear.

use std::net::{IpAddr, SocketAddr};

use anyhow::bail;
use tokio::sync::oneshot;
use tokio::sync::watch::{self, Sender};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::Config;
use crate::model::Node;
use crate::net::{IpFamily, IpNet, PerFamily};
use crate::render::{LocalMode, NodePortAddressItem, RenderSettings};

/// Checks that run once it is known which families iptables is usable for, and the Node object.
#[derive(Clone)]
pub(super) struct StartupChecks(Sender<PerFamily<Option<bool>>>);

impl StartupChecks {
    pub(super) fn new() -> Self {
        Self(watch::channel(PerFamily::default()).0)
    }

    pub(super) fn set_usable(&self, family: IpFamily, is_usable: bool) {
        self.0
            .send_modify(|usable| *usable.get_mut(family) = Some(is_usable));
    }

    /// Runs the checks once, when the Node of the first list and all usable families are known, and
    /// logs the findings.
    ///
    /// # Errors
    ///
    /// A finding is fatal: the process has to exit.
    pub(super) async fn run(
        &self,
        config: &Config,
        first_node: oneshot::Receiver<Option<Box<Node>>>,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let mut usable = self.0.subscribe();
        let facts = async {
            let usable = usable.wait_for(|usable| usable.v4.is_some() && usable.v6.is_some());
            let usable = usable.await?.map(|_, usable| usable == Some(true));
            anyhow::Ok((usable, first_node.await))
        };
        let (usable, node) = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            facts = facts => facts?,
        };
        let Ok(node) = node else {
            // The source of changes has failed, and its error ends the process.
            return Ok(());
        };
        for finding in findings(config, usable, node.as_deref()) {
            match finding {
                Finding::Note(text) => info!("{text}"),
                Finding::Warning(text) => warn!("{text}"),
                Finding::Fatal(text) => bail!(text),
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Finding {
    /// State of a usual node, for the log.
    Note(String),
    /// Likely mistake; rules can be rendered all the same.
    Warning(String),
    /// Rules would do harm, so the process exits; later findings are not logged.
    Fatal(String),
}

fn findings(config: &Config, usable: PerFamily<bool>, node: Option<&Node>) -> Vec<Finding> {
    let rules = &config.rules.render_settings.v4;
    let primary = primary(rules.bind_address, node);
    let checks = NodeChecks {
        rules,
        usable,
        primary,
        pod_cidrs: node.map_or(&[], |node| &node.pod_cidrs),
    };
    let mut findings = vec![checks.families()];
    findings.extend(checks.node_ports(node));
    findings.extend(checks.local_traffic());
    let empty_mode = config.empty_mode.iter();
    findings.extend(empty_mode.map(|note| Finding::Note(note.text().to_owned())));
    let serving = config.serving;
    let addresses = [
        ("healthzBindAddress", serving.healthz),
        ("metricsBindAddress", serving.metrics),
    ];
    findings.extend(addresses.into_iter().filter_map(|(name, address)| {
        let address = address?;
        checks.is_unreachable(address).then(|| {
            let kind = checks.family_kind();
            Finding::Warning(format!("this node is {kind}, but {name} is `{address}`"))
        })
    }));
    findings
}

/// Returns the family of the primary address of this node; IPv4 without one.
fn primary(bind_address: Option<IpAddr>, node: Option<&Node>) -> IpFamily {
    let first = || node.and_then(|node| node.addresses.first().copied());
    bind_address
        .or_else(first)
        .map_or(IpFamily::V4, IpFamily::of)
}

struct NodeChecks<'a> {
    rules: &'a RenderSettings,
    usable: PerFamily<bool>,
    primary: IpFamily,
    pod_cidrs: &'a [IpNet],
}

impl NodeChecks<'_> {
    fn is_dual_stack(&self) -> bool {
        self.usable.v4 && self.usable.v6
    }

    /// Returns the family of the node, as in `IPv4-primary` or `IPv4-only`.
    fn family_kind(&self) -> String {
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
                "the primary addresses of this node are {primary}, but iptables is not usable for \
                 {primary}\n\
                 hint: install the iptables binaries of both families, or set --bind-address to an \
                 address of the other"
            ))
        } else if self.is_dual_stack() {
            Finding::Note(format!("serving IPv4 and IPv6; {primary} is primary"))
        } else {
            Finding::Note(format!("serving {primary} only"))
        }
    }

    /// Upstream: `cmd/kube-proxy/app/server.go`, `checkBadConfig` (v1.37)
    fn node_ports(&self, node: Option<&Node>) -> Option<Finding> {
        let items = &self.rules.node_port_addresses;
        if items.is_empty() {
            let text = "--nodeport-addresses is not set: NodePorts accept connections on all \
                        addresses of this node; --nodeport-addresses=primary limits them";
            return Some(Finding::Note(text.to_owned()));
        }
        let addresses = node.into_iter().flat_map(|node| &node.addresses);
        let addresses = addresses.chain(&self.rules.bind_address);
        let primary: Vec<IpFamily> = addresses
            .filter(|ip| !ip.is_loopback())
            .map(|ip| IpFamily::of(*ip))
            .collect();
        let of_networks = items.iter().filter_map(|item| match item {
            NodePortAddressItem::Network(network) => Some(IpFamily::of_cidr(*network)),
            NodePortAddressItem::Primary => None,
        });
        let of_networks: Vec<IpFamily> = of_networks.collect();
        let is_without = |family| !of_networks.contains(&family);
        let is_any_without =
            is_without(self.primary) || self.is_dual_stack() && is_without(self.primary.other());
        let has_primary = items.contains(&NodePortAddressItem::Primary);
        if has_primary && primary.is_empty() && is_any_without {
            let text = "--nodeport-addresses: `primary` has no address yet: a family without \
                        another item has no NodePorts until the Node has an address";
            return Some(Finding::Warning(text.to_owned()));
        }
        let families = if has_primary {
            [of_networks, primary].concat()
        } else {
            of_networks
        };
        let everywhere = |family| {
            let text = format!(
                "--nodeport-addresses has no {family} address: {family} NodePorts accept connections \
                 on all {family} addresses of this node"
            );
            Some(Finding::Warning(text))
        };
        let is_loopback = |item: &NodePortAddressItem| match item {
            NodePortAddressItem::Network(network) => network.network().is_loopback(),
            NodePortAddressItem::Primary => false,
        };
        let excludes_localhost = !self.rules.fixed.has_localhost_node_ports;
        if excludes_localhost && items.iter().all(is_loopback) {
            let text = "--nodeport-addresses has only addresses of localhost, which \
                        --iptables-localhost-nodeports=false excludes: there are no NodePorts";
            return Some(Finding::Warning(text.to_owned()));
        }
        let has = |family| families.contains(&family);
        let other = self.primary.other();
        if !has(self.primary) {
            everywhere(self.primary)
        } else if !has(other) && self.is_cluster_dual_stack() {
            everywhere(other)
        } else {
            None
        }
    }

    /// Reports whether the networks of Pods are of both families.
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

    /// Checks the networks of Pods that local traffic is detected by.
    ///
    /// Upstream: `cmd/kube-proxy/app/server.go`, `checkBadIPConfig`, `server_linux.go`,
    /// `getLocalDetectors` (v1.37)
    fn local_traffic(&self) -> Vec<Finding> {
        let (primary, kind) = (self.primary, self.family_kind());
        let mut findings = Vec::new();
        if let LocalMode::ClusterCidr(cidrs) = &self.rules.local_mode {
            let text = format!("this node is {kind}, but --cluster-cidr has no {primary} network");
            findings.extend(match (cidrs.as_slice(), self.is_other_family(cidrs)) {
                ([], _) => Some(Finding::Note(
                    "--cluster-cidr is not set: cannot detect traffic from local Pods, so off-cluster \
                     traffic to cluster IPs is not masqueraded"
                        .to_owned(),
                )),
                (_, true) if !self.is_dual_stack() => Some(Finding::Fatal(text)),
                (_, true) => Some(Finding::Warning(text)),
                _ => None,
            });
        }
        let is_by_node = self.rules.local_mode == LocalMode::NodeCidr;
        if self.is_other_family(self.pod_cidrs) {
            let text = format!("this node is {kind}, but its podCIDRs have no {primary} network");
            findings.push(if is_by_node {
                Finding::Fatal(text)
            } else {
                Finding::Warning(text)
            });
        } else if is_by_node && self.pod_cidrs.is_empty() {
            let text = "--detect-local-mode is NodeCIDR, but this Node has no podCIDRs yet: until it \
                        has, traffic from local Pods is not detected";
            findings.push(Finding::Warning(text.to_owned()));
        }
        findings
    }

    /// Reports whether all of these networks are of the other family; false if there are none.
    fn is_other_family(&self, cidrs: &[IpNet]) -> bool {
        !cidrs.is_empty() && !families_of(cidrs).contains(&self.primary)
    }

    /// Reports whether no client can reach this address of the wrong family. The unspecified
    /// address is reachable in any family.
    fn is_unreachable(&self, address: SocketAddr) -> bool {
        let ip = address.ip();
        !self.is_dual_stack() && IpFamily::of(ip) != self.primary && !ip.is_unspecified()
    }
}

fn families_of(cidrs: &[IpNet]) -> Vec<IpFamily> {
    cidrs.iter().map(|cidr| IpFamily::of_cidr(*cidr)).collect()
}

#[cfg(test)]
#[path = "tests/startup_checks.rs"]
mod tests;
