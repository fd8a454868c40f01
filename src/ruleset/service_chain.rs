//! Chains of service ports: their names, and the comments of the rules about one service port.
//! Writers of rules print both, and readers parse them.
//!
//! # Source
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.37). Readers also know the
//! comments that releases up to 1.23 had in `KUBE-XLB-*`.

use std::fmt;

use data_encoding::BASE32;
use sha2::{Digest, Sha256};

use crate::model::ServicePortName;

/// Hash in a chain name: 10 bytes, which base32 writes as 16 characters.
pub(crate) type ChainHash = [u8; 10];

/// Characters of the hash in a name.
const HASH_CHARS: usize = 16;

/// Bytes of the longest name: a prefix of nine, as `KUBE-SVC-`, and the hash.
const LONGEST_NAME: usize = 9 + HASH_CHARS;

/// Purpose of a Service chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChainKind {
    /// `KUBE-SEP-`: DNAT to one endpoint.
    Endpoint,
    /// `KUBE-SVC-`: choice among all endpoints, traffic policy Cluster.
    Cluster,
    /// `KUBE-SVL-`: choice among the endpoints on this node, traffic policy Local.
    Local,
    /// `KUBE-EXT-`: traffic to external IPs, load balancer addresses and NodePorts.
    External,
    /// `KUBE-FW-`: source ranges of a load balancer.
    SourceRanges,
    /// `KUBE-XLB-`: external traffic under policy Local, until 1.23. Such a chain jumps to chains
    /// of endpoints. If an upgrade leaves it behind, these cannot be deleted when their endpoints
    /// go away, and the restore fails, perhaps weeks later.
    ///
    /// Differs from upstream: 1.36 and later no longer recognize these chains as its own.
    RetiredExternal,
}

impl ChainKind {
    const ALL: [Self; 6] = [
        Self::Endpoint,
        Self::Cluster,
        Self::Local,
        Self::External,
        Self::SourceRanges,
        Self::RetiredExternal,
    ];

    /// Returns the kind of a chain of any release; `None` if it is not a Service chain.
    pub fn of(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| name.starts_with(kind.prefix()))
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Endpoint => "KUBE-SEP-",
            Self::Cluster => "KUBE-SVC-",
            Self::Local => "KUBE-SVL-",
            Self::External => "KUBE-EXT-",
            Self::SourceRanges => "KUBE-FW-",
            Self::RetiredExternal => "KUBE-XLB-",
        }
    }
}

/// Reports whether a chain of the nat table is a Service chain, of any release, or a tree chain,
/// whose name begins like one. A Service chain is stale if no Service has it now.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `isServiceChainName` (v1.37)
pub fn is_service_chain(name: &str) -> bool {
    ChainKind::of(name).is_some()
}

/// Chain of a service port or of one of its endpoints: eleven bytes instead of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceChain {
    /// Purpose of the chain: the prefix of the name.
    pub kind: ChainKind,
    /// Hash of the service port and, for an endpoint's chain, of the endpoint.
    pub hash: ChainHash,
}

impl ServiceChain {
    /// Parses a name; `None` if it is not a Service chain, or of a kind that only old releases
    /// write.
    pub fn parse(name: &str) -> Option<Self> {
        let kind = ChainKind::of(name).filter(|kind| *kind != ChainKind::RetiredExternal)?;
        let text = name.strip_prefix(kind.prefix())?;
        let mut hash = ChainHash::default();
        let is_whole = BASE32.decode_len(text.len()) == Ok(hash.len());
        let decoded = is_whole.then(|| BASE32.decode_mut(text.as_bytes(), &mut hash));
        (decoded?.ok()? == hash.len()).then_some(Self { kind, hash })
    }

    /// Appends the name: 24 or 25 bytes, within the kernel's 28.
    pub fn write(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(self.kind.prefix().as_bytes());
        buf.extend_from_slice(&self.hash_text());
    }

    /// Returns the name padded with zeros, which sorts like the name and needs no allocation.
    pub(crate) fn sort_key(self) -> [u8; LONGEST_NAME] {
        let mut key = [0; LONGEST_NAME];
        let name = self.kind.prefix().bytes().chain(self.hash_text());
        for (place, byte) in key.iter_mut().zip(name) {
            *place = byte;
        }
        key
    }

    /// Returns the name, as `iptables-save` prints it.
    pub fn name(self) -> String {
        self.to_string()
    }

    fn hash_text(self) -> [u8; HASH_CHARS] {
        let mut text = [0; HASH_CHARS];
        BASE32.encode_mut(&self.hash, &mut text);
        text
    }
}

impl fmt::Display for ServiceChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.prefix())?;
        f.write_str(std::str::from_utf8(&self.hash_text()).unwrap_or_default())
    }
}

/// Hashes a service port and, for the chains of its endpoints, the endpoint.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `portProtoHash`, `servicePortEndpointChainName`
/// (v1.37)
#[derive(Debug, Clone)]
pub(crate) struct ChainHasher {
    /// State after the service port's name and protocol: hashes of endpoints continue from here.
    service_port: Sha256,
}

impl ChainHasher {
    pub(crate) fn new(name: ServicePortName<'_>) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(name.service.as_str());
        if !name.port.is_empty() {
            hasher.update(":");
            hasher.update(name.port);
        }
        hasher.update(name.protocol.as_str());
        Self {
            service_port: hasher,
        }
    }

    pub(crate) fn service_port(&self) -> ChainHash {
        truncate(self.service_port.clone())
    }

    /// Hashes an endpoint, given as `ADDRESS:PORT`.
    pub(crate) fn endpoint(&self, text: &[u8]) -> ChainHash {
        truncate(self.service_port.clone().chain_update(text))
    }
}

fn truncate(hasher: Sha256) -> ChainHash {
    let digest: [u8; 32] = hasher.finalize().into();
    let mut hash = ChainHash::default();
    for (byte, from) in hash.iter_mut().zip(digest) {
        *byte = from;
    }
    hash
}

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
#[path = "tests/service_chain.rs"]
mod tests;
