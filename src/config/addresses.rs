//! Validation of fields that hold networks, addresses and the names of interfaces.
//!
//! # Source
//!
//! Upstream: pkg/proxy/apis/config/validation/validation.go (v1.37)

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::kube_proxy::KubeProxyConfiguration;
use super::problems::{ConfigProblems, unknown};
use super::settings::LOCAL_MODES;
use crate::net::{IpFamily, IpNet, PerFamily, parse_cidr, parse_ip};
use crate::render::LocalDetector;
use crate::render::{LocalMode, NodePortAddressItem};

/// Checks how local traffic is detected. Settings of other detection modes are ignored.
pub(super) fn local_mode(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<LocalMode> {
    const BRIDGE: &str = "detectLocal.bridgeInterface";
    const PREFIX: &str = "detectLocal.interfaceNamePrefix";

    let names = &configuration.detect_local;
    match configuration.detect_local_mode.as_str() {
        "ClusterCIDR" if configuration.cluster_cidr.is_empty() => {
            Some(LocalMode::ClusterCidr(Vec::new()))
        }
        "ClusterCIDR" => problems
            .keep("clusterCIDR", pair(&configuration.cluster_cidr))
            .map(LocalMode::ClusterCidr),
        "NodeCIDR" => Some(LocalMode::NodeCidr),
        mode @ "BridgeInterface" => interface(mode, (BRIDGE, &names.bridge_interface), problems)
            .map(|name| LocalMode::Fixed(LocalDetector::Bridge(name))),
        mode @ "InterfaceNamePrefix" => {
            interface(mode, (PREFIX, &names.interface_name_prefix), problems)
                .map(|prefix| LocalMode::Fixed(LocalDetector::InterfacePrefix(prefix)))
        }
        other => {
            // A network that no mode accepts is reported with the mode, not after it is corrected.
            if !configuration.cluster_cidr.is_empty() {
                problems.keep("clusterCIDR", pair(&configuration.cluster_cidr));
            }
            problems.add("detectLocalMode", unknown("mode", other, LOCAL_MODES));
            None
        }
    }
}

/// Checks the interface name that a detection mode requires.
///
/// Differs from upstream: a name that the kernel does not accept is rejected here, not by every
/// restore.
fn interface(
    mode: &str,
    (path, name): (&str, &str),
    problems: &mut ConfigProblems,
) -> Option<Arc<str>> {
    /// IFNAMSIZ without the terminating zero, in bytes.
    const LONGEST: usize = 15;

    let is_invalid = |c: char| c.is_whitespace() || c == '"';
    if name.is_empty() {
        let problem = format!("{mode} requires {}", problems.name(path));
        problems.add("detectLocalMode", problem);
        None
    } else if name.contains(is_invalid) || name.len() > LONGEST {
        problems.add(
            path,
            format!("{name:?} is not a valid interface name (at most {LONGEST} bytes)"),
        );
        None
    } else {
        Some(name.into())
    }
}

/// Parses one CIDR, or one of each family.
pub(super) fn pair(text: &str) -> Result<Vec<IpNet>, String> {
    let cidrs = text.split(',').map(cidr).collect::<Result<Vec<_>, _>>()?;
    match cidrs[..] {
        [_] => Ok(cidrs),
        [a, b] if IpFamily::of_cidr(a) != IpFamily::of_cidr(b) => Ok(cidrs),
        _ => Err(format!(
            "must be one CIDR, or one of each family; got `{text}`"
        )),
    }
}

/// Parses a list with one CIDR of each family.
pub(super) fn of_each_family(text: &str) -> Result<PerFamily<IpNet>, String> {
    let cidrs = pair(text)?;
    let of = |family| {
        let mut cidrs = cidrs.iter().copied();
        cidrs.find(|cidr| IpFamily::of_cidr(*cidr) == family)
    };
    match (of(IpFamily::V4), of(IpFamily::V6)) {
        (Some(v4), Some(v6)) => Ok(PerFamily { v4, v6 }),
        _ => Err("must have one CIDR of each family".to_owned()),
    }
}

fn cidr(text: &str) -> Result<IpNet, String> {
    parse_cidr(text).ok_or_else(|| format!("`{text}` is not a valid CIDR (example: 10.244.0.0/16)"))
}

/// Keywords among the node addresses that have NodePorts.
const ADDRESS_KEYWORDS: [&str; 3] = ["primary", "localhost", "all"];

/// Checks the node addresses that have NodePorts, and replaces `localhost` and `all` by networks.
///
/// Upstream: pkg/proxy/apis/config/validation/validation.go,
/// `validateKubeProxyNodePortAddress`, cmd/kube-proxy/app/server.go,
/// `expandNodePortAddressKeywords` (v1.37)
pub(super) fn node_ports(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<Vec<NodePortAddressItem>> {
    let values = configuration.node_port_addresses.as_deref();
    let values = values.unwrap_or_default();
    let mut items = Some(Vec::new());
    for (index, value) in values.iter().enumerate() {
        let is_repeated = values.iter().take(index).any(|earlier| earlier == value);
        let item = if is_repeated && ADDRESS_KEYWORDS.contains(&value.as_str()) {
            Err(format!("duplicate keyword `{value}`"))
        } else {
            node_port_items(value)
        };
        match (problems.keep("nodePortAddresses", item), &mut items) {
            (Some(item), Some(all)) => all.extend(item),
            _ => items = None,
        }
    }
    items
}

/// Parses a keyword or a CIDR.
fn node_port_items(text: &str) -> Result<Vec<NodePortAddressItem>, String> {
    const LOCALHOST: [&str; 2] = ["127.0.0.0/8", "::1/128"];
    const ALL: [&str; 2] = ["0.0.0.0/0", "::/0"];

    let networks: &[&str] = match text {
        "primary" => return Ok(vec![NodePortAddressItem::Primary]),
        "localhost" => &LOCALHOST,
        "all" => &ALL,
        cidr => &[cidr],
    };
    let networks: Option<Vec<IpNet>> = networks.iter().copied().map(parse_cidr).collect();
    let networks = networks.ok_or_else(|| {
        format!(
            "`{text}` is not a valid CIDR or keyword (keywords: {}; example: 10.0.0.0/8)",
            ADDRESS_KEYWORDS.join(", ")
        )
    })?;
    Ok(networks
        .into_iter()
        .map(NodePortAddressItem::Network)
        .collect())
}

/// Checks the address of this node. It may be unspecified, as `0.0.0.0` is.
pub(super) fn bind_address(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<IpAddr> {
    let text = &configuration.bind_address;
    let ip = parse_ip(text).ok_or_else(|| format!("`{text}` is not a valid IP address"));
    problems.keep("bindAddress", ip)
}

/// Checks the address and port of a server.
pub(super) fn serving_address(
    path: &str,
    text: &str,
    problems: &mut ConfigProblems,
) -> Option<SocketAddr> {
    let address = text.parse().ok();
    let address = address.filter(|address: &SocketAddr| address.port() != 0);
    let examples = "examples: 127.0.0.1:1234, [::1]:1234, off";
    problems.keep(
        path,
        address.ok_or_else(|| format!("`{text}` is not a valid address ({examples})")),
    )
}
