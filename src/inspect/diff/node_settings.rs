//! Reads facts about a host from its rules, which are no difference.

use crate::rules::{Chain, Match, Rule, RuleSet, Table, Target};
use crate::ruleset::{KUBE_FORWARD, KUBE_NODEPORTS, KUBE_POSTROUTING};

/// Facts about a host that decide on rules: capabilities of its kernel and iptables binaries, and
/// sysctls. A comparison that runs elsewhere, such as one of a dump, takes them from the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostSettings {
    /// Rule for packets in conntrack state INVALID.
    pub invalid: InvalidPacketHandling,
    /// An nfacct counter counts packets to NodePorts on localhost.
    pub counts_localhost: bool,
    /// Masquerading uses `--random-fully`.
    pub is_random_fully: bool,
}

/// Handling of packets in conntrack state INVALID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InvalidPacketHandling {
    /// No rule: they are forwarded.
    Forwarded,
    Dropped,
    /// They are dropped, and an nfacct counter counts them.
    Counted,
}

impl HostSettings {
    /// Reads the facts from the rules of a host; `None` if its fixed chains are missing or empty.
    pub(crate) fn read(rules: &RuleSet) -> Option<Self> {
        let forward = chain_with_rules(rules, Table::Filter, KUBE_FORWARD)?;
        let postrouting = chain_with_rules(rules, Table::Nat, KUBE_POSTROUTING)?;
        let invalid = forward.rules.iter().find(|rule| drops_invalid(rule));
        let invalid = match invalid.map(has_counter) {
            None => InvalidPacketHandling::Forwarded,
            Some(false) => InvalidPacketHandling::Dropped,
            Some(true) => InvalidPacketHandling::Counted,
        };
        // Without NodePorts no rule shows it, but a kernel with one counter has the other as well.
        let node_ports = chain_with_rules(rules, Table::Nat, KUBE_NODEPORTS);
        let counts_localhost = node_ports
            .map_or(invalid == InvalidPacketHandling::Counted, |chain| {
                chain.rules.iter().any(has_counter)
            });
        let mut targets = postrouting.rules.iter().map(|rule| &rule.target);
        Some(Self {
            invalid,
            counts_localhost,
            is_random_fully: targets.any(|target| {
                matches!(
                    target,
                    Some(Target::Masquerade {
                        is_fully_random: true
                    })
                )
            }),
        })
    }
}

fn chain_with_rules<'r>(rules: &'r RuleSet, table: Table, name: &str) -> Option<&'r Chain> {
    let chain = rules.chain(table, name)?;
    (!chain.rules.is_empty()).then_some(chain)
}

fn drops_invalid(rule: &Rule) -> bool {
    let is_invalid =
        |one: &Match| matches!(one, Match::Conntrack(states) if states.value.contains("INVALID"));
    rule.target == Some(Target::Drop) && rule.matches.iter().any(is_invalid)
}

fn has_counter(rule: &Rule) -> bool {
    rule.matches.iter().any(|one| one.name() == "nfacct")
}
