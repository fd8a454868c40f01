//! The ways of running the two programs that are compared: flags, backends, and what a node has.

use super::support::daemon::Backend;
use super::support::netns::Netns;

/// One way of running both programs.
#[derive(Debug)]
pub struct Variant {
    /// Unique, for reports.
    pub name: &'static str,
    /// Which iptables programs.
    pub backend: Backend,
    /// Flags of both programs.
    pub flags: &'static [&'static str],
    /// Flags of our own only.
    pub own_flags: &'static [&'static str],
    /// A KubeProxyConfiguration that both programs are given, as far as it is not about the place.
    pub config: Option<&'static str>,
    /// `net` settings that both nodes have before anything starts.
    pub sysctls: &'static [(&'static str, &'static str)],
}

const CLUSTER_CIDR: &str = "--cluster-cidr=10.4.0.0/14,fd00:10:4::/48";
const KEP: &str = "--partial-restore=kep-3453";
const TREE: &str = "--service-dispatch=tree";

/// kube-proxy's defaults with the cluster's networks, on nft.
const PLAIN: Variant = Variant {
    name: "plain",
    backend: Backend::Nft,
    flags: &[CLUSTER_CIDR],
    own_flags: &[],
    config: None,
    sysctls: &[],
};

/// Every variant, in threes that run side by side: each three has both backends, and no two of one
/// three are alike in what they try.
pub const VARIANTS: &[Variant] = &[
    PLAIN,
    Variant {
        name: "kep-3453 on legacy",
        backend: Backend::Legacy,
        own_flags: &[KEP],
        ..PLAIN
    },
    Variant {
        name: "node port networks, no localhost node ports",
        flags: &[
            CLUSTER_CIDR,
            "--nodeport-addresses=192.0.2.0/24,fd00:192::/64",
            "--iptables-localhost-nodeports=false",
        ],
        own_flags: &[TREE],
        ..PLAIN
    },
    Variant {
        name: "plain on legacy",
        backend: Backend::Legacy,
        own_flags: &[TREE],
        ..PLAIN
    },
    Variant {
        name: "NodeCIDR, kep-3453",
        flags: &["--detect-local-mode=NodeCIDR"],
        own_flags: &[KEP],
        ..PLAIN
    },
    Variant {
        name: "IPv6 primary, node ports on the primary addresses",
        flags: &[
            CLUSTER_CIDR,
            "--bind-address=fd00:192::11",
            "--nodeport-addresses=primary",
        ],
        ..PLAIN
    },
    Variant {
        name: "BridgeInterface, masquerade all, node ports on all addresses",
        backend: Backend::Legacy,
        flags: &[
            "--nodeport-addresses=all,192.0.2.10/32",
            "--detect-local-mode=BridgeInterface",
            "--pod-bridge-interface=cbr0",
            "--masquerade-all",
        ],
        ..PLAIN
    },
    Variant {
        name: "InterfaceNamePrefix, another masquerade bit",
        flags: &[
            "--detect-local-mode=InterfaceNamePrefix",
            "--pod-interface-name-prefix=veth",
            "--iptables-masquerade-bit=7",
        ],
        ..PLAIN
    },
    Variant {
        name: "KubeProxyConfiguration",
        flags: &[],
        config: Some(CONFIG),
        ..PLAIN
    },
    Variant {
        name: "no local traffic detector, no localhost node ports",
        flags: &["--iptables-localhost-nodeports=false"],
        ..PLAIN
    },
    Variant {
        name: "liberal conntrack, one family's network, node ports on primary and localhost",
        backend: Backend::Legacy,
        flags: &[
            "--cluster-cidr=10.4.0.0/14",
            "--nodeport-addresses=primary,localhost",
        ],
        sysctls: &[("netfilter/nf_conntrack_tcp_be_liberal", "1")],
        ..PLAIN
    },
    Variant {
        name: "node port networks of one family",
        flags: &[
            CLUSTER_CIDR,
            "--nodeport-addresses=127.0.0.0/8,192.0.2.10/32",
        ],
        own_flags: &[KEP, TREE],
        ..PLAIN
    },
];

/// How many variants follow one history side by side.
pub const SIDE_BY_SIDE: usize = 3;

/// The variants that belong to a seed.
pub fn group(seed: u64) -> &'static [Variant] {
    let groups = VARIANTS.len() / SIDE_BY_SIDE;
    let at = usize::try_from(seed % groups as u64).unwrap() * SIDE_BY_SIDE;
    &VARIANTS[at..at + SIDE_BY_SIDE]
}

/// The file replaces the flags. It differs from the defaults wherever rules can show it.
const CONFIG: &str = "\
mode: iptables
clusterCIDR: fd00:10:4::/48,10.4.0.0/14
nodePortAddresses: [192.0.2.11/32]
iptables:
  masqueradeBit: 30
  masqueradeAll: true
  localhostNodePorts: false
  syncPeriod: 5s
  minSyncPeriod: 10ms
conntrack: {maxPerCore: 0}
";

impl Variant {
    /// Gives a namespace what the Node object says, and what flags refer to.
    pub fn prepare(&self, netns: &Netns) {
        netns.bridge("node0");
        for address in [
            "192.0.2.10/24",
            "192.0.2.11/24",
            "fd00:192::10/64",
            "fd00:192::11/64",
        ] {
            netns.address("node0", address);
        }
        for (key, value) in self.sysctls {
            netns.sysctl(key, value);
        }
    }
}

/// The Node's addresses, which both namespaces of a pair have.
pub const NODE_ADDRESSES: [&str; 2] = ["192.0.2.10", "fd00:192::10"];
