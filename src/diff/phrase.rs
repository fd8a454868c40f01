//! Effects in words.
//!
//! Apart because sentences are longer than the decision which of them to say.

use std::fmt::{self, Display, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use super::effect::{Answerers, Effect};
use super::masquerade::Clients;
use super::paint;
use crate::catalog::{Entrance, Fate, Policy};

/// How many addresses one line names on each side; a Service of a thousand endpoints that is gone
/// would fill the screen.
const MOST_ADDRESSES: usize = 8;

/// How many destinations one line names.
const MOST_ENTRANCES: usize = 4;

/// One line for an effect on a service port of that protocol.
pub(super) fn phrase(effect: &Effect, protocol: &str) -> String {
    let at = |entrance: &Entrance| format!("{entrance}/{protocol}");
    match effect {
        Effect::EntranceAdded(entrance) => {
            let place = format!("+ {} {}", entrance.kind, at(entrance));
            format!("{}{}", paint::added(place), refused(entrance.fate))
        }
        Effect::EntranceRemoved(entrance) => {
            paint::removed(format!("- {} {}", entrance.kind, at(entrance))).to_string()
        }
        Effect::Fate { entrance, .. } => format!("{}: {}", at(entrance), now(entrance.fate)),
        Effect::PolicyChanged {
            traffic,
            before,
            after,
        } => {
            let traffic = traffic.as_str();
            format!("{traffic} policy {} -> {}", policy(*before), policy(*after))
        }
        Effect::Endpoints(answerers) => endpoints(answerers, protocol),
        Effect::ShareChanged {
            endpoint,
            before,
            after,
            ..
        } => format!("{endpoint}: {before} -> {after} of new connections"),
        Effect::Affinity { before, after } => {
            format!("affinity {} -> {}", seconds(*before), seconds(*after))
        }
        Effect::SourceRanges { added, removed } => {
            let mut text = "source ranges".to_owned();
            list(&mut text, added, |one| {
                paint::added(format!("+{one}")).to_string()
            });
            list(&mut text, removed, |one| {
                paint::removed(format!("-{one}")).to_string()
            });
            text
        }
        Effect::Masquerade { before, after } => masqueraded(before.as_ref(), after.as_ref()),
        Effect::OtherMasquerade => "other traffic is masqueraded".to_owned(),
        Effect::Refusals => "other traffic is dropped or refused".to_owned(),
        Effect::Order => "the same rules in another order".to_owned(),
        Effect::Rules => "other rules; entrances and endpoints are the same".to_owned(),
    }
}

fn endpoints(of: &Answerers, protocol: &str) -> String {
    let Answerers {
        policy,
        at,
        before,
        after,
        added,
        removed,
    } = of;
    let mut text = String::new();
    for entrance in at.iter().take(MOST_ENTRANCES) {
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{entrance}/{protocol}");
    }
    if let Some(more) = at
        .len()
        .checked_sub(MOST_ENTRANCES)
        .filter(|more| *more > 0)
    {
        let _ = write!(text, " and {more} more");
    }
    let local = match policy {
        Policy::Cluster => "",
        Policy::Local => "local ",
    };
    let noun = if *after == 1 { "endpoint" } else { "endpoints" };
    let _ = write!(text, ": {before} -> {after} {local}{noun}");
    let mark = |sign: &str, one: &SocketAddr| format!("{sign}{one}");
    list(&mut text, added, |one| {
        paint::added(mark("+", one)).to_string()
    });
    list(&mut text, removed, |one| {
        paint::removed(mark("-", one)).to_string()
    });
    text
}

fn masqueraded(before: Option<&Clients>, after: Option<&Clients>) -> String {
    let whose = |clients: &Clients| match clients {
        Clients::All => "all traffic".to_owned(),
        Clients::Outside(network) => format!("traffic from outside {network}"),
        Clients::NotBy(name) => format!("traffic by interfaces other than {name}"),
    };
    match (before, after) {
        (Some(Clients::Outside(old)), Some(Clients::Outside(new))) => {
            format!("traffic from outside {new} instead of {old} is masqueraded")
        }
        (Some(old), Some(new)) => {
            format!("{} is masqueraded, instead of {}", whose(new), whose(old))
        }
        (Some(old), None) => format!("{} is no longer masqueraded", whose(old)),
        (None, Some(new)) => format!("{} is masqueraded now", whose(new)),
        // It is no effect then.
        (None, None) => String::new(),
    }
}

/// Appends the first few, and how many more there are.
fn list<T>(text: &mut String, all: &[T], show: impl Fn(&T) -> String) {
    for one in all.iter().take(MOST_ADDRESSES) {
        let _ = write!(text, ", {}", show(one));
    }
    if let Some(more) = all
        .len()
        .checked_sub(MOST_ADDRESSES)
        .filter(|more| *more > 0)
    {
        let _ = write!(text, " and {more} more");
    }
}

const fn now(fate: Fate) -> &'static str {
    match fate {
        Fate::Served => "now served",
        Fate::Dropped => "now dropped: no endpoint on this node",
        Fate::Rejected => "now refused: no endpoints",
        Fate::Unreachable => "now unreachable: no rule leads on to an endpoint",
    }
}

const fn refused(fate: Fate) -> &'static str {
    match fate {
        Fate::Served => "",
        Fate::Dropped => ", dropped: no endpoint on this node",
        Fate::Rejected => ", refused: no endpoints",
        Fate::Unreachable => ", unreachable: no rule leads on to an endpoint",
    }
}

const fn policy(policy: Option<Policy>) -> &'static str {
    match policy {
        Some(Policy::Cluster) => "Cluster",
        Some(Policy::Local) => "Local",
        None => "unknown",
    }
}

fn seconds(affinity: Option<Duration>) -> impl Display {
    struct Seconds(Option<Duration>);
    impl Display for Seconds {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.0 {
                Some(stay) => write!(f, "{} s", stay.as_secs()),
                None => f.write_str("none"),
            }
        }
    }
    Seconds(affinity)
}
