//! The programs that are compared.

use std::ffi::OsString;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::support::kube::binary;

/// Who watches the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// Nobody: what the server does for itself, and for whoever makes the changes
    Nobody,
    /// kube-proxy in its iptables mode
    KubeProxy,
    /// deltaproxy
    Deltaproxy,
    /// deltaproxy that asks for JSON
    DeltaproxyJson,
    /// kube-proxy at a server that does not compress, which serves it like one that does serves a
    /// client that does not ask for gzip
    KubeProxyIdentity,
    /// deltaproxy at such a server
    DeltaproxyIdentity,
    /// deltaproxy that asks for JSON at such a server
    DeltaproxyJsonIdentity,
}

impl Subject {
    /// As in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::KubeProxy => "kube-proxy",
            Self::Deltaproxy => "deltaproxy",
            Self::DeltaproxyJson => "deltaproxy, JSON",
            Self::KubeProxyIdentity => "kube-proxy, not compressed",
            Self::DeltaproxyIdentity => "deltaproxy, not compressed",
            Self::DeltaproxyJsonIdentity => "deltaproxy, JSON, not compressed",
        }
    }

    /// Flags of its API server.
    pub fn server_flags(self) -> &'static [&'static str] {
        match self {
            Self::Nobody | Self::KubeProxy | Self::Deltaproxy | Self::DeltaproxyJson => &[],
            Self::KubeProxyIdentity | Self::DeltaproxyIdentity | Self::DeltaproxyJsonIdentity => {
                &["--feature-gates=WatchListCompression=false"]
            }
        }
    }

    /// The program and the flags that only it has; none if there is nothing to start.
    pub fn command(self) -> Option<Vec<OsString>> {
        // The machine's conntrack limits are not a namespace's to raise.
        let limits = "--conntrack-max-per-core=0";
        let ours = env!("CARGO_BIN_EXE_deltaproxy").into();
        match self {
            Self::Nobody => None,
            Self::KubeProxy | Self::KubeProxyIdentity => {
                let path = binary("kube-proxy").unwrap_or_else(|why| panic!("{why}"));
                let program = path.into_os_string();
                let flags = ["--proxy-mode=iptables", limits];
                Some([program].into_iter().chain(flags.map(Into::into)).collect())
            }
            Self::Deltaproxy | Self::DeltaproxyIdentity => Some(vec![ours, limits.into()]),
            Self::DeltaproxyJson | Self::DeltaproxyJsonIdentity => Some(vec![
                ours,
                limits.into(),
                "--kube-api-content-type=application/json".into(),
            ]),
        }
    }
}
