//! Recognizes the mode of the proxy that wrote rules.

use crate::rules::{RuleSet, Table};
use crate::ruleset::{IPVS_CHAINS, is_proxy_chain};

/// Mode of a proxy, as far as rules of iptables show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ProxyMode {
    /// Services are rules of iptables.
    Iptables,
    /// Services are virtual servers of IPVS; rules of iptables only masquerade and filter.
    Ipvs,
}

impl ProxyMode {
    /// Returns the mode; `None` if no chain is a proxy's.
    pub(crate) fn of(rules: &RuleSet) -> Option<Self> {
        let mut ipvs = IPVS_CHAINS.into_iter();
        if ipvs.any(|name| rules.chain(Table::Nat, name).is_some()) {
            return Some(Self::Ipvs);
        }
        let mut tables = [Table::Filter, Table::Nat].into_iter();
        tables
            .any(|table| {
                rules
                    .chains(table)
                    .any(|(name, _)| is_proxy_chain(table, name))
            })
            .then_some(Self::Iptables)
    }
}
