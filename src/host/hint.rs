//! Which backend kubelet uses: the one in whose mangle table it has put a chain to say so.
//!
//! Apart from the [choice of programs](super::programs), because looking must not cost or change
//! anything: what is asked for by name is made on legacy, and read as a whole by nft's save
//! program.
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
        let listed = match backend {
            Backend::Nft => {
                let list = self.name(family, "-nft", "");
                query_within(DEADLINE, &list, &["-t", table, "-S"]).await
            }
            Backend::Legacy if !self.has_legacy(table, family) => return false,
            Backend::Legacy => {
                let save = self.name(family, "-legacy", "-save");
                query_within(DEADLINE, &save, &["-t", table]).await
            }
        };
        // Without these programs, or this family, there is no hint.
        listed.is_ok_and(|listed| listed.lines().any(is_hint))
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

/// Whether a line begins such a chain, as `-S` or as the save program has it.
fn is_hint(line: &str) -> bool {
    let chain = line.strip_prefix("-N ").or_else(|| line.strip_prefix(':'));
    let name = chain.and_then(|chain| chain.split(' ').next());
    name.is_some_and(|name| HINTS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_known_in_both_spellings() {
        for line in [
            "-N KUBE-IPTABLES-HINT",
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
        ] {
            assert!(!is_hint(line), "{line}");
        }
    }
}
