//! Rows of the list, one for each service port, and findings on the rules as a whole.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::snapshot::{Conflicts, PortCounters, RuleSnapshot};
use crate::inspect::catalog::{
    Catalog, FrontendConflict, FrontendDisposition, FrontendKind, FrontendView, NoMatches, Policy,
    PortName, PortQuery, PortView, RulesetGap, ServiceType, UnknownRules,
};
use crate::net::{IpFamily, PerFamily};
use crate::status::ServiceCondition;

/// Service port that at least one family has rules for.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: PortName,
    pub(super) views: PerFamily<Option<PortView>>,
    /// Type of the Service, if the rules are rendered from its object.
    pub(super) declared_type: Option<ServiceType>,
    /// Rules of frontends that cannot be read: each may be of this service port.
    pub(super) unreadable_frontends: usize,
    /// Families whose nat table was not read: endpoints are unknown.
    pub(super) families_without_nat: BTreeSet<IpFamily>,
    /// Counters of its rules, with `--counters`.
    pub(super) counters: PerFamily<Option<PortCounters>>,
    /// Status of each family that its rules do not show.
    reported: PerFamily<Option<ServiceCondition>>,
}

/// Returns all rows, sorted by namespace, Service, port and protocol, and the findings.
pub(super) fn rows(snapshot: &RuleSnapshot) -> (Vec<Row>, RuleFindings) {
    let mut findings = RuleFindings::default();
    let mut shadowed = PerFamily::<Vec<FrontendConflict>>::default();
    let mut ports = PerFamily::default();
    for (family, rules) in snapshot.rules.pairs() {
        let mut catalog = Catalog::read(rules);
        let gaps = catalog.mark_unreachable(rules, *snapshot.sources.get(family));
        shadowed.get_mut(family).append(&mut catalog.shadowed);
        *findings.stale.get_mut(family) = catalog.stale;
        *findings.unknown.get_mut(family) = catalog.unknown;
        *findings.gaps.get_mut(family) = gaps;
        *ports.get_mut(family) = catalog.ports;
    }
    findings.conflicts = snapshot.conflicts.clone();
    findings
        .with_legacy
        .clone_from(&snapshot.families_with_legacy);
    findings.without_nat = snapshot.families_without_nat();
    for (family, shadowed) in shadowed.into_pairs() {
        let conflicts = findings.conflicts.get_mut(family);
        conflicts.count += shadowed.len();
        conflicts.lost.extend(shadowed);
    }
    let losers = findings.conflicts.as_ref();
    let losers = losers.map(|_, conflicts| {
        let losers = conflicts.lost.iter().map(|conflict| &conflict.loser);
        losers.collect::<BTreeSet<_>>()
    });
    let rows = joined(ports).into_iter().map(|(name, views)| Row {
        declared_type: snapshot
            .service_types
            .as_ref()
            .and_then(|types| types.of(&name)),
        unreadable_frontends: findings.all_unknown().unreadable_frontends,
        families_without_nat: findings.without_nat.clone(),
        counters: PerFamily::default(),
        reported: PerFamily::from_fn(|family| {
            let service = (name.namespace(), name.service());
            match () {
                () if snapshot.quarantined.get(family).has(service) => {
                    Some(ServiceCondition::Quarantined)
                }
                () if snapshot.over_limit.get(family).has(service) => {
                    Some(ServiceCondition::OverLimit)
                }
                () => losers
                    .get(family)
                    .contains(&name)
                    .then_some(ServiceCondition::Conflict),
            }
        }),
        name,
        views,
    });
    (rows.collect(), findings)
}

/// Joins the service ports of both families.
fn joined(
    ports: PerFamily<BTreeMap<PortName, PortView>>,
) -> BTreeMap<PortName, PerFamily<Option<PortView>>> {
    let v4 = ports.v4.into_iter();
    let of_v4 = |view| PerFamily {
        v4: Some(view),
        v6: None,
    };
    let mut all: BTreeMap<_, _> = v4.map(|(name, view)| (name, of_v4(view))).collect();
    for (name, view) in ports.v6 {
        all.entry(name).or_default().v6 = Some(view);
    }
    all
}

impl Row {
    pub(super) fn status_of(&self, family: IpFamily, view: &PortView) -> ServiceCondition {
        let shown = shown_status(view, !self.families_without_nat.contains(&family));
        self.reported
            .get(family)
            .map_or(shown, |one| one.max(shown))
    }

    /// Returns the worst status of its families.
    pub(super) fn status(&self) -> ServiceCondition {
        let all = self
            .views()
            .map(|(family, view)| self.status_of(family, view));
        all.max().unwrap_or(ServiceCondition::Unknown)
    }

    /// Returns the type of the Service: that of its object, or else the least that has such
    /// frontends.
    pub(super) fn service_type(&self) -> Option<ServiceType> {
        let least = || ServiceType::least(self.frontends());
        self.declared_type.or_else(least)
    }

    /// Reports whether it may have frontends that no rule shows. Every Service has a cluster IP:
    /// without it the rules are incomplete.
    pub(super) fn lacks_frontends(&self) -> bool {
        !self.has_cluster_ip() || self.unreadable_frontends > 0
    }

    /// Reports whether rules of its chains cannot be read, or were not.
    pub(super) fn lacks_rules(&self) -> bool {
        self.lacks_chains() || self.views().any(|(_, view)| view.unreadable_rules > 0)
    }

    /// Reports whether its chains were not read.
    pub(super) fn lacks_chains(&self) -> bool {
        let mut views = self.views();
        views.any(|(family, _)| self.families_without_nat.contains(&family))
    }

    /// Returns the rules of each family that has the service port.
    pub(super) fn views(&self) -> impl Iterator<Item = (IpFamily, &PortView)> + Clone {
        let pairs = self.views.pairs();
        pairs.filter_map(|(family, view)| Some((family, view.as_ref()?)))
    }

    /// Returns the port numbers of its frontends, of both families.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u16> + Clone {
        self.views().flat_map(|(_, view)| view.numbers())
    }

    fn has_cluster_ip(&self) -> bool {
        let mut frontends = self.frontends();
        frontends.any(|frontend| frontend.kind == FrontendKind::ClusterIp)
    }

    /// Returns its frontends of both families.
    pub(super) fn frontends(&self) -> impl Iterator<Item = &FrontendView> {
        self.views().flat_map(|(_, view)| &view.frontends)
    }
}

/// Returns the status of a service port that the rules of one family show. `has_nat`: the nat table
/// was read.
fn shown_status(view: &PortView, has_nat: bool) -> ServiceCondition {
    let frontends = || view.frontends.iter();
    let policies = [view.internal_policy, view.external_policy];
    let has_local = view.endpoints.iter().any(|one| one.local.is_some());
    match () {
        () if frontends().any(|one| !one.unreachable_from.is_empty()) => ServiceCondition::NoPath,
        () if !has_nat || view.unreadable_rules > 0 => ServiceCondition::Unknown,
        () if frontends().any(|one| one.disposition == FrontendDisposition::Dropped) => {
            ServiceCondition::NoLocalEndpoint
        }
        () if view.endpoints.is_empty() => ServiceCondition::NoEndpoints,
        () if policies.contains(&Some(Policy::Local)) && !has_local => {
            ServiceCondition::NoLocalEndpoint
        }
        () => ServiceCondition::Ok,
    }
}

/// Findings on the rules of each family that belong to no row.
#[derive(Debug, Default)]
pub(super) struct RuleFindings {
    /// Unreferenced chains.
    pub(super) stale: PerFamily<Vec<Box<str>>>,
    /// Missing jumps, and fixed chains that are missing or without effect.
    pub(super) gaps: PerFamily<Vec<RulesetGap>>,
    /// Frontends that several Services declare.
    pub(super) conflicts: PerFamily<Conflicts>,
    /// Parts of the rules that may be of further service ports.
    pub(super) unknown: PerFamily<UnknownRules>,
    /// Families with rules of the backend legacy that the save program reports and does not list.
    pub(super) with_legacy: BTreeSet<IpFamily>,
    /// Families whose nat table was not read.
    pub(super) without_nat: BTreeSet<IpFamily>,
}

impl RuleFindings {
    /// Returns the parts of the rules of both families that may be of further service ports.
    pub(super) fn all_unknown(&self) -> UnknownRules {
        self.unknown.v4.plus(self.unknown.v6)
    }

    /// Returns the frontend conflicts that a query selects.
    pub(super) fn conflicts(
        &self,
        query: &PortQuery,
    ) -> impl Iterator<Item = (IpFamily, &FrontendConflict)> {
        let all = self.conflicts.pairs().flat_map(|(family, conflicts)| {
            let lost = conflicts.lost.iter();
            lost.map(move |conflict| (family, conflict))
        });
        all.filter(|(_, conflict)| concerns(query, conflict))
    }

    /// Returns the chains that no service port has.
    pub(super) fn stale(&self) -> impl Iterator<Item = (IpFamily, &str)> {
        let pairs = self.stale.pairs();
        pairs.flat_map(|(family, chains)| chains.iter().map(move |chain| (family, &**chain)))
    }

    /// Returns the missing jumps and fixed chains that service ports depend on.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (IpFamily, RulesetGap)> {
        let pairs = self.gaps.pairs();
        pairs.flat_map(|(family, gaps)| gaps.iter().map(move |gap| (family, *gap)))
    }
}

pub(super) fn selected(mut rows: Vec<Row>, query: &PortQuery) -> Vec<Row> {
    rows.retain(|row| query.fits(&row.name, &row.numbers()));
    rows
}

/// Returns the number of problems that no row has: missing jumps and fixed chains, and frontends
/// that a service port without rules requests. `rows` are sorted by name.
pub(super) fn unlisted_problems(rows: &[Row], findings: &RuleFindings, query: &PortQuery) -> usize {
    let is_listed = |name| rows.binary_search_by(|row| row.name.cmp(name)).is_ok();
    let conflicts = findings.conflicts(query);
    let unlisted = conflicts.filter(|(_, conflict)| !is_listed(&conflict.loser));
    findings.gaps().count() + unlisted.count()
}

/// Checks that each name is of a row, or of a service port that lost all frontends to others.
pub(super) fn check(
    query: &PortQuery,
    rows: &[Row],
    findings: &RuleFindings,
) -> Result<(), NoMatches> {
    let rows = rows.iter();
    let known = rows.map(|row| (&row.name, row.numbers().collect::<Vec<_>>()));
    let losers = findings.conflicts(query);
    let losers = losers.map(|(_, conflict)| (&conflict.loser, vec![conflict.port]));
    let known: Vec<_> = known.chain(losers).collect();
    query.check(&known.iter().cloned(), findings.all_unknown())
}

/// Reports whether a query selects one of the Services of a conflict.
fn concerns(query: &PortQuery, conflict: &FrontendConflict) -> bool {
    let owner = PortName {
        name: conflict.owner.clone(),
        protocol: conflict.loser.protocol.clone(),
    };
    let numbers = [conflict.port];
    query.fits(&conflict.loser, &numbers) || query.fits(&owner, &numbers)
}

#[cfg(test)]
#[path = "tests/status.rs"]
mod tests;
