//! A service port with what the rules of each family say of it.
//!
//! Apart because it is what tables, documents and filters have in common.

use std::collections::BTreeMap;

use super::beside::Beside;
use crate::cli::snapshot::{Origin, Snapshot};
use crate::inspect::catalog::{
    Catalog, FrontendKind, FrontendView, PortName, PortView, RulesetSource,
};
use crate::net::{IpFamily, PerFamily};

/// A service port that at least one family has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) name: PortName,
    pub(super) views: PerFamily<Option<PortView>>,
}

/// All rows, sorted by namespace, Service, port and protocol, and what is beside them.
pub(super) fn rows(snapshot: &Snapshot) -> (Vec<Row>, Beside) {
    let mut beside = Beside::default();
    let mut rows: BTreeMap<PortName, PerFamily<Option<PortView>>> = BTreeMap::new();
    for (family, rules) in snapshot.rules.as_ref().into_pairs() {
        let mut catalog = Catalog::read(rules);
        let extent = match snapshot.origin {
            Origin::Live(_) => RulesetSource::Kernel,
            Origin::Saved(_) => RulesetSource::guess(rules),
            Origin::Desired => RulesetSource::Payload,
        };
        let gaps = catalog.mark_unreachable(rules, extent);
        beside.add(family, catalog.stale, gaps);
        for (name, view) in catalog.ports {
            *rows.entry(name).or_default().get_mut(family) = Some(view);
        }
    }
    beside.add_conflicts(snapshot.conflicts.clone());
    let rows = rows.into_iter().map(|(name, views)| Row { name, views });
    let mut rows: Vec<Row> = rows.collect();
    // Not the order of the whole names: `/` and `:` are neither the first nor the last letters.
    rows.sort_by(|left, right| left.key().cmp(&right.key()));
    (rows, beside)
}

/// `spec.type`, as far as rules show it: the least that has such entrances. Rules of which a part
/// is lost may not show it at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServiceType {
    ClusterIp,
    NodePort,
    LoadBalancer,
}

impl ServiceType {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }

    pub(super) fn of<'a>(entrances: impl Iterator<Item = &'a FrontendView>) -> Option<Self> {
        let types = entrances.map(|entrance| match entrance.kind {
            FrontendKind::LoadBalancer | FrontendKind::HealthCheck => Some(Self::LoadBalancer),
            FrontendKind::NodePort => Some(Self::NodePort),
            FrontendKind::ClusterIp => Some(Self::ClusterIp),
            // Any type may have one.
            FrontendKind::ExternalIp | FrontendKind::External => None,
        });
        types.max().flatten()
    }
}

impl Row {
    fn key(&self) -> (&str, &str, &str, &str) {
        let name = &self.name;
        (
            name.namespace(),
            name.service(),
            name.port(),
            &name.protocol,
        )
    }

    /// What a family says, if it has the service port.
    pub(super) fn view(&self, family: IpFamily) -> Option<&PortView> {
        self.views.get(family).as_ref()
    }

    /// What each family says that has the service port.
    pub(super) fn views(&self) -> impl Iterator<Item = (IpFamily, &PortView)> {
        let pairs = self.views.as_ref().into_pairs().into_iter();
        pairs.filter_map(|(family, view)| Some((family, view.as_ref()?)))
    }

    /// The numbers of the ports that it is reached at, of both families.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u16> + Clone {
        let views = [&self.views.v4, &self.views.v6].into_iter();
        views.flatten().flat_map(PortView::numbers)
    }

    /// Whether the cluster IP is known. Every Service has one: where it is not, a part of the rules
    /// is lost, and so may be other addresses and ports.
    pub(super) fn has_cluster_ip(&self) -> bool {
        let mut entrances = self.entrances();
        entrances.any(|entrance| entrance.kind == FrontendKind::ClusterIp)
    }

    /// Of both families.
    pub(super) fn entrances(&self) -> impl Iterator<Item = &FrontendView> {
        self.views().flat_map(|(_, view)| &view.frontends)
    }
}
