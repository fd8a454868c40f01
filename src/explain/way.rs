//! What one client's packets meet on their way.
//!
//! Apart because it is decided by [`follow`](super::follow), and every form of output is written
//! from it.

use std::net::{IpAddr, SocketAddr};

use super::alike::{Alike, eventful};
use super::client::Client;
use super::reason::{Masquerade, Refusal};
use crate::rules::{Share, Step, Table, Unclear};

/// The way of packets of clients that meet the same.
#[derive(Debug, Clone)]
pub struct Way<'a> {
    /// Who sends them; the rules are those that the first of these meets.
    pub clients: Vec<Client>,
    /// Whether the others meet the same rules.
    pub alike: Alike,
    /// The rules that all packets meet before they part, or up to the end if they do not.
    pub before: Vec<Step<'a>>,
    /// How they end: one for each choice that rules make, in their order.
    pub ends: Vec<End<'a>>,
    /// The rules that all packets meet after they parted.
    pub after: Vec<Step<'a>>,
    /// Which endpoints were to choose from.
    pub reach: Reach,
    /// Whether an endpoint that is sent to itself is masqueraded, which others here are not.
    pub has_hairpin: bool,
    /// Rules that could not be decided, and were taken not to match.
    pub doubts: Vec<Step<'a>>,
    /// A table that may end it otherwise, and that nobody saw.
    pub unseen: Option<Table>,
}

/// One ending.
#[derive(Debug, Clone)]
pub struct End<'a> {
    /// Of how many packets.
    pub share: Share,
    /// How they end.
    pub fate: Fate,
    /// The rules that only these packets meet.
    pub steps: Vec<Step<'a>>,
}

/// What becomes of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// An endpoint gets it.
    Served {
        /// Which.
        to: SocketAddr,
        /// Whom it sees.
        sees: Sees,
    },
    /// It goes to where it was meant to go: this node itself, or on as routed.
    Passed {
        /// Whether that is this node.
        is_local: bool,
        /// Whom the receiver sees.
        sees: Sees,
    },
    /// It vanishes.
    Dropped(Refusal),
    /// It is answered with an error.
    Rejected(Refusal),
    /// Rules make no sense.
    Unclear(Unclear),
    /// A table decides that nobody saw.
    Unseen(Table),
}

/// Whom the receiver sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sees {
    /// The client's own address.
    Client,
    /// The node's address.
    Node(Masquerade),
    /// Another address, by a rule that is not of Services; `None`: one of several.
    Other(Option<IpAddr>),
}

/// Which endpoints there were to choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All that may answer.
    All,
    /// Those on this node, because of policy Local.
    Local,
    /// All, although the policy of external traffic is Local: the client is this cluster's.
    AllDespiteLocal,
}

impl<'a> Way<'a> {
    /// Every rule of one of its ends, in order.
    pub fn steps<'w>(&'w self, end: &'w End<'a>) -> impl Iterator<Item = &'w Step<'a>> {
        self.before.iter().chain(&end.steps).chain(&self.after)
    }

    /// The built-in chains whose policy drops packets, and how many it drops.
    pub fn policies(&self) -> Vec<(Table, &'static str, Share)> {
        let mut policies: Vec<(Table, &'static str, Share)> = Vec::new();
        for end in &self.ends {
            let Some(at) = end.policy() else {
                continue;
            };
            match policies.iter_mut().find(|known| (known.0, known.1) == at) {
                Some((_, _, share)) => *share = share.plus(end.share),
                None => policies.push((at.0, at.1, end.share)),
            }
        }
        policies
    }

    /// Whether the clients of both meet the same: all that differs is how they came in.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let ends = |way: &Self| {
            let pairs = way.ends.iter().map(|end| (end.share, end.fate.clone()));
            pairs.collect::<Vec<_>>()
        };
        let own = |way: &Self| {
            let all = way.ends.iter().flat_map(|end| way.steps(end));
            let is_own = |step: &&Step<'a>| {
                let is_service =
                    step.chain.starts_with("KUBE-") && step.chain != "KUBE-POSTROUTING";
                step.table == Table::Nat && is_service
            };
            let own = all.filter(is_own);
            own.map(|step| std::ptr::from_ref(step.rule))
                .collect::<Vec<_>>()
        };
        ends(self) == ends(other) && self.reach == other.reach && own(self) == own(other)
    }

    /// Takes the clients of one that is like it.
    pub(super) fn join(&mut self, other: Self) {
        self.alike = self.alike.max(Alike::of(self, &other));
        self.clients.extend(other.clients);
        self.has_hairpin |= other.has_hairpin;
        add_doubts(&mut self.doubts, &other.doubts);
    }

    /// What all packets meet before they part, without mere visits.
    pub(super) fn before_fork(&self) -> Vec<&Step<'a>> {
        let fork = self.ends.first().and_then(|end| end.steps.first());
        eventful(&self.before, fork)
    }

    /// The same of what they meet before and after, but not in between.
    pub(super) fn told(&self) -> Vec<&Step<'a>> {
        let mut told = self.before_fork();
        told.extend(eventful(&self.after, None));
        told
    }
}

impl End<'_> {
    /// The built-in chain whose policy is what drops these packets, if no rule does.
    pub fn policy(&self) -> Option<(Table, &'static str)> {
        match self.fate {
            Fate::Dropped(Refusal::Policy(table, chain)) => Some((table, chain)),
            _ => None,
        }
    }
}

/// The very same rule; another one may read the same.
pub(super) fn is_same(left: &Step<'_>, right: &Step<'_>) -> bool {
    std::ptr::eq(left.rule, right.rule)
}

pub(super) fn add_doubts<'a>(to: &mut Vec<Step<'a>>, from: &[Step<'a>]) {
    for doubt in from {
        if !to.iter().any(|known| is_same(known, doubt)) {
            to.push(*doubt);
        }
    }
}
