//! The programs that are compared.

use std::ffi::OsString;

use clap::ValueEnum;

use crate::support::kube::binary;

/// Program that watches the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// No watcher: the server's own work, and that for the changes
    None,
    /// kube-proxy in its iptables mode
    KubeProxy,
    /// deltaproxy
    Deltaproxy,
}

impl Subject {
    /// As in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::KubeProxy => "kube-proxy",
            Self::Deltaproxy => "deltaproxy",
        }
    }

    /// The program and the flags that only it has; none if there is nothing to start.
    pub fn command(self) -> Option<Vec<OsString>> {
        // The machine's conntrack limits are not a namespace's to raise.
        let limits = "--conntrack-max-per-core=0".into();
        match self {
            Self::None => None,
            Self::KubeProxy => {
                let path = binary("kube-proxy").unwrap_or_else(|why| panic!("{why}"));
                Some(vec![path.into(), "--proxy-mode=iptables".into(), limits])
            }
            Self::Deltaproxy => Some(vec![env!("CARGO_BIN_EXE_deltaproxy").into(), limits]),
        }
    }
}
