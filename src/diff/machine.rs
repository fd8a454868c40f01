//! What only the machine knows, and its rules show.
//!
//! Apart because without it a comparison from elsewhere, such as of a dump on a laptop, would find
//! differences that are none: the programs and the kernel decide these, not the cluster.

use crate::rules::{Chain, Match, Rule, RuleSet, Table, Target};

/// What the programs and the kernel of a machine can do, and how it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// What becomes of packets that conntrack cannot place.
    pub invalid: Invalid,
    /// What comes to NodePorts on localhost is counted.
    pub counts_localhost: bool,
    /// Masquerading chooses ports at random.
    pub is_random_fully: bool,
}

/// What becomes of packets that conntrack cannot place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// Nothing.
    Forwarded,
    /// They are dropped.
    Dropped,
    /// They are dropped, and the kernel counts them.
    Counted,
}

impl Machine {
    /// What rules show; `None` if there are too few of them.
    pub fn read(rules: &RuleSet) -> Option<Self> {
        let forward = filled(rules, Table::Filter, "KUBE-FORWARD")?;
        let postrouting = filled(rules, Table::Nat, "KUBE-POSTROUTING")?;
        let invalid = forward.rules.iter().find(|rule| drops_invalid(rule));
        let invalid = match invalid.map(counts) {
            None => Invalid::Forwarded,
            Some(false) => Invalid::Dropped,
            Some(true) => Invalid::Counted,
        };
        // Without NodePorts nothing shows it, but where there is one counter there is the other.
        let node_ports = filled(rules, Table::Nat, "KUBE-NODEPORTS");
        let counts_localhost = node_ports.map_or(invalid == Invalid::Counted, |chain| {
            chain.rules.iter().any(counts)
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

fn filled<'r>(rules: &'r RuleSet, table: Table, name: &str) -> Option<&'r Chain> {
    let chain = rules.chain(table, name)?;
    (!chain.rules.is_empty()).then_some(chain)
}

fn drops_invalid(rule: &Rule) -> bool {
    let asks =
        |one: &Match| matches!(one, Match::Conntrack(states) if states.value.contains("INVALID"));
    rule.target == Some(Target::Drop) && rule.matches.iter().any(asks)
}

fn counts(rule: &Rule) -> bool {
    rule.matches.iter().any(|one| one.name() == "nfacct")
}
