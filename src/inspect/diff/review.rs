//! Result of a comparison, as data, restricted to what was selected, and its summary in numbers;
//! and the comparison of two lists of rules: edit script, and cosmetic equality.
//!
//! Everything is compared first, so that differences that are not selected are counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::Hash;
use std::net::SocketAddr;
use std::time::Duration;

use similar::{Algorithm, ChangeTag, capture_diff_slices};

use crate::inspect::catalog::{
    Catalog, FrontendDisposition, FrontendView, NoMatches, Policy, PortName, PortQuery,
    UnknownRules,
};
use crate::net::IpFamily;
use crate::rules::{Backend, Match, Network, Rule, RuleSet, Share, Table};
use crate::text::counted;

/// Differences between the live and the desired rules of one IP family. Sorted throughout.
#[derive(Debug, Clone, PartialEq)]
pub struct Review<'a> {
    pub family: IpFamily,
    pub ports: Vec<PortReview<'a>>,
    /// Chains, or rules in them, that do not depend on Services and differ.
    pub fixed: Vec<ChainReview<'a>>,
    /// Chains of service ports that no jump leads to: stale if live, not in use if desired.
    pub stale: Vec<ChainReview<'a>>,
    /// Number of live rules that belong to third parties.
    pub third_party: usize,
    pub not_selected: NotSelected,
    /// Backend with further rules, which are not compared.
    pub other_backend: Option<Backend>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PortReview<'a> {
    pub name: PortName,
    pub change: PortChange,
    /// Effects on traffic; empty if the change is cosmetic.
    pub effects: Vec<Effect>,
    /// Chains that differ, by table and name.
    pub chains: Vec<ChainReview<'a>>,
}

enum_of_words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PortChange {
        /// Only the desired side has it.
        Appears = "appears",
        /// Only the live side has it.
        Disappears = "disappears",
        /// Both sides have it, and some packets may be treated differently.
        Changes = "changes",
        /// No packet is treated differently.
        Cosmetic = "cosmetic",
    }
}

/// One effect on traffic. Every output format is made of these, so that all report the same facts.
/// `before` is the live side, `after` the desired one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    FrontendAdded(FrontendView),
    FrontendRemoved(FrontendView),
    /// Both sides have a frontend, with different dispositions.
    DispositionChanged {
        frontend: FrontendView,
        before: FrontendDisposition,
    },
    PolicyChanged {
        traffic: Traffic,
        /// Policy on the live side; `None` if rules do not show it.
        before: Option<Policy>,
        after: Option<Policy>,
    },
    /// The endpoints of some frontends differ.
    EndpointsChanged(EndpointChange),
    /// The endpoints are the same, and the share of one of them differs.
    ShareChanged {
        /// Policy under which it has the share.
        policy: Policy,
        endpoint: SocketAddr,
        before: Share,
        after: Share,
    },
    /// The timeout of session affinity differs; `None`: no affinity.
    AffinityChanged {
        before: Option<Duration>,
        after: Option<Duration>,
    },
    /// The clients that the load balancer admits differ.
    SourceRangesChanged {
        added: Vec<Network>,
        removed: Vec<Network>,
    },
    /// The clients whose traffic to a cluster IP is masqueraded differ; `None`: no clients.
    MasqueradeChanged {
        before: Option<MasqueradedClients>,
        after: Option<MasqueradedClients>,
    },
    /// Rules or their order differ, and no other effect covers it: such as those of another release
    /// for the same frontends and endpoints.
    OtherRules,
}

/// Difference of the endpoints that serve some frontends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointChange {
    /// Policy on the desired side; on the live side for a service port that disappears.
    pub policy: Policy,
    pub frontends: Vec<FrontendView>,
    pub before: usize,
    pub after: usize,
    /// Endpoints of the desired side only, sorted.
    pub added: Vec<SocketAddr>,
    /// Endpoints of the live side only, sorted.
    pub removed: Vec<SocketAddr>,
}

impl EndpointChange {
    /// Reports whether all but the frontends is equal.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let frontends = self.frontends.clone();
        let other = Self {
            frontends,
            ..other.clone()
        };
        *self == other
    }
}

enum_of_words! {
    /// Traffic that a traffic policy is for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Traffic {
        /// Traffic to the cluster IP.
        Internal = "internal",
        /// Traffic to all other frontends.
        External = "external",
    }
}

/// Clients whose traffic to a cluster IP is masqueraded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MasqueradedClients {
    All,
    /// Clients with an address outside of this network.
    OutsideNetwork(Network),
    /// Clients on any interface but this one; a final `+` matches all interfaces with this prefix.
    OutsideInterface(Box<str>),
}

/// Differences of one chain, or of one service port's rules in a dispatch chain.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainReview<'a> {
    pub table: Table,
    pub chain: &'a str,
    pub presence: Presence,
    /// Edit script from the live rules to the desired ones, in order.
    pub edits: Vec<Edit<&'a Rule>>,
    /// No packet is treated differently.
    pub is_cosmetic: bool,
}

/// Sides that have a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Only the live side, which is the left one in output.
    Live,
    /// Only the desired side, which is the right one in output.
    Desired,
    Both,
}

/// Differences that the query does not select.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotSelected {
    pub ports: BTreeSet<PortName>,
    /// Number of fixed and stale chains that differ.
    pub chains: usize,
}

/// Facts about two sets of manifests that their rules do not show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ManifestFacts {
    /// Number of Services and EndpointSlices that differ, although the rules of their Service do
    /// not.
    pub hidden_objects: usize,
    /// One line for each kind of value that the manifests lack.
    pub assumptions: Vec<String>,
}

impl<'a> Review<'a> {
    /// Reports whether the two sides are equal, comments included.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.fixed.is_empty() && self.stale.is_empty()
    }

    /// Reports whether some packets may be treated differently.
    pub fn matters(&self) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|port| port.change != PortChange::Cosmetic)
            || self.fixed.iter().any(|chain| !chain.is_cosmetic)
    }

    /// Returns every chain that differs. A dispatch chain is repeated for each service port.
    fn chains(&self) -> impl Iterator<Item = &ChainReview<'a>> {
        let of_ports = self.ports.iter().flat_map(|port| &port.chains);
        of_ports.chain(&self.fixed).chain(&self.stale)
    }

    /// Restricts the review to the selected service ports.
    #[must_use]
    pub fn only(self, selection: &PortSelection) -> Self {
        let ports = self.ports.into_iter();
        let (ports, others): (Vec<_>, Vec<_>) =
            ports.partition(|port| selection.ports.contains(&port.name));
        Self {
            ports,
            not_selected: NotSelected {
                ports: others.into_iter().map(|port| port.name).collect(),
                chains: self.fixed.len() + self.stale.len(),
            },
            fixed: Vec::new(),
            stale: Vec::new(),
            ..self
        }
    }
}

/// Selected service ports, and their chains of the nat table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSelection {
    pub(super) ports: BTreeSet<PortName>,
    pub(super) chains: BTreeSet<Box<str>>,
}

impl PortSelection {
    /// Selects the service ports that match a query on any side of any IP family.
    ///
    /// # Errors
    ///
    /// A name of the query has no match.
    pub fn of(query: &PortQuery, all: &[&RuleSet]) -> Result<Self, NoMatches> {
        let mut numbers: BTreeMap<PortName, BTreeSet<u16>> = BTreeMap::new();
        let mut chains: BTreeMap<PortName, BTreeSet<Box<str>>> = BTreeMap::new();
        for rules in all {
            let catalog = Catalog::read(rules);
            for (chain, port) in catalog.owners() {
                chains.entry(port.clone()).or_default().insert(chain.into());
            }
            for (port, view) in catalog.ports {
                numbers.entry(port).or_default().extend(view.numbers());
            }
        }
        let known = numbers.iter();
        let known = known.map(|(port, numbers)| (port, numbers.iter().copied()));
        query.check(&known, UnknownRules::default())?;
        let ports: BTreeSet<PortName> = known
            .filter(|(port, numbers)| query.fits(port, numbers))
            .map(|(port, _)| port.clone())
            .collect();
        chains.retain(|port, _| ports.contains(port));
        Ok(Self {
            ports,
            chains: chains.into_values().flatten().collect(),
        })
    }

    pub(crate) fn has_port(&self, port: &PortName) -> bool {
        self.ports.contains(port)
    }

    pub(crate) fn has_chain(&self, chain: &str) -> bool {
        self.chains.contains(chain)
    }

    pub(crate) fn has_service(&self, namespace: &str, service: &str) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|port| (port.namespace(), port.service()) == (namespace, service))
    }
}

impl<'a> ChainReview<'a> {
    /// Compares the rules of a chain, or a part of them; `None` stands for a missing chain.
    pub(super) fn of(
        (table, chain): (Table, &'a str),
        live: Option<&[&'a Rule]>,
        desired: Option<&[&'a Rule]>,
    ) -> Option<Self> {
        if live == desired {
            return None;
        }
        let presence = match (live, desired) {
            (Some(_), None) => Presence::Live,
            (None, Some(_)) => Presence::Desired,
            _ => Presence::Both,
        };
        let (live, desired) = (live.unwrap_or_default(), desired.unwrap_or_default());
        let is_cosmetic = presence == Presence::Both && are_equivalent(live, desired);
        Some(Self {
            table,
            chain,
            presence,
            edits: edits(live, desired),
            is_cosmetic,
        })
    }

    pub fn counts(&self) -> (usize, usize) {
        let count = |wanted: fn(&Edit<&Rule>) -> bool| {
            self.edits.iter().filter(|edit| wanted(edit)).count()
        };
        let removed = count(|edit| matches!(edit, Edit::Removed(_)));
        let added = count(|edit| matches!(edit, Edit::Added(_)));
        (removed, added)
    }
}

/// Numbers of differences in all IP families. A service port of both families counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Summary {
    /// Service ports that change.
    pub changed: usize,
    /// Service ports that appear.
    pub added: usize,
    /// Service ports that disappear.
    pub removed: usize,
    /// Service ports with cosmetic differences only.
    pub cosmetic: usize,
    /// Fixed chains that differ.
    pub fixed: usize,
    pub stale: usize,
    /// Chains of all roles that differ.
    pub chains: usize,
    pub third_party: usize,
    pub unselected_ports: usize,
    /// Fixed and stale chains that differ and are not selected.
    pub unselected_chains: usize,
    /// Backend whose rules are not compared.
    pub backend: Option<Backend>,
}

impl<'r> FromIterator<&'r Review<'r>> for Summary {
    fn from_iter<I: IntoIterator<Item = &'r Review<'r>>>(reviews: I) -> Self {
        let mut summary = Self::default();
        let mut reviews: Vec<_> = reviews.into_iter().collect();
        reviews.sort_by_key(|review| review.family);
        summary.count_ports(&reviews);
        let unselected = reviews.iter().flat_map(|review| &review.not_selected.ports);
        summary.unselected_ports = unselected.collect::<BTreeSet<_>>().len();
        for review in reviews {
            summary.unselected_chains += review.not_selected.chains;
            summary.fixed += review.fixed.len();
            summary.stale += review.stale.len();
            summary.third_party += review.third_party;
            summary.backend = summary.backend.or(review.other_backend);
            let chains = review.chains().map(|chain| (chain.table, chain.chain));
            summary.chains += chains.collect::<BTreeSet<_>>().len();
        }
        summary
    }
}

impl Summary {
    fn count_ports(&mut self, reviews: &[&Review<'_>]) {
        let mut changes: BTreeMap<&PortName, PortChange> = BTreeMap::new();
        for port in reviews.iter().flat_map(|review| &review.ports) {
            let change = changes.entry(&port.name).or_insert(port.change);
            *change = match (*change, port.change) {
                (one, other) if one == other => one,
                (PortChange::Cosmetic, other) | (other, PortChange::Cosmetic) => other,
                // Appears or disappears in one family only: the service port as a whole changes.
                _ => PortChange::Changes,
            };
        }
        for change in changes.into_values() {
            *match change {
                PortChange::Appears => &mut self.added,
                PortChange::Disappears => &mut self.removed,
                PortChange::Changes => &mut self.changed,
                PortChange::Cosmetic => &mut self.cosmetic,
            } += 1;
        }
    }

    /// Writes how many service ports differ, and how many of them for packets.
    fn write_ports(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let affecting = self.changed + self.added + self.removed;
        let all = affecting + self.cosmetic;
        let ports = match all {
            0 => "no service port differs".to_owned(),
            _ => plural(all, "service port differs", "service ports differ"),
        };
        match affecting {
            0 if all == 0 => f.write_str(&ports),
            0 => write!(f, "{ports}, none affects packets"),
            _ => {
                let affecting = plural(affecting, "affects packets", "affect packets");
                let Self {
                    changed,
                    added,
                    removed,
                    ..
                } = self;
                write!(
                    f,
                    "{ports}, {affecting}: {changed} changed, {added} added, {removed} removed"
                )
            }
        }
    }

    fn write_ignored(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(backend) = self.backend {
            write!(f, "; rules of the backend {backend} not compared")?;
        }
        write_part(f, self.unselected_ports, "service port", " not selected")?;
        let chain = "fixed or stale chain";
        write_part(f, self.unselected_chains, chain, " not selected")?;
        write_part(f, self.third_party, "third-party rule", " ignored")
    }
}

/// Writes a number of the summary, unless it is zero.
fn write_part(f: &mut fmt::Formatter<'_>, count: usize, noun: &str, end: &str) -> fmt::Result {
    match count {
        0 => Ok(()),
        _ => write!(f, "; {}{end}", counted(count, noun)),
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.chains == 0 {
            f.write_str("no differences")?;
            return self.write_ignored(f);
        }
        self.write_ports(f)?;
        let differ = if self.fixed == 1 {
            " differs"
        } else {
            " differ"
        };
        write_part(f, self.fixed, "fixed chain", differ)?;
        write_part(f, self.stale, "stale chain", "")?;
        write_part(f, self.chains, "chain", "")?;
        self.write_ignored(f)
    }
}

pub(super) fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// One step of an edit script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit<T> {
    /// On both sides.
    Kept(T),
    /// On the live side only, or at another position on the desired side.
    Removed(T),
    /// On the desired side only, or at another position on the live side.
    Added(T),
}

/// Returns the shortest edit script that turns `live` into `desired`.
pub(super) fn edits<T: Copy + Hash + Ord>(live: &[T], desired: &[T]) -> Vec<Edit<T>> {
    let steps = capture_diff_slices(Algorithm::Myers, live, desired);
    let changes = steps
        .iter()
        .flat_map(|step| step.iter_changes(live, desired));
    let edits = changes.map(|change| match change.tag() {
        ChangeTag::Equal => Edit::Kept(change.value()),
        ChangeTag::Delete => Edit::Removed(change.value()),
        ChangeTag::Insert => Edit::Added(change.value()),
    });
    edits.collect()
}

/// Pairs the values of the live and the desired side by their keys; a side without a key has the
/// default value.
pub(super) fn paired<K: Ord, V: Default>(
    live: impl IntoIterator<Item = (K, V)>,
    desired: impl IntoIterator<Item = (K, V)>,
) -> BTreeMap<K, [V; 2]> {
    let mut pairs: BTreeMap<K, [V; 2]> = BTreeMap::new();
    for (key, value) in live {
        pairs.entry(key).or_default()[0] = value;
    }
    for (key, value) in desired {
        pairs.entry(key).or_default()[1] = value;
    }
    pairs
}

/// Returns a rule without its cosmetic parts: comments, and the rounding of probabilities, which
/// become the `1/n` that was meant.
pub(super) fn without_cosmetics(rule: &Rule) -> Rule {
    let mut bare = rule.clone();
    bare.matches.retain(|one| !matches!(one, Match::Comment(_)));
    for one in &mut bare.matches {
        if let Match::Random(chance) = one {
            chance.value = chance.value.rounded();
        }
    }
    bare
}

/// Reports whether the differences between two lists of rules are cosmetic.
pub(super) fn are_equivalent(live: &[&Rule], desired: &[&Rule]) -> bool {
    let is_equivalent = |(old, new): (&&Rule, &&Rule)| {
        old == new || without_cosmetics(old) == without_cosmetics(new)
    };
    live.len() == desired.len() && live.iter().zip(desired).all(is_equivalent)
}
