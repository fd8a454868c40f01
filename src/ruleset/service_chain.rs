//! Names of the chains of Services: computed, parsed and recognized.

use std::fmt;

use data_encoding::BASE32;
use sha2::{Digest, Sha256};

use crate::model::ServicePortName;

/// Hash part of a name: 16 characters of base32 are 10 bytes.
pub(crate) type Hash = [u8; 10];

/// Bytes of a prefix of nine letters and the hash.
const LONGEST_NAME: usize = 9 + 16;

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
    Firewall,
    /// `KUBE-XLB-`: external traffic under policy Local, until 1.23. Chains that an upgrade leaves
    /// behind hold references that make the deletion of live chains fail, weeks later.
    ///
    /// Differs from upstream: 1.36 no longer recognizes them as its own.
    RetiredExternal,
}

impl ChainKind {
    const ALL: [Self; 6] = [
        Self::Endpoint,
        Self::Cluster,
        Self::Local,
        Self::External,
        Self::Firewall,
        Self::RetiredExternal,
    ];

    /// Returns the kind of a chain of any release; `None` if it is not a Service chain.
    pub fn of(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| name.starts_with(kind.prefix()))
    }

    /// Reports whether it balances over endpoints; [`Self::RetiredExternal`] does as well.
    pub const fn is_policy(self) -> bool {
        matches!(self, Self::Cluster | Self::Local | Self::RetiredExternal)
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Endpoint => "KUBE-SEP-",
            Self::Cluster => "KUBE-SVC-",
            Self::Local => "KUBE-SVL-",
            Self::External => "KUBE-EXT-",
            Self::Firewall => "KUBE-FW-",
            Self::RetiredExternal => "KUBE-XLB-",
        }
    }
}

/// Reports whether a chain of the nat table belongs to some Service, so that it is stale if no
/// Service has it now.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `isServiceChainName` (v1.36)
pub fn is_service_chain(name: &str) -> bool {
    ChainKind::of(name).is_some()
}

/// Chain of a service port or of one of its endpoints: eleven bytes instead of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceChain {
    /// Purpose of the chain: the prefix of the name.
    pub kind: ChainKind,
    /// Hash of the service port and, for an endpoint's chain, of the endpoint.
    pub hash: Hash,
}

impl ServiceChain {
    /// Parses a name; `None` if current versions write no such chain.
    pub fn parse(name: &str) -> Option<Self> {
        let kind = ChainKind::of(name).filter(|kind| *kind != ChainKind::RetiredExternal)?;
        let text = name.strip_prefix(kind.prefix())?;
        let mut hash = Hash::default();
        let is_whole = BASE32.decode_len(text.len()) == Ok(hash.len());
        let decoded = is_whole.then(|| BASE32.decode_mut(text.as_bytes(), &mut hash));
        (decoded?.ok()? == hash.len()).then_some(Self { kind, hash })
    }

    /// Appends the name: 24 or 25 bytes, within the kernel's 28.
    pub fn write(self, buf: &mut Vec<u8>) {
        let mut text = [0; 16];
        BASE32.encode_mut(&self.hash, &mut text);
        buf.extend_from_slice(self.kind.prefix().as_bytes());
        buf.extend_from_slice(&text);
    }

    /// Returns the name padded with zeros: a key in the order of names that needs no allocation.
    pub(crate) fn sort_key(self) -> [u8; LONGEST_NAME] {
        let mut key = [0; LONGEST_NAME];
        let (prefix, hash) = (self.kind.prefix().as_bytes(), self.hash);
        let mut text = [0; 16];
        BASE32.encode_mut(&hash, &mut text);
        let name = prefix.iter().chain(&text);
        for (place, byte) in key.iter_mut().zip(name) {
            *place = *byte;
        }
        key
    }

    /// Returns the name, as `iptables-save` prints it.
    pub fn name(self) -> String {
        self.to_string()
    }
}

impl fmt::Display for ServiceChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = self.kind.prefix();
        write!(f, "{prefix}{}", BASE32.encode_display(&self.hash))
    }
}

/// Hashes a service port and, for the chains of its endpoints, the endpoint.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `portProtoHash`, `servicePortEndpointChainName`
/// (v1.36)
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

    pub(crate) fn service_port(&self) -> Hash {
        truncate(self.service_port.clone())
    }

    /// Hashes an endpoint, given as `ADDRESS:PORT`.
    pub(crate) fn endpoint(&self, text: &[u8]) -> Hash {
        truncate(self.service_port.clone().chain_update(text))
    }
}

fn truncate(hasher: Sha256) -> Hash {
    let digest: [u8; 32] = hasher.finalize().into();
    let mut hash = Hash::default();
    for (byte, from) in hash.iter_mut().zip(digest) {
        *byte = from;
    }
    hash
}

#[cfg(test)]
#[path = "tests/service_chain.rs"]
mod tests;
