//! Service ports that differ in the same way, because the whole node is set in another way.
//!
//! Apart because it looks at all service ports at once: one wrong flag makes every Service differ,
//! and what else does is not found among them.

use std::collections::BTreeMap;

use super::effect::Effect;
use super::masquerade::Clients;
use super::review::{PortReview, Review, Verdict};
use crate::net::IpFamily;

/// A service port and the family that it is looked at in.
pub(super) type Place<'r> = (&'r PortReview<'r>, IpFamily);

/// Service ports that differ by one thing.
pub(super) struct Group<'r> {
    pub(super) family: IpFamily,
    pub(super) effect: &'r Effect,
    pub(super) ports: Vec<Place<'r>>,
}

/// Takes together what differs only in whose traffic is masqueraded; gives the others back.
pub(super) fn groups(ports: Vec<Place<'_>>) -> (Vec<Group<'_>>, Vec<Place<'_>>) {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut others = Vec::new();
    for (port, family) in ports {
        let [effect @ Effect::Masquerade { .. }] = port.effects.as_slice() else {
            others.push((port, family));
            continue;
        };
        let mut like = groups.iter_mut();
        match like.find(|group| (group.family, group.effect) == (family, effect)) {
            Some(group) => group.ports.push((port, family)),
            None => groups.push(Group {
                family,
                effect,
                ports: vec![(port, family)],
            }),
        }
    }
    let (several, single): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|group| group.ports.len() > 1);
    others.extend(single.into_iter().flat_map(|group| group.ports));
    others.sort_by_key(|(port, family)| (&port.name, *family));
    (several, others)
}

/// The flag by which the rules and those that are desired seem to differ, if nearly all service
/// ports do and in nothing else.
pub fn hint(reviews: &[Review<'_>]) -> Option<String> {
    let (mut changed, mut told) = (0, 0);
    let mut settings: BTreeMap<IpFamily, &Effect> = BTreeMap::new();
    for review in reviews {
        let ports = review.ports.iter();
        for port in ports.filter(|port| port.verdict == Verdict::Changes) {
            changed += 1;
            let Some(effect) = setting(port) else {
                continue;
            };
            told += 1;
            if *settings.entry(review.family).or_insert(effect) != effect {
                return None;
            }
        }
    }
    if told == 0 || told * 10 < changed * 9 {
        return None;
    }
    let both = settings.into_values().filter_map(|effect| match effect {
        Effect::Masquerade { before, after } => Some((before.as_ref(), after.as_ref())),
        _ => None,
    });
    let (before, after): (Vec<_>, Vec<_>) = both.unzip();
    if before.iter().all(Option::is_none) {
        let flag = flag(&after.into_iter().collect::<Option<Vec<_>>>()?)?;
        return Some(format!(
            "the rules were written without {flag}; leave it out"
        ));
    }
    let flag = flag(&before.into_iter().collect::<Option<Vec<_>>>()?)?;
    Some(format!("the rules were written with {flag}; give the same"))
}

/// What differs, if it may be by a flag.
fn setting<'r>(port: &'r PortReview<'_>) -> Option<&'r Effect> {
    let [effect @ Effect::Masquerade { .. }, rest @ ..] = port.effects.as_slice() else {
        return None;
    };
    let is_alone = rest.iter().all(|other| *other == Effect::Rules);
    is_alone.then_some(effect)
}

/// What to type, if all families ask for the same flag.
fn flag(of: &[&Clients]) -> Option<String> {
    let mut networks = Vec::new();
    for clients in of {
        match clients {
            Clients::Outside(network) => networks.push(network.to_string()),
            same if of.iter().any(|other| other != same) => return None,
            Clients::All => return Some("--masquerade-all".to_owned()),
            Clients::NotBy(name) => {
                return Some(match name.strip_suffix('+') {
                    Some(prefix) => format!(
                        "--detect-local-mode InterfaceNamePrefix --pod-interface-name-prefix {prefix}"
                    ),
                    None => {
                        format!("--detect-local-mode BridgeInterface --pod-bridge-interface {name}")
                    }
                });
            }
        }
    }
    Some(format!("--cluster-cidr {}", networks.join(",")))
}
