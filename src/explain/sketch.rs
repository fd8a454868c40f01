//! The way of packets with everything left out that a picture has no room for.
//!
//! Apart because trees, Graphviz and SVG all draw the same. What is left are the chains that lead
//! to a packet's end; chains that it only visited are not on its way.

use super::{Alike, End, Explanation, Fate, Refusal, Sees, Way, rule_words, text, words};
use crate::rules::{Step, Table, Target};

/// What is drawn of one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sketch {
    pub(super) title: String,
    pub(super) routes: Vec<Route>,
}

/// The paths of clients that meet the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) client: Place,
    pub(super) paths: Vec<Vec<Hop>>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hop {
    /// Which packets take it; empty: all.
    pub(super) label: String,
    pub(super) to: Place,
}

/// Something that is drawn as a box.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) kind: PlaceKind,
    pub(super) title: String,
    /// Smaller; perhaps empty.
    pub(super) note: String,
}

/// How a box is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PlaceKind {
    Client,
    Chain,
    /// Where packets get.
    Receiver,
    /// Where they end otherwise.
    Refusal,
}

/// Sketches of explanations, one for each destination.
pub(super) fn sketches(explanations: &[Explanation<'_>]) -> Vec<Sketch> {
    let of = |explanation: &Explanation<'_>| Sketch {
        title: text::title(explanation),
        routes: explanation
            .ways
            .iter()
            .map(|way| route(explanation, way))
            .collect(),
    };
    explanations.iter().map(of).collect()
}

fn route(explanation: &Explanation<'_>, way: &Way<'_>) -> Route {
    let sees = way.ends.iter().find_map(|end| match &end.fate {
        Fate::Served { sees, .. } | Fate::Passed { sees, .. } => Some(*sees),
        _ => None,
    });
    let by = sees.map(|sees| match sees {
        Sees::Client => "seen by its own address".to_owned(),
        Sees::Node(why) => format!("seen as the node: {}", words::masquerade(why)),
        other @ Sees::Other(_) => format!("seen as {}", words::seen_by_one(other)),
    });
    let paths: Vec<Vec<Hop>> = way
        .ends
        .iter()
        .map(|end| path(explanation, way, end))
        .collect();
    let has_chains = paths.iter().any(|path| path.len() > 1);
    let whose = words::rules_of(way, Alike::ButForVisits).filter(|_| has_chains);
    let note = by.into_iter().chain(whose).collect::<Vec<_>>().join("; ");
    Route {
        client: Place {
            kind: PlaceKind::Client,
            title: format!("from {}", words::clients(&way.clients)),
            note,
        },
        paths,
    }
}

fn path(explanation: &Explanation<'_>, way: &Way<'_>, end: &End<'_>) -> Vec<Hop> {
    let steps: Vec<&Step<'_>> = way.steps(end).collect();
    let mut called = calls(&steps, &end.fate);
    let share = if way.ends.len() > 1 {
        end.share.to_string()
    } else {
        String::new()
    };
    let mut place = place(explanation, way, &end.fate);
    if matches!(end.fate, Fate::Served { .. })
        && called
            .last()
            .is_some_and(|(_, chain)| chain.starts_with("KUBE-SEP-"))
        && let Some((_, chain)) = called.pop()
    {
        place.note = chain;
    }
    let hops = called.into_iter().map(|(label, chain)| Hop {
        label,
        to: Place {
            kind: PlaceKind::Chain,
            title: chain,
            note: String::new(),
        },
    });
    let mut hops: Vec<Hop> = hops.collect();
    hops.push(Hop {
        label: share,
        to: place,
    });
    hops
}

/// The chains that call one another up to the rule that decides, each with what is asked before it;
/// where a policy does, the chain that has it.
fn calls(steps: &[&Step<'_>], fate: &Fate) -> Vec<(String, String)> {
    if let Fate::Dropped(Refusal::Policy(table, chain)) = fate {
        return vec![(String::new(), format!("{table} {chain}"))];
    }
    let decides = |step: &Step<'_>| {
        matches!(
            (fate, &step.rule.target),
            (Fate::Served { .. }, Some(Target::Dnat { .. }))
                | (Fate::Dropped(_), Some(Target::Drop))
                | (Fate::Rejected(_), Some(Target::Reject(_)))
        )
    };
    let Some(at) = steps.iter().rposition(|step| decides(step)) else {
        return Vec::new();
    };
    let mut calls = Vec::new();
    let mut inner: Option<(Table, &str)> = None;
    for step in steps.iter().take(at + 1).rev() {
        match inner {
            None => inner = Some((step.table, step.chain)),
            Some((table, chain))
                if step.table == table && step.rule.target_chain() == Some(chain) =>
            {
                calls.push((rule_words::condition(step.rule), chain.to_owned()));
                inner = Some((table, step.chain));
            }
            Some(_) => {}
        }
    }
    if let Some((table, chain)) = inner {
        calls.push((String::new(), format!("{table} {chain}")));
    }
    calls.reverse();
    calls
}

fn place(explanation: &Explanation<'_>, way: &Way<'_>, fate: &Fate) -> Place {
    let (kind, title, note) = match fate {
        Fate::Served { to, .. } => (PlaceKind::Receiver, to.to_string(), String::new()),
        Fate::Passed { is_local: true, .. } => (
            PlaceKind::Receiver,
            "this node itself".to_owned(),
            String::new(),
        ),
        Fate::Passed { .. } => (
            PlaceKind::Receiver,
            "on as it is routed".to_owned(),
            String::new(),
        ),
        Fate::Dropped(why) => {
            let why = words::refusal(explanation, way, why);
            (PlaceKind::Refusal, "dropped".to_owned(), why)
        }
        Fate::Rejected(why) => {
            let why = words::refusal(explanation, way, why);
            (PlaceKind::Refusal, "refused".to_owned(), why)
        }
        Fate::Unclear(why) => (PlaceKind::Refusal, "unclear".to_owned(), why.to_string()),
        Fate::Unseen(table) => {
            let why = words::unseen(*table);
            (PlaceKind::Refusal, "unclear".to_owned(), why)
        }
    };
    Place { kind, title, note }
}
