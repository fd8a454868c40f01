//! Whether the chains that all Services share are asked at all.
//!
//! Apart because a service port may be complete, and still nobody gets there: the jumps that lead
//! to the shared chains are about no service port, and are lost with whatever chain they are in.

use std::collections::BTreeSet;

use super::entrance::{Fate, Kind};
use super::{Catalog, stale};
use crate::rules::{Rule, RuleSet, Table};

/// A jump that is missing, in the nat table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gap {
    /// What comes from Pods and from outside is not asked about Services.
    Prerouting,
    /// What comes from programs of the node is not asked about Services.
    Output,
    /// What is asked about Services is not asked about NodePorts.
    NodePorts,
}

impl Gap {
    const ALL: [Self; 3] = [Self::Prerouting, Self::Output, Self::NodePorts];

    /// The chain that the jump is missing in.
    pub const fn from(self) -> &'static str {
        match self {
            Self::Prerouting => "PREROUTING",
            Self::Output => "OUTPUT",
            Self::NodePorts => "KUBE-SERVICES",
        }
    }

    /// The chain that it should lead to.
    pub const fn to(self) -> &'static str {
        match self {
            Self::Prerouting | Self::Output => "KUBE-SERVICES",
            Self::NodePorts => "KUBE-NODEPORTS",
        }
    }
}

/// What a ruleset holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Everything, jumps from built-in chains among it.
    Kernel,
    /// What is restored: jumps from built-in chains are made apart.
    Payload,
}

impl Extent {
    /// As far as it can be told: a node has rules in built-in chains, if only for masquerading.
    pub fn guess(rules: &RuleSet) -> Self {
        let built_in = Table::Nat.built_in_chains().iter();
        let mut built_in = built_in.filter_map(|name| rules.chain(Table::Nat, name));
        if built_in.any(|chain| !chain.rules.is_empty()) {
            Self::Kernel
        } else {
            Self::Payload
        }
    }
}

impl Catalog {
    /// Counts nothing as served that nothing leads to from outside, and returns the missing jumps
    /// that matter to somebody.
    pub fn heed_gaps(&mut self, rules: &RuleSet, extent: Extent) -> Vec<Gap> {
        let can_miss = |gap: &Gap| extent == Extent::Kernel || *gap == Gap::NodePorts;
        let matters = |gap: &Gap| self.entered().any(|kind| is_behind(kind, *gap));
        let is_missing = |gap: &Gap| !leads(rules, gap.from(), gap.to());
        let gaps = Gap::ALL.into_iter().filter(can_miss).filter(matters);
        let gaps: Vec<Gap> = gaps.filter(is_missing).collect();
        for entrance in self.ports.values_mut().flat_map(|view| &mut view.entrances) {
            let mut gaps = gaps.iter().filter(|gap| **gap != Gap::Output);
            let is_entered = entrance.fate == Fate::Served && entrance.chain.is_some();
            if is_entered && gaps.any(|gap| is_behind(entrance.kind, *gap)) {
                entrance.fate = Fate::Unreachable;
            }
        }
        gaps
    }

    /// The kinds of all entrances that lead into a chain.
    fn entered(&self) -> impl Iterator<Item = Kind> {
        let entrances = self.ports.values().flat_map(|view| &view.entrances);
        let entered = entrances.filter(|entrance| entrance.chain.is_some());
        entered.map(|entrance| entrance.kind)
    }
}

const fn is_behind(kind: Kind, gap: Gap) -> bool {
    match gap {
        Gap::Prerouting | Gap::Output => true,
        Gap::NodePorts => matches!(kind, Kind::NodePort),
    }
}

/// Whether jumps lead from one chain to another, perhaps through other people's.
fn leads(rules: &RuleSet, from: &str, to: &str) -> bool {
    let mut waiting = vec![from];
    let mut seen = BTreeSet::from([from]);
    while let Some(name) = waiting.pop() {
        if name == to {
            return true;
        }
        let chain = rules.chain(Table::Nat, name).into_iter();
        let targets = chain
            .flat_map(|chain| &chain.rules)
            .filter_map(Rule::target_chain);
        // Whatever a Service's own chains are, they are no way to a shared one.
        let next = targets.filter(|target| !stale::is_service_chain(target));
        waiting.extend(next.filter(|target| seen.insert(target)));
    }
    false
}
