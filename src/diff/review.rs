//! What a comparison found, as data.
//!
//! Apart from how it is found and from how it is shown, of which there are several ways.

use super::chosen::LeftOut;
use super::edit::{Edit, edits};
use super::effect::Effect;
use super::{cosmetic, summary::Summary};
use crate::catalog::PortName;
use crate::net::IpFamily;
use crate::rules::{Rule, Table};

/// How the rules of one family differ. Sorted throughout.
#[derive(Debug, Clone, PartialEq)]
pub struct Review<'a> {
    /// Whose rules.
    pub family: IpFamily,
    /// The service ports that differ.
    pub ports: Vec<PortReview<'a>>,
    /// Chains, or rules in them, that do not depend on Services.
    pub set_up: Vec<ChainReview<'a>>,
    /// Chains of service ports that nothing leads to: left behind on the left, or not in use.
    pub stale: Vec<ChainReview<'a>>,
    /// How many rules of the left are nobody's business here.
    pub foreign: usize,
    /// What differs, too, and was not asked for.
    pub left_out: LeftOut,
    /// What makes the left into the right, if anything has to be done.
    pub restore: Option<Restore>,
}

/// How one service port differs.
#[derive(Debug, Clone, PartialEq)]
pub struct PortReview<'a> {
    /// Which one.
    pub name: PortName,
    /// What happens to it.
    pub verdict: Verdict,
    /// What traffic notices; nothing if it is only cosmetic.
    pub effects: Vec<Effect>,
    /// By table and name.
    pub chains: Vec<ChainReview<'a>>,
}

/// What happens to a service port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Only the right has it.
    Appears,
    /// Only the left has it.
    Disappears,
    /// Both have it, and some packet may be treated in another way.
    Changes,
    /// No packet can tell.
    Cosmetic,
}

/// How one chain differs, or what one service port has in a chain that all share.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainReview<'a> {
    /// Where it is.
    pub table: Table,
    /// Its name.
    pub chain: &'a str,
    /// Which side has it.
    pub presence: Presence,
    /// Its rules and what becomes of them, in order.
    pub edits: Vec<Edit<&'a Rule>>,
    /// No packet can tell.
    pub is_cosmetic: bool,
    /// Both sides lead to the same chains, in another order.
    pub is_reordered: bool,
}

/// Which side has a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The left: what is.
    Left,
    /// The right: what is desired.
    Right,
    /// Both.
    Both,
}

/// What a restore would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// How much it names.
    pub scope: Scope,
    /// Why it is no less than that, as in the daemon's log.
    pub reason: &'static str,
    /// How many Services changed, if that is why.
    pub services: Option<usize>,
    /// Chains that it writes or deletes.
    pub chains: u64,
    /// Lines of its payload.
    pub lines: u64,
    /// Bytes of its payload.
    pub bytes: u64,
    /// The payload itself, if it is partial.
    pub payload: Option<String>,
}

/// How much a restore names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    Full,
    /// What differs.
    Partial,
}

impl Review<'_> {
    /// Nothing differs, not even a comment.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.set_up.is_empty() && self.stale.is_empty()
    }

    /// Some packet may be treated in another way.
    pub fn matters(&self) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|port| port.verdict != Verdict::Cosmetic)
            || self.set_up.iter().any(|chain| !chain.is_cosmetic)
    }

    /// Every chain that differs, some more than once.
    pub(super) fn chains(&self) -> impl Iterator<Item = &ChainReview<'_>> {
        let of_ports = self.ports.iter().flat_map(|port| &port.chains);
        of_ports.chain(&self.set_up).chain(&self.stale)
    }
}

/// All families in numbers.
impl<'r> FromIterator<&'r Review<'r>> for Summary {
    fn from_iter<I: IntoIterator<Item = &'r Review<'r>>>(reviews: I) -> Self {
        let mut summary = Self::default();
        let mut reviews: Vec<_> = reviews.into_iter().collect();
        reviews.sort_by_key(|review| review.family);
        summary.add_all(&reviews);
        summary
    }
}

impl<'a> ChainReview<'a> {
    /// How `left` differs from `right`, each the rules of a chain or the part of them that is
    /// looked at; `None` stands for no chain.
    pub(super) fn of(
        (table, chain): (Table, &'a str),
        left: Option<&[&'a Rule]>,
        right: Option<&[&'a Rule]>,
    ) -> Option<Self> {
        if left == right {
            return None;
        }
        let presence = match (left, right) {
            (Some(_), None) => Presence::Left,
            (None, Some(_)) => Presence::Right,
            _ => Presence::Both,
        };
        let (left, right) = (left.unwrap_or_default(), right.unwrap_or_default());
        let is_cosmetic = presence == Presence::Both && cosmetic::are_alike(left, right);
        Some(Self {
            table,
            chain,
            presence,
            edits: edits(left, right),
            is_cosmetic,
            is_reordered: !is_cosmetic && cosmetic::are_reordered(left, right),
        })
    }

    /// How many rules are removed, and how many are added.
    pub fn counts(&self) -> (usize, usize) {
        let count = |wanted: fn(&Edit<&Rule>) -> bool| {
            self.edits.iter().filter(|edit| wanted(edit)).count()
        };
        let removed = count(|edit| matches!(edit, Edit::Removed(_)));
        let added = count(|edit| matches!(edit, Edit::Added(_)));
        (removed, added)
    }
}
