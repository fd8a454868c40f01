//! What the kernel of a namespace holds, and the names of chains, worked out independently of the
//! crate under test.

use data_encoding::BASE32;
use deltaproxy::testing::rules::{RuleSet, Table};
use sha2::{Digest, Sha256};

use super::daemon::Backend;
use super::netns::Netns;

/// One of the two `iptables-save` programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `iptables-save`
    V4,
    /// `ip6tables-save`
    V6,
}

/// The rules of a namespace as the save program prints them.
pub fn saved(netns: &Netns, backend: Backend, family: Family) -> String {
    let prefix = match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    };
    netns.run(&format!("{prefix}-{}-save", backend.name()))
}

/// The name of a service chain: `KUBE-SVC-`, `-SVL-`, `-EXT-` or `-FW-` of a service port.
///
/// Upstream: pkg/proxy/iptables/proxier.go, portProtoHash (v1.37)
pub fn service_chain(prefix: &str, service_port: &str, protocol: &str) -> String {
    format!("{prefix}{}", hash(&[service_port, protocol]))
}

/// The name of an endpoint's chain.
///
/// Upstream: pkg/proxy/iptables/proxier.go, servicePortEndpointChainName (v1.37)
pub fn endpoint_chain(service_port: &str, protocol: &str, endpoint: &str) -> String {
    format!("KUBE-SEP-{}", hash(&[service_port, protocol, endpoint]))
}

fn hash(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
    }
    BASE32.encode(&hasher.finalize())[..16].to_owned()
}

/// The number of tree chains: no other chain of a proxy has a slash in its name.
pub fn tree_chains(rules: &RuleSet) -> usize {
    let chains = Table::ALL.into_iter().flat_map(|table| rules.chains(table));
    let is_tree = |name: &str| name.starts_with("KUBE-") && name.contains('/');
    chains.filter(|(name, _)| is_tree(name)).count()
}
