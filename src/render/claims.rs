//! Rules of a shared chain in the kernel, claimed by the Services that have them.
//!
//! Kept separate because adoption compares them with what Services want, and a check of one chain
//! with what they had.

use hashbrown::HashMap;

use super::adopt::Doubt;
use super::found::{FoundRule, digest};
use super::sheet::Digest;
use crate::model::ServiceName;

/// The rules of a shared chain that no Service has claimed yet.
pub(super) struct Claims {
    rules: Vec<Option<FoundRule>>,
    /// Positions of rules by digest. The last one is claimed first, because a deletion takes the
    /// first of its kind.
    places: HashMap<Digest, Vec<usize>>,
}

impl Claims {
    /// All rules of a chain, in their order.
    pub(super) fn new(rules: Vec<Option<FoundRule>>) -> Self {
        let mut places: HashMap<Digest, Vec<usize>> = HashMap::new();
        for (at, rule) in rules.iter().enumerate() {
            if let Some(digest) = rule.as_ref().and_then(|rule| rule.digest) {
                places.entry(digest).or_default().push(at);
            }
        }
        Self { rules, places }
    }

    /// Claims a rule; returns its position, if the chain has it.
    pub(super) fn take(&mut self, rule: &[u8]) -> Option<usize> {
        let at = self.places.get_mut(&digest([spec(rule)])?)?.pop()?;
        self.rules.get_mut(at)?.take()?;
        Some(at)
    }

    /// Returns the rules that are left.
    pub(super) fn unclaimed(self) -> impl Iterator<Item = FoundRule> {
        self.rules.into_iter().flatten()
    }
}

/// The name under which a ledger has rules and chains of no Service, so that they are removed.
pub(super) fn unowned() -> ServiceName {
    ServiceName::new("", "")
}

/// Takes the jump to KUBE-NODEPORTS off the end of its chain. Before the end it would be taken for
/// a third-party rule, and a deletion takes the first of its kind.
pub(super) fn take_tail(
    rules: &mut Vec<Option<FoundRule>>,
    tail: &[Box<[u8]>],
) -> Result<(), Doubt> {
    let others = rules
        .len()
        .checked_sub(tail.len())
        .ok_or(Doubt::NodePorts)?;
    let found = rules.get(others..).unwrap_or_default().iter().flatten();
    for (rule, way) in found.zip(tail) {
        if rule.digest.is_none() || rule.digest != digest([spec(way)]) {
            return Err(Doubt::NodePorts);
        }
    }
    rules.truncate(others);
    Ok(())
}

/// A rule of a shared chain as it stands behind the chain's name.
pub(super) fn spec(rule: &[u8]) -> &str {
    str::from_utf8(rule).unwrap_or_default().trim()
}
