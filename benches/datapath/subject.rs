//! Programs that write the rules, with the flags that choose the shape of these.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::support::daemon::{Backend, Program};

/// A program, its backend, and the shape of its dispatch rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// deltaproxy, kube-proxy's shape, on `iptables-nft`
    FlatNft,
    /// deltaproxy, tree of chains, on `iptables-nft`
    TreeNft,
    /// kube-proxy in iptables mode, on `iptables-nft`
    KubeProxyNft,
    /// deltaproxy, kube-proxy's shape, on `iptables-legacy`
    FlatLegacy,
    /// deltaproxy, tree of chains, on `iptables-legacy`
    TreeLegacy,
    /// kube-proxy in iptables mode, on `iptables-legacy`
    KubeProxyLegacy,
    /// kube-proxy in nftables mode
    KubeProxyNftables,
}

impl Subject {
    /// Heading of its column, and label of its line.
    pub fn name(self) -> &'static str {
        match self {
            Self::FlatNft => "flat, nft",
            Self::TreeNft => "tree, nft",
            Self::KubeProxyNft => "kube-proxy, nft",
            Self::FlatLegacy => "flat, legacy",
            Self::TreeLegacy => "tree, legacy",
            Self::KubeProxyLegacy => "kube-proxy, legacy",
            Self::KubeProxyNftables => "kube-proxy, nftables mode",
        }
    }

    /// Which `iptables` programs are first in the PATH.
    pub fn backend(self) -> Backend {
        match self {
            Self::FlatNft | Self::TreeNft | Self::KubeProxyNft | Self::KubeProxyNftables => {
                Backend::Nft
            }
            Self::FlatLegacy | Self::TreeLegacy | Self::KubeProxyLegacy => Backend::Legacy,
        }
    }

    /// Reports whether `iptables-save` shows its rules.
    pub fn uses_iptables(self) -> bool {
        self != Self::KubeProxyNftables
    }

    pub fn program(self) -> Program {
        match self {
            Self::FlatNft | Self::TreeNft | Self::FlatLegacy | Self::TreeLegacy => {
                Program::Deltaproxy
            }
            Self::KubeProxyNft | Self::KubeProxyLegacy | Self::KubeProxyNftables => {
                Program::kube_proxy()
            }
        }
    }

    /// Flags besides those of all subjects.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Self::FlatNft | Self::FlatLegacy => &["--service-dispatch=flat"],
            Self::TreeNft | Self::TreeLegacy => &["--service-dispatch=tree"],
            Self::KubeProxyNft | Self::KubeProxyLegacy => &[],
            Self::KubeProxyNftables => &["--proxy-mode=nftables"],
        }
    }
}
