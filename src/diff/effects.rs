//! From two views of a service port to what traffic notices.
//!
//! Apart from [`Effect`], the vocabulary, because here it is decided which of its words are said:
//! an effect that another one brings along is not told again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::cosmetic::bare;
use super::edit::Edit;
use super::effect::{Effect, Traffic};
use super::review::{ChainReview, Presence};
use super::{answerers, masquerade};
use crate::catalog::{Entrance, Kind, PortView};
use crate::rules::{Rule, Target};

/// What traffic notices when `before` becomes `after`; `None` where there is no such service port.
pub(super) fn effects(
    before: Option<&PortView>,
    after: Option<&PortView>,
    chains: &[ChainReview<'_>],
) -> Vec<Effect> {
    let nothing = PortView::default();
    let is_there_twice = before.is_some() && after.is_some();
    let (before, after) = (before.unwrap_or(&nothing), after.unwrap_or(&nothing));
    let mut effects = entrances(before, after);
    if is_there_twice {
        effects.extend(policies(before, after));
    }
    effects.extend(answerers::endpoints(before, after));
    effects.extend(answerers::shares(before, after));
    effects.extend(settings(before, after));
    let is_explained = !effects.is_empty();
    let cluster_ips = [before, after]
        .into_iter()
        .flat_map(masquerade::cluster_ips);
    let cluster_ips: Vec<IpAddr> = cluster_ips.collect();
    effects.extend(of_rules(chains, &cluster_ips, is_explained));
    effects
}

/// By the destination: whether a refused one is an external IP's or a load balancer's, rules do not
/// say.
type Place = (Option<IpAddr>, u16, bool);

fn by_place(view: &PortView) -> BTreeMap<Place, &Entrance> {
    let entrances = view.entrances.iter();
    let place = |entrance: &Entrance| {
        let is_health_check = entrance.kind == Kind::HealthCheck;
        (entrance.ip, entrance.port, is_health_check)
    };
    entrances
        .map(|entrance| (place(entrance), entrance))
        .collect()
}

fn entrances(before: &PortView, after: &PortView) -> Vec<Effect> {
    let (old, new) = (by_place(before), by_place(after));
    let gone = old.iter().filter(|(place, _)| !new.contains_key(place));
    let gone = gone.map(|(_, entrance)| Effect::EntranceRemoved((*entrance).clone()));
    let kept_or_new = new.iter().filter_map(|(place, entrance)| {
        let entrance = (*entrance).clone();
        match old.get(place) {
            None => Some(Effect::EntranceAdded(entrance)),
            Some(old) if old.fate != entrance.fate => Some(Effect::Fate {
                before: old.fate,
                entrance,
            }),
            Some(_) => None,
        }
    });
    gone.chain(kept_or_new).collect()
}

/// A policy that cannot be told, because nothing is served, has not changed.
fn policies(before: &PortView, after: &PortView) -> Vec<Effect> {
    let both = [
        (
            Traffic::Internal,
            before.internal_policy,
            after.internal_policy,
        ),
        (
            Traffic::External,
            before.external_policy,
            after.external_policy,
        ),
    ];
    let changed = both
        .into_iter()
        .filter(|(_, before, after)| before.is_some() && after.is_some() && before != after);
    changed
        .map(|(traffic, before, after)| Effect::PolicyChanged {
            traffic,
            before,
            after,
        })
        .collect()
}

fn settings(before: &PortView, after: &PortView) -> Vec<Effect> {
    let mut effects = Vec::new();
    let are_served = before.is_served() && after.is_served();
    if are_served && before.affinity != after.affinity {
        effects.push(Effect::Affinity {
            before: before.affinity,
            after: after.affinity,
        });
    }
    let old: BTreeSet<_> = before.source_ranges.iter().copied().collect();
    let new: BTreeSet<_> = after.source_ranges.iter().copied().collect();
    if old != new {
        effects.push(Effect::SourceRanges {
            added: new.difference(&old).copied().collect(),
            removed: old.difference(&new).copied().collect(),
        });
    }
    effects
}

/// What the views do not show but rules do. Only what is said of chains that both sides have is no
/// consequence of something else.
fn of_rules(chains: &[ChainReview<'_>], cluster_ips: &[IpAddr], is_explained: bool) -> Vec<Effect> {
    let in_both = || {
        let chains = chains.iter();
        chains.filter(|chain| chain.presence == Presence::Both && !chain.is_cosmetic)
    };
    let mut effects = Vec::new();
    if in_both().any(|chain| chain.is_reordered) {
        effects.push(Effect::Order);
    }
    let is_masquerade = |rule: &Rule| rule.target_chain() == Some("KUBE-MARK-MASQ");
    let is_refusal = |rule: &Rule| matches!(rule.target, Some(Target::Drop | Target::Reject(_)));
    let (removed, added) = differing(in_both(), is_masquerade);
    let before = masquerade::Rules::of(removed, cluster_ips);
    let after = masquerade::Rules::of(added, cluster_ips);
    match before.change(&after) {
        // Where there was no such rule, or will be none, something else may have brought it along.
        Some((before, after)) if !is_explained || (before.is_some() && after.is_some()) => {
            effects.push(Effect::Masquerade { before, after });
        }
        _ => {}
    }
    if is_explained {
        return effects;
    }
    if before.differs_otherwise(after) {
        effects.push(Effect::OtherMasquerade);
    }
    let refusals = differing(in_both(), is_refusal);
    if refusals.0 != refusals.1 {
        effects.push(Effect::Refusals);
    }
    let others = differing(in_both(), |rule| !is_masquerade(rule) && !is_refusal(rule));
    if effects.is_empty() || (is_only_told(&effects) && others.0 != others.1) {
        effects.push(Effect::Rules);
    }
    effects
}

/// Whether no rule is shown, because words say all of them.
fn is_only_told(effects: &[Effect]) -> bool {
    matches!(effects, [Effect::Masquerade { .. }])
}

/// The rules of such a kind that only one of the sides has, wherever these are: other releases have
/// the same rules in other chains.
fn differing<'r>(
    chains: impl Iterator<Item = &'r ChainReview<'r>>,
    is_such: impl Fn(&Rule) -> bool,
) -> (Vec<Rule>, Vec<Rule>) {
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    for edit in chains.flat_map(|chain| &chain.edits) {
        match edit {
            Edit::Removed(rule) if is_such(rule) => removed.push(bare(rule)),
            Edit::Added(rule) if is_such(rule) => added.push(bare(rule)),
            _ => {}
        }
    }
    removed.sort_unstable();
    added.sort_unstable();
    (removed, added)
}
