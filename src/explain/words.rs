//! Clients, ends and reasons in words.
//!
//! Apart because text, pictures and JSON all say the same.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::Explanation;
use super::alike::Alike;
use super::client::{Client, Who};
use super::reason::{Masquerade, Refusal};
use super::way::{End, Fate, Reach, Sees, Way};
use crate::inspect::catalog::FrontendKind;
use crate::rules::{Network, Share, Table, Target};

/// Clients of different kinds in one phrase, each with the address that stands for it.
pub(super) fn clients(clients: &[Client]) -> String {
    let each = clients.iter().map(|client| match client.who {
        Who::Pod => format!("a pod ({})", client.ip),
        Who::Node => format!("the node ({})", client.ip),
        Who::Outside => format!("outside ({})", client.ip),
        Who::Admitted => format!("an admitted source ({})", client.ip),
        Who::Given => client.ip.to_string(),
    });
    let each: Vec<_> = each.collect();
    match each.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => each.concat(),
    }
}

/// A hint whose rules are told, where clients of one way meet different ones.
pub(super) fn rules_of(way: &Way<'_>, most: Alike) -> Option<String> {
    let first = way.clients.first().filter(|_| way.alike > most)?;
    let whose = match first.who {
        Who::Pod => "a pod",
        Who::Node => "the node",
        Who::Outside => "somebody outside",
        Who::Admitted => "an admitted source",
        Who::Given => "this client",
    };
    Some(format!("rules as {whose} meets them"))
}

/// The one-word name of a kind of clients, as flags and JSON have it.
pub(super) const fn who(who: Who) -> &'static str {
    match who {
        Who::Pod => "pod",
        Who::Node => "node",
        Who::Outside => "outside",
        Who::Admitted => "admitted",
        Who::Given => "source",
    }
}

/// Who gets the packets of a way, and as whose.
pub(super) fn summary(explanation: &Explanation<'_>, way: &Way<'_>) -> String {
    let [end] = way.ends.as_slice() else {
        return many(explanation, way);
    };
    match &end.fate {
        Fate::Served { to, sees } => {
            let sees = seen_by_one(*sees);
            format!("{to} answers{} and sees {sees}", reach(way.reach))
        }
        fate => one(explanation, way, fate),
    }
}

fn many(explanation: &Explanation<'_>, way: &Way<'_>) -> String {
    let served: Vec<_> = way.ends.iter().filter_map(served).collect();
    let lost: Vec<_> = way
        .ends
        .iter()
        .filter(|end| self::served(end).is_none())
        .collect();
    let count = served.len();
    let mut text = match (count, way.ends.first()) {
        (0, Some(end)) => return one(explanation, way, &end.fate),
        (1, _) => "1 endpoint answers".to_owned(),
        (_, Some(end)) if way.ends.iter().all(|other| other.share == end.share) => {
            format!("{count} endpoints answer, {} each", end.share)
        }
        _ => format!("{count} endpoints answer"),
    };
    text.push_str(reach(way.reach));
    match served.first() {
        Some((_, sees)) if served.iter().all(|(_, other)| other == sees) => {
            let verb = if count == 1 { "sees" } else { "see" };
            let _ = write!(text, ", and {verb} {}", seen_by_one(*sees));
        }
        _ => text.push_str(", and see different addresses"),
    }
    if let Some(first) = lost.first() {
        let share = lost
            .iter()
            .fold(Share::NONE, |sum, end| sum.plus(end.share));
        let _ = write!(text, "; {share}: {}", one(explanation, way, &first.fate));
    }
    text
}

/// Who answers and what it sees, if somebody does.
pub(super) fn served(end: &End<'_>) -> Option<(SocketAddr, Sees)> {
    match end.fate {
        Fate::Served { to, sees } => Some((to, sees)),
        _ => None,
    }
}

const fn reach(reach: Reach) -> &'static str {
    match reach {
        Reach::All => "",
        Reach::Local => " (only those on this node: policy Local)",
        Reach::AllDespiteLocal => " (externalTrafficPolicy Local does not hold for this client)",
    }
}

pub(super) fn seen_by_one(sees: Sees) -> String {
    match sees {
        Sees::Client => "the client's own address".to_owned(),
        Sees::Node(why) => format!("the node's address: {}", masquerade(why)),
        Sees::Other(Some(ip)) => format!("{ip}: a rule that is not of Services says so"),
        Sees::Other(None) => "another address: a rule that is not of Services says so".to_owned(),
    }
}

/// Why somebody is masqueraded.
pub(super) const fn masquerade(why: Masquerade) -> &'static str {
    match why {
        Masquerade::NotPod => "the client is none of the pods",
        Masquerade::All => "everybody who asks cluster IPs is masqueraded",
        Masquerade::External => "externalTrafficPolicy is Cluster",
        Masquerade::FromNode => "the client is this node",
        Masquerade::Hairpin => "it asks itself",
        Masquerade::Foreign => "a rule that is not of Services masquerades it",
    }
}

/// The end of all packets of a way, if it is only one and no endpoint's.
fn one(explanation: &Explanation<'_>, way: &Way<'_>, fate: &Fate) -> String {
    match fate {
        Fate::Passed { is_local: true, .. } if is_health_check(explanation) => {
            "let in to the health check on this node, which tells whether endpoints are here"
                .to_owned()
        }
        Fate::Passed { is_local: true, .. } => "no rule sends it elsewhere: it gets to this node \
            itself, and is refused unless some program listens there"
            .to_owned(),
        Fate::Passed {
            sees: Sees::Client, ..
        } if explanation.to.is_endpoint() => {
            "no rule of Services is about it: it goes straight there, as it is routed".to_owned()
        }
        Fate::Passed {
            sees: Sees::Client, ..
        } => match empty(way) {
            Some(chain) => {
                format!("`{chain}`, where it is led, decides nothing: it goes on as it is routed")
            }
            None => "no rule is about it: it goes on as it is routed".to_owned(),
        },
        Fate::Passed { sees, .. } => format!(
            "no rule sends it elsewhere; whoever gets it sees {}",
            seen_by_one(*sees)
        ),
        Fate::Dropped(why) => format!("dropped: {}", refusal(explanation, way, why)),
        Fate::Rejected(why) => format!("refused: {}", refusal(explanation, way, why)),
        Fate::Unclear(why) => format!("unclear: {why}"),
        Fate::Unseen(table) => format!("unclear: {}", unseen(*table)),
        Fate::Served { to, .. } => to.to_string(),
    }
}

/// The last chain of a Service that packets are led to, which somebody must have emptied: those
/// that a proxy writes decide.
fn empty<'a>(way: &Way<'a>) -> Option<&'a str> {
    way.before
        .iter()
        .rev()
        .find_map(|step| match &step.rule.target {
            Some(Target::Jump(chain)) if is_of_service(chain) => Some(&**chain),
            _ => None,
        })
}

fn is_of_service(chain: &str) -> bool {
    let kinds = [
        "KUBE-SVC-",
        "KUBE-SVL-",
        "KUBE-EXT-",
        "KUBE-FW-",
        "KUBE-XLB-",
    ];
    kinds.iter().any(|kind| chain.starts_with(kind))
}

/// What a table decides that is not there.
pub(super) fn unseen(table: Table) -> String {
    let decides = match table {
        Table::Filter => "whether this is refused, dropped or let through",
        Table::Nat => "who gets this",
        Table::Mangle => "how this is marked",
    };
    format!("the {table} table is not in the dump, and only it tells {decides}")
}

fn is_health_check(explanation: &Explanation<'_>) -> bool {
    let mut subjects = explanation.to.subjects.iter();
    subjects.any(|subject| subject.kind == FrontendKind::HealthCheck)
}

/// Why packets are dropped or refused.
pub(super) fn refusal(explanation: &Explanation<'_>, way: &Way<'_>, why: &Refusal) -> String {
    match why {
        Refusal::NoEndpoints => "no endpoints".to_owned(),
        Refusal::NoLocalInternal => local("internal"),
        Refusal::NoLocalExternal => local("external"),
        Refusal::NotAdmitted => {
            let clients = way.clients.iter().map(|client| client.ip.to_string());
            let clients: Vec<_> = clients.collect();
            let ranges = explanation.source_ranges.iter().map(Network::to_string);
            let ranges: Vec<_> = ranges.collect();
            let whom = match clients.as_slice() {
                [one] => one,
                _ => "any of them",
            };
            match ranges.as_slice() {
                [] => format!("no source range admits {whom}"),
                _ => format!("no source range admits {whom} ({})", ranges.join(", ")),
            }
        }
        Refusal::Loopback => "only this node's own programs may ask 127.0.0.0/8".to_owned(),
        Refusal::Martian => {
            "the kernel takes no packets from elsewhere to a loopback address".to_owned()
        }
        Refusal::Policy(table, chain) => {
            format!("no rule accepts it, and the policy of {table} {chain} is DROP")
        }
        Refusal::Rule { table, chain, rule } => {
            format!("by a rule that is not of Services, in {table} {chain}: {rule}")
        }
    }
}

fn local(side: &str) -> String {
    format!("{side}TrafficPolicy is Local and no endpoint is on this node")
}
