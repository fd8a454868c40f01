//! Fields that hold networks, addresses and the names of interfaces.
//!
//! Apart because they are all text until it is read here.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::Problems;
use crate::config::kube_proxy::KubeProxyConfiguration;
use crate::net::{IpFamily, IpNet, parse_cidr, parse_ip};
use crate::sync::{LocalMode, NodePortSource};

/// The mode of detection, with what it needs; what other modes need is not looked at.
pub(in crate::config) fn local_mode(
    configuration: &KubeProxyConfiguration,
    problems: &mut Problems,
) -> Option<LocalMode> {
    let mode = configuration.detect_local_mode.as_str();
    let names = &configuration.detect_local;
    match mode {
        "ClusterCIDR" if configuration.cluster_cidr.is_empty() => {
            Some(LocalMode::ClusterCidr(Vec::new()))
        }
        "ClusterCIDR" => problems
            .keep("clusterCIDR", pair(&configuration.cluster_cidr))
            .map(LocalMode::ClusterCidr),
        "NodeCIDR" => Some(LocalMode::NodeCidr),
        "BridgeInterface" => problems
            .keep(
                "detectLocal.bridgeInterface",
                interface(mode, &names.bridge_interface),
            )
            .map(LocalMode::BridgeInterface),
        "InterfaceNamePrefix" => problems
            .keep(
                "detectLocal.interfaceNamePrefix",
                interface(mode, &names.interface_name_prefix),
            )
            .map(LocalMode::InterfaceNamePrefix),
        _ => {
            let known = "ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix";
            problems.add(
                "detectLocalMode",
                format!("`{mode}` is no mode; write {known}"),
            );
            None
        }
    }
}

/// Differs from upstream: what the kernel takes for no name of an interface is refused here, and
/// not by every restore.
fn interface(mode: &str, name: &str) -> Result<Arc<str>, String> {
    // The kernel's limit without the closing zero.
    const LONGEST: usize = 15;

    let is_odd = |c: char| c.is_whitespace() || c == '"';
    if name.is_empty() {
        Err(format!("is required by mode {mode}"))
    } else if name.contains(is_odd) || name.len() > LONGEST {
        Err(format!("`{name}` is no interface name"))
    } else {
        Ok(name.into())
    }
}

/// One network, or one of each family.
pub(in crate::config) fn pair(text: &str) -> Result<Vec<IpNet>, String> {
    let cidrs = text.split(',').map(cidr).collect::<Result<Vec<_>, _>>()?;
    match cidrs[..] {
        [_] => Ok(cidrs),
        [a, b] if IpFamily::of_cidr(a) != IpFamily::of_cidr(b) => Ok(cidrs),
        _ => Err(format!(
            "`{text}` is neither one network nor one of each family"
        )),
    }
}

fn cidr(text: &str) -> Result<IpNet, String> {
    parse_cidr(text)
        .ok_or_else(|| format!("`{text}` is no network; write one like `10.244.0.0/16`"))
}

/// What NodePorts answer on.
pub(in crate::config) fn node_ports(
    configuration: &KubeProxyConfiguration,
    problems: &mut Problems,
) -> Option<NodePortSource> {
    let values = configuration.node_port_addresses.as_deref();
    let values = values.unwrap_or_default();
    let is_primary = |value: &String| value == "primary";
    let source = match values {
        [] => Ok(NodePortSource::All),
        [only] if is_primary(only) => Ok(NodePortSource::Primary),
        _ if values.iter().any(is_primary) => {
            Err("`primary` cannot be mixed with networks".to_owned())
        }
        _ => values
            .iter()
            .map(|value| cidr(value))
            .collect::<Result<_, _>>()
            .map(NodePortSource::Within),
    };
    problems.keep("nodePortAddresses", source)
}

/// The address that stands for this node, possibly an unspecified one.
pub(in crate::config) fn bind_address(
    configuration: &KubeProxyConfiguration,
    problems: &mut Problems,
) -> Option<IpAddr> {
    let text = &configuration.bind_address;
    let ip = parse_ip(text).ok_or_else(|| format!("`{text}` is no address"));
    problems.keep("bindAddress", ip)
}

/// An address and its port.
pub(in crate::config) fn serving_address(
    path: &str,
    text: &str,
    problems: &mut Problems,
) -> Option<SocketAddr> {
    let address = text.parse().ok();
    let address = address.filter(|address: &SocketAddr| address.port() != 0);
    let hint = "write one like `127.0.0.1:1234` or `[::1]:1234`, or `off`";
    problems.keep(
        path,
        address.ok_or_else(|| format!("`{text}` is no address; {hint}")),
    )
}
