//! Which backend kubelet uses: the one in whose mangle table it has put a chain to say so.
//!
//! Apart from the [choice of programs](super::programs), because looking must not cost or change
//! anything: legacy makes a table that is asked for by name, and nft's programs read everything
//! first, so that the kernel is asked itself.
//!
//! # Source
//!
//! Upstream: `kubernetes-sigs/iptables-wrappers`, `pkg/xtables/detect.go` (the official image)

use std::fs;
use std::time::Duration;

use super::programs::{Search, query_within};
use crate::net::IpFamily;
use crate::rules::{Backend, Table};

/// Chains that kubelet makes in the backend it uses; the first is the newer name.
const HINTS: [&str; 2] = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"];

/// A program that does not answer within this has no hint: nothing is written before all were
/// asked.
const DEADLINE: Duration = Duration::from_secs(5);

impl Search {
    /// The backend that has kubelet's hint in either family, nft before legacy. `None`: neither
    /// has one, as far as anybody can tell.
    pub(super) async fn hinted(&self) -> Option<Backend> {
        for backend in [Backend::Nft, Backend::Legacy] {
            for family in IpFamily::ALL {
                if self.has_hint(backend, family).await {
                    return Some(backend);
                }
            }
        }
        None
    }

    /// Legacy is never asked for a table by name that is not there: that would make it, and with it
    /// slow down every packet.
    async fn has_hint(&self, backend: Backend, family: IpFamily) -> bool {
        let table = Table::Mangle.as_str();
        match backend {
            Backend::Nft => HINTS
                .iter()
                .any(|chain| (self.has_nft_chain)(family, table, chain)),
            Backend::Legacy if !self.has_legacy(table, family) => false,
            Backend::Legacy => {
                let save = self.name(family, "-legacy", "-save");
                let saved = query_within(DEADLINE, &save, &["-t", table]).await;
                // Without this program, or this family, there is no hint.
                saved.is_ok_and(|saved| saved.lines().any(is_hint))
            }
        }
    }

    /// Whether legacy has made a table already. Of a kernel that knows no legacy there is no list.
    fn has_legacy(&self, table: &str, family: IpFamily) -> bool {
        let list = self.net.join(match family {
            IpFamily::V4 => "ip_tables_names",
            IpFamily::V6 => "ip6_tables_names",
        });
        fs::read_to_string(list).is_ok_and(|names| names.lines().any(|name| name == table))
    }
}

/// Whether a line of the save program begins such a chain.
fn is_hint(line: &str) -> bool {
    let chain = line.strip_prefix(':');
    let name = chain.and_then(|chain| chain.split(' ').next());
    name.is_some_and(|name| HINTS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_chains_of_two_names() {
        for line in [
            ":KUBE-IPTABLES-HINT - [0:0]",
            ":KUBE-KUBELET-CANARY - [7:420]",
        ] {
            assert!(is_hint(line), "{line}");
        }
        for line in [
            ":KUBE-KUBELET-CANARY2 - [0:0]",
            "-A KUBE-IPTABLES-HINT -j RETURN",
            "-A OUTPUT -j KUBE-IPTABLES-HINT",
            "KUBE-IPTABLES-HINT",
            "-N KUBE-IPTABLES-HINT",
        ] {
            assert!(!is_hint(line), "{line}");
        }
    }
}
