//! Entry jumps: from built-in chains to the proxy's chains.
//!
//! Other programs have rules in the built-in chains: an entry jump is inserted at the top if it is
//! missing, and never moved.

use crate::rules::Table;

/// Entry jump: from a built-in chain to a chain of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// Table of both chains.
    pub table: Table,
    /// Built-in chain that holds the rule.
    pub from: &'static str,
    /// Whole rule, without `-A` and the chain's name.
    pub rule: &'static str,
}

impl Jump {
    const fn filter(from: &'static str, rule: &'static str) -> Self {
        Self {
            table: Table::Filter,
            from,
            rule,
        }
    }

    const fn nat(from: &'static str, rule: &'static str) -> Self {
        Self {
            table: Table::Nat,
            from,
            rule,
        }
    }
}

const EXTERNAL_SERVICES: &str = "-m conntrack --ctstate NEW -m comment --comment \"kubernetes \
    externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES";
const NODE_PORTS: &str =
    "-m comment --comment \"kubernetes health check service ports\" -j KUBE-NODEPORTS";
const FILTER_SERVICES: &str = "-m conntrack --ctstate NEW -m comment --comment \"kubernetes \
    service portals\" -j KUBE-SERVICES";
const FORWARD: &str = "-m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD";
const PROXY_FIREWALL: &str = "-m conntrack --ctstate NEW -m comment --comment \"kubernetes load \
    balancer firewall\" -j KUBE-PROXY-FIREWALL";
const NAT_SERVICES: &str = "-m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES";
const POSTROUTING: &str =
    "-m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING";
const FIREWALL: &str = "-j KUBE-FIREWALL";

/// All entry jumps, in the order in which missing ones are inserted at the top: the last one ends
/// up first.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `iptablesJumpChains`, `iptablesKubeletJumpChains`
/// (v1.36)
pub const JUMPS: [Jump; 14] = [
    Jump::filter("INPUT", EXTERNAL_SERVICES),
    Jump::filter("FORWARD", EXTERNAL_SERVICES),
    Jump::filter("INPUT", NODE_PORTS),
    Jump::filter("FORWARD", FILTER_SERVICES),
    Jump::filter("OUTPUT", FILTER_SERVICES),
    Jump::filter("FORWARD", FORWARD),
    Jump::filter("INPUT", PROXY_FIREWALL),
    Jump::filter("OUTPUT", PROXY_FIREWALL),
    Jump::filter("FORWARD", PROXY_FIREWALL),
    Jump::nat("OUTPUT", NAT_SERVICES),
    Jump::nat("PREROUTING", NAT_SERVICES),
    Jump::nat("POSTROUTING", POSTROUTING),
    Jump::filter("INPUT", FIREWALL),
    Jump::filter("OUTPUT", FIREWALL),
];
