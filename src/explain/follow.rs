//! Asks the tracer what one client's packets meet, and puts the answer in order.
//!
//! Apart from [`way`](super::way), which is what comes of it: here is decided what all packets have
//! in common, where they part, and why they end as they do.

use std::net::{IpAddr, SocketAddr};

use super::alike::Alike;
use super::client::{Client, Who};
use super::destination::Destination;
use super::node::Node;
use super::reason::{Masquerade, Refusal};
use super::way::{End, Fate, Reach, Sees, Way, add_doubts, is_same};
use crate::rules::{Outcome, Packet, Step, Table, Target, Verdict, trace_past_undecided};

/// Follows the packets of one client.
pub(super) fn follow<'a>(node: &Node<'a>, to: &Destination, client: Client) -> Way<'a> {
    let source = client.ip;
    let outcomes = traced(node, to, source, client.in_interface.as_deref());
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
        add_doubts(&mut doubts, &outcome.undecided);
    }
    let first: Vec<Step<'a>> = steps.iter().take(before).copied().collect();
    let last: Vec<Step<'a>> = steps.iter().skip(tail).copied().collect();
    let reach = reach(&outcomes);
    let ends: Vec<End<'a>> = outcomes
        .into_iter()
        .map(|outcome| {
            let own = outcome.steps.len() - before - after;
            End {
                share: outcome.share,
                fate: seen_fate(node, to, fate(node, to, source, &outcome)),
                steps: outcome.steps.into_iter().skip(before).take(own).collect(),
            }
        })
        .collect();
    Way {
        clients: vec![client],
        alike: Alike::Wholly,
        before: first,
        after: last,
        reach,
        has_hairpin,
        doubts,
        unseen: ends.iter().find_map(|end| unseen(node, &end.fate)),
        ends,
    }
}

fn traced<'a>(
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
    trace_past_undecided(node.rules, &packet, &node.locality)
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

fn fate(node: &Node<'_>, to: &Destination, source: IpAddr, outcome: &Outcome<'_>) -> Fate {
    let sees = |masqueraded: bool| {
        let last = outcome
            .steps
            .iter()
            .filter_map(|step| step.rule.target.as_ref());
        let snat = |target: &&Target| matches!(target, Target::Other(extension) if &*extension.name == "SNAT");
        if !masqueraded {
            Sees::Client
        } else if let Some(target) = last.rev().find(snat) {
            Sees::Other(target.new_source())
        } else {
            Sees::Node(Masquerade::of(&outcome.steps))
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

/// The same, unless it is that of tables which nobody saw.
fn seen_fate(node: &Node<'_>, to: &Destination, fate: Fate) -> Fate {
    match fate {
        // For these, no proxy has a rule in the nat table.
        Fate::Rejected(Refusal::NoEndpoints)
        | Fate::Dropped(Refusal::NoLocalInternal | Refusal::Martian) => fate,
        _ if node.unseen.contains(&Table::Nat) => Fate::Unseen(Table::Nat),
        // No Service's rule refuses who asks an endpoint itself.
        Fate::Passed { .. } if node.unseen.contains(&Table::Filter) && !to.is_endpoint() => {
            Fate::Unseen(Table::Filter)
        }
        _ => fate,
    }
}

/// Who is served may still meet a rule that is not of Services.
fn unseen(node: &Node<'_>, fate: &Fate) -> Option<Table> {
    let is_let_through = matches!(fate, Fate::Served { .. } | Fate::Passed { .. });
    let table = Table::Filter;
    (is_let_through && node.unseen.contains(&table)).then_some(table)
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
    let asked = traced(
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
