//! What one client's packets meet on their way.
//!
//! Apart because it is where the tracer is asked and its answer put in order: what all packets have
//! in common, where they part, and why they end as they do.

use std::net::{IpAddr, SocketAddr};

use super::client::{Client, Who};
use super::destination::Destination;
use super::node::Node;
use super::reason::{Masquerade, Refusal};
use crate::rules::{Outcome, Packet, Share, Step, Table, Unclear, Verdict, trace_past_doubts};

/// The way of packets of clients that meet the same.
#[derive(Debug, Clone)]
pub struct Way<'a> {
    /// Who sends them; the rules are those that the first of these meets.
    pub clients: Vec<Client>,
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
}

/// Whom the receiver sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sees {
    /// The client's own address.
    Client,
    /// The node's address.
    Node(Masquerade),
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

/// Follows the packets of one client.
pub(super) fn way<'a>(node: &Node<'a>, to: &Destination, client: Client) -> Way<'a> {
    let source = client.ip;
    let outcomes = follow(node, to, source, client.in_interface.as_deref());
    let has_hairpin = client.who == Who::Pod && has_hairpin(node, to, &outcomes);
    let many = outcomes.len() > 1;
    let shortest = outcomes.iter().map(|one| one.steps.len()).min();
    let shortest = shortest.unwrap_or_default();
    let before = if many {
        common(&outcomes, shortest, <[Step<'a>]>::iter)
    } else {
        shortest
    };
    let most = shortest - before;
    let after = if many {
        common(&outcomes, most, |steps| steps.iter().rev())
    } else {
        0
    };
    let first = outcomes.first().map(|one| one.steps.as_slice());
    let steps = first.unwrap_or_default();
    let (tail, mut doubts) = (steps.len() - after, Vec::new());
    for outcome in &outcomes {
        add_doubts(&mut doubts, &outcome.doubts);
    }
    Way {
        clients: vec![client],
        before: steps.iter().take(before).copied().collect(),
        after: steps.iter().skip(tail).copied().collect(),
        reach: reach(&outcomes),
        has_hairpin,
        doubts,
        ends: outcomes
            .into_iter()
            .map(|outcome| {
                let own = outcome.steps.len() - before - after;
                End {
                    share: outcome.share,
                    fate: fate(node, to, source, &outcome),
                    steps: outcome.steps.into_iter().skip(before).take(own).collect(),
                }
            })
            .collect(),
    }
}

impl<'a> Way<'a> {
    /// Every rule of one of its ends, in order.
    pub fn steps<'w>(&'w self, end: &'w End<'a>) -> impl Iterator<Item = &'w Step<'a>> {
        self.before.iter().chain(&end.steps).chain(&self.after)
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
        self.clients.extend(other.clients);
        self.has_hairpin |= other.has_hairpin;
        add_doubts(&mut self.doubts, &other.doubts);
    }
}

fn follow<'a>(
    node: &Node<'a>,
    to: &Destination,
    source: IpAddr,
    in_interface: Option<&str>,
) -> Vec<Outcome<'a>> {
    let packet = Packet {
        source,
        destination: to.ip,
        protocol: to.protocol,
        port: to.port,
        in_interface: in_interface.map(Box::from),
    };
    trace_past_doubts(node.rules, &packet, &node.locality)
}

/// How many steps all have in common, in the order of an iterator.
fn common<'o, 'a: 'o, I: Iterator<Item = &'o Step<'a>>>(
    outcomes: &'o [Outcome<'a>],
    most: usize,
    steps: impl Fn(&'o [Step<'a>]) -> I,
) -> usize {
    let Some((first, others)) = outcomes.split_first() else {
        return 0;
    };
    let alike = |other: &'o Outcome<'a>| {
        let pairs = steps(&first.steps).zip(steps(&other.steps)).take(most);
        pairs
            .take_while(|(left, right)| is_same(left, right))
            .count()
    };
    others.iter().map(alike).min().unwrap_or_default()
}

/// The very same rule; another one may read the same.
fn is_same(left: &Step<'_>, right: &Step<'_>) -> bool {
    std::ptr::eq(left.rule, right.rule)
}

fn add_doubts<'a>(to: &mut Vec<Step<'a>>, from: &[Step<'a>]) {
    for doubt in from {
        if !to.iter().any(|known| is_same(known, doubt)) {
            to.push(*doubt);
        }
    }
}

fn fate(node: &Node<'_>, to: &Destination, source: IpAddr, outcome: &Outcome<'_>) -> Fate {
    let sees = |masqueraded: bool| {
        if masqueraded {
            Sees::Node(Masquerade::of(&outcome.steps))
        } else {
            Sees::Client
        }
    };
    match &outcome.verdict {
        Verdict::Delivered {
            to,
            port,
            masqueraded,
        } => Fate::Served {
            to: SocketAddr::new(*to, *port),
            sees: sees(*masqueraded),
        },
        Verdict::Passed { .. } if to.ip.is_loopback() && !node.locality.is_local(source) => {
            Fate::Dropped(Refusal::Martian)
        }
        Verdict::Passed { masqueraded } => Fate::Passed {
            is_local: node.locality.is_local(to.ip),
            sees: sees(*masqueraded),
        },
        Verdict::Dropped => Fate::Dropped(Refusal::of(outcome)),
        Verdict::Rejected => Fate::Rejected(Refusal::of(outcome)),
        Verdict::Unclear(why) => Fate::Unclear(why.clone()),
    }
}

fn reach(outcomes: &[Outcome<'_>]) -> Reach {
    let leads = |step: &Step<'_>, prefix: &str| {
        let chain = step.rule.target_chain();
        chain.is_some_and(|chain| chain.starts_with(prefix))
    };
    let all = || outcomes.iter().flat_map(|outcome| &outcome.steps);
    let is_short_cut = |step: &Step<'_>| {
        step.chain.starts_with("KUBE-EXT-") || step.chain.starts_with("KUBE-XLB-")
    };
    let is_conditional = |step: &Step<'_>| {
        let asks = step.rule.matches.iter().any(|one| one.name() == "addrtype");
        asks || step.rule.source.is_some() || step.rule.in_interface.is_some()
    };
    if all().any(|step| is_short_cut(step) && leads(step, "KUBE-SVC-") && is_conditional(step)) {
        return Reach::AllDespiteLocal;
    }
    if all().any(|step| leads(step, "KUBE-SVL-") || leads(step, "KUBE-XLB-")) {
        return Reach::Local;
    }
    Reach::All
}

/// Asks as the first endpoint, if who answers sees its clients' own addresses.
fn has_hairpin(node: &Node<'_>, to: &Destination, outcomes: &[Outcome<'_>]) -> bool {
    let Some(Verdict::Delivered {
        to: endpoint,
        masqueraded: false,
        ..
    }) = outcomes.first().map(|outcome| &outcome.verdict)
    else {
        return false;
    };
    let asked = follow(
        node,
        to,
        *endpoint,
        node.detector.pod_interface(node.rules).as_deref(),
    );
    asked.iter().any(|outcome| {
        matches!(
            outcome.verdict,
            Verdict::Delivered { to, masqueraded: true, .. } if to == *endpoint
        )
    })
}
