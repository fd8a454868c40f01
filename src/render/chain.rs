//! The chains of a Service: their names, computed and compared.
//!
//! Apart because names are the contract with every other program on the node: metrics, runbooks
//! and a kube-proxy that takes over again all recognize chains by them.

use data_encoding::BASE32;
use sha2::{Digest, Sha256};

use crate::model::ServicePortName;

/// The hash part of a name: 16 characters of base32 are 10 bytes.
pub(super) type Hash = [u8; 10];

/// A prefix of nine letters and the hash.
const LONGEST_NAME: usize = 9 + 16;

/// What a chain is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChainKind {
    /// `KUBE-SEP-`: one endpoint.
    Endpoint,
    /// `KUBE-SVC-`: all endpoints, policy Cluster.
    Cluster,
    /// `KUBE-SVL-`: endpoints on this node, policy Local.
    Local,
    /// `KUBE-EXT-`: where traffic from outside enters.
    External,
    /// `KUBE-FW-`: which clients a load balancer admits.
    Firewall,
}

impl ChainKind {
    const ALL: [Self; 5] = [
        Self::Endpoint,
        Self::Cluster,
        Self::Local,
        Self::External,
        Self::Firewall,
    ];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Endpoint => "KUBE-SEP-",
            Self::Cluster => "KUBE-SVC-",
            Self::Local => "KUBE-SVL-",
            Self::External => "KUBE-EXT-",
            Self::Firewall => "KUBE-FW-",
        }
    }
}

/// Prefixes of chains that Services had under older kube-proxies. Left behind by an upgrade they
/// hold references that make the deletion of live chains fail, weeks later.
///
/// Differs from upstream: 1.36 no longer recognizes them as its own.
const FORMER_PREFIXES: [&str; 1] = ["KUBE-XLB-"];

/// Whether a chain of the nat table belongs to some Service, so that it is stale if no Service
/// wants it.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `isServiceChainName` (v1.36)
pub fn is_service_chain(name: &str) -> bool {
    ChainKind::ALL
        .into_iter()
        .map(ChainKind::prefix)
        .chain(FORMER_PREFIXES)
        .any(|p| name.starts_with(p))
}

/// A chain of a service port or of one of its endpoints: eleven bytes instead of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceChain {
    /// What for.
    pub kind: ChainKind,
    /// Of what.
    pub hash: Hash,
}

impl ServiceChain {
    /// The chain of that name; `None` if it is none that we write.
    pub fn parse(name: &str) -> Option<Self> {
        let kinds = ChainKind::ALL.into_iter();
        let mut parts = kinds.filter_map(|kind| Some((kind, name.strip_prefix(kind.prefix())?)));
        let (kind, text) = parts.next()?;
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

    /// The name, and zeros behind it: ordered as names are, and nothing to allocate.
    pub(super) fn spelling(self) -> [u8; LONGEST_NAME] {
        let mut spelling = [0; LONGEST_NAME];
        let (prefix, hash) = (self.kind.prefix().as_bytes(), self.hash);
        let mut text = [0; 16];
        BASE32.encode_mut(&hash, &mut text);
        let name = prefix.iter().chain(&text);
        for (place, byte) in spelling.iter_mut().zip(name) {
            *place = *byte;
        }
        spelling
    }

    /// The name.
    pub fn name(self) -> String {
        format!("{}{}", self.kind.prefix(), BASE32.encode(&self.hash))
    }
}

/// Hashes a service port and, for its endpoints' chains, the endpoint.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `portProtoHash`, `servicePortEndpointChainName`
/// (v1.36)
#[derive(Debug, Clone)]
pub(super) struct ChainHasher {
    /// The state after the service port's name and protocol: endpoints continue from here.
    base: Sha256,
}

impl ChainHasher {
    pub(super) fn new(name: ServicePortName<'_>) -> Self {
        let mut base = Sha256::new();
        base.update(name.service.as_str());
        if !name.port.is_empty() {
            base.update(":");
            base.update(name.port);
        }
        base.update(name.protocol.as_str());
        Self { base }
    }

    pub(super) fn service_port(&self) -> Hash {
        truncate(self.base.clone())
    }

    pub(super) fn endpoint(&self, text: &[u8]) -> Hash {
        truncate(self.base.clone().chain_update(text))
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
mod tests {
    use super::*;
    use crate::model::ServiceName;
    use crate::net::Protocol;

    #[track_caller]
    fn check(service: &str, port: &str, endpoint: &str, expected: &str) {
        let service = ServiceName::new("ns1", service);
        let name = ServicePortName {
            service: &service,
            port,
            protocol: Protocol::Tcp,
        };
        let hasher = ChainHasher::new(name);
        let chain = if endpoint.is_empty() {
            ServiceChain {
                kind: ChainKind::Cluster,
                hash: hasher.service_port(),
            }
        } else {
            ServiceChain {
                kind: ChainKind::Endpoint,
                hash: hasher.endpoint(endpoint.as_bytes()),
            }
        };
        assert_eq!(chain.name(), expected);
    }

    #[test]
    fn names_are_kube_proxys() {
        check("svc1", "p80", "", "KUBE-SVC-XPGD46QRK7WJZT7O");
        check("svc1", "p80", "10.180.0.1:80", "KUBE-SEP-SXIVWICOYRO3J4NJ");
        check("six", "p", "", "KUBE-SVC-XMIJJXQQGQIVBXKY");
        check("six", "p", "[fd00:10::5]:80", "KUBE-SEP-YYHMXQEUHSHOQURZ");
        check("none", "", "", "KUBE-SVC-YPTPHO2BTFASFY3W");
    }

    #[test]
    fn service_chains_are_told_by_prefix() {
        for ours in [
            "KUBE-SVC-A",
            "KUBE-SVL-A",
            "KUBE-EXT-A",
            "KUBE-FW-A",
            "KUBE-SEP-A",
            "KUBE-XLB-A",
        ] {
            assert!(is_service_chain(ours), "{ours}");
        }
        for other in [
            "KUBE-SERVICES",
            "KUBE-MARK-MASQ",
            "KUBE-KUBELET-CANARY",
            "KUBE-FIREWALL",
            "cali-KUBE-SVC-",
        ] {
            assert!(!is_service_chain(other), "{other}");
        }
    }
}
