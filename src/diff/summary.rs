//! The review in one line of numbers.
//!
//! Apart because both families are counted together: a service port that both have is one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::review::{Review, Verdict};
use crate::catalog::PortName;

/// How much differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Service ports that change.
    pub changed: usize,
    /// Service ports that appear.
    pub added: usize,
    /// Service ports that disappear.
    pub removed: usize,
    /// Service ports of which only comments differ.
    pub cosmetic: usize,
    /// Chains of the set-up that differ.
    pub set_up: usize,
    /// Chains of service ports that nothing leads to.
    pub stale: usize,
    /// Chains of all kinds that differ.
    pub chains: usize,
    /// Rules of others on the left.
    pub foreign: usize,
    /// Service ports that differ and were not asked for.
    pub other_ports: usize,
    /// Chains of no service port that differ, if service ports were asked for.
    pub other_chains: usize,
}

impl Summary {
    pub(super) fn add_all(&mut self, reviews: &[&Review<'_>]) {
        let mut verdicts: BTreeMap<&PortName, Verdict> = BTreeMap::new();
        for port in reviews.iter().flat_map(|review| &review.ports) {
            let verdict = verdicts.entry(&port.name).or_insert(port.verdict);
            *verdict = match (*verdict, port.verdict) {
                (one, other) if one == other => one,
                (Verdict::Cosmetic, other) | (other, Verdict::Cosmetic) => other,
                // One family comes or goes: the service port itself changes.
                _ => Verdict::Changes,
            };
        }
        for verdict in verdicts.into_values() {
            *match verdict {
                Verdict::Appears => &mut self.added,
                Verdict::Disappears => &mut self.removed,
                Verdict::Changes => &mut self.changed,
                Verdict::Cosmetic => &mut self.cosmetic,
            } += 1;
        }
        let others = reviews.iter().flat_map(|review| &review.left_out.ports);
        self.other_ports = others.collect::<BTreeSet<_>>().len();
        for review in reviews {
            self.other_chains += review.left_out.chains;
            self.set_up += review.set_up.len();
            self.stale += review.stale.len();
            self.foreign += review.foreign;
            let places = review.chains().map(|chain| (chain.table, chain.chain));
            self.chains += places.collect::<BTreeSet<_>>().len();
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.chains == 0 {
            f.write_str("no differences")?;
            return self.write_rest(f);
        }
        let ports = plural(self.changed, "service port changes", "service ports change");
        write!(f, "{ports}, {} added, {} removed", self.added, self.removed)?;
        if self.cosmetic > 0 {
            write!(f, "; {} only in comments", self.cosmetic)?;
        }
        if self.set_up > 0 {
            let chains = plural(self.set_up, "chain", "chains");
            write!(f, "; set-up differs in {chains}")?;
        }
        if self.stale > 0 {
            write!(f, "; {}", plural(self.stale, "stale chain", "stale chains"))?;
        }
        write!(f, "; {}", plural(self.chains, "chain", "chains"))?;
        self.write_rest(f)
    }
}

impl Summary {
    fn write_rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.other_ports > 0 {
            let ports = plural(self.other_ports, "service port", "service ports");
            write!(f, "; {ports} left out")?;
        }
        if self.other_chains > 0 {
            let chains = plural(self.other_chains, "chain", "chains");
            write!(f, "; {chains} of no Service left out")?;
        }
        if self.foreign > 0 {
            let rules = plural(self.foreign, "foreign rule", "foreign rules");
            write!(f, "; {rules} ignored")?;
        }
        Ok(())
    }
}

pub(super) fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
