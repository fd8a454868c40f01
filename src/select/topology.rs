//! Zone and node hints: the part of the cluster that traffic of a service port should stay in.
//!
//! Hints apply only if every ready endpoint has one, and never leave a client without endpoints.

use crate::model::{Endpoint, NodeHint};

/// Part of the cluster that traffic should stay in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topology<'a> {
    /// All endpoints.
    Anywhere,
    /// Endpoints with a hint for this node.
    SameNode,
    /// Endpoints with a hint for this zone.
    SameZone(&'a str),
}

impl<'a> Topology<'a> {
    /// Returns the topology that follows from the hints of all ready endpoints.
    ///
    /// Upstream: pkg/proxy/topology.go, `topologyModeFromHints` (v1.36)
    pub(super) fn from_hints<'e>(
        ready: impl Iterator<Item = &'e Endpoint>,
        zone: Option<&'a str>,
    ) -> Self {
        let mut tally = Tally {
            all_have_node: true,
            all_have_zone: true,
            ..Tally::default()
        };
        for endpoint in ready {
            tally.all_have_node &= endpoint.node_hint != NodeHint::Absent;
            tally.some_names_node |= endpoint.node_hint == NodeHint::Here;
            tally.all_have_zone &= !endpoint.zone_hints.is_empty();
            tally.some_names_zone |= zone.is_some_and(|zone| names_zone(endpoint, zone));
        }
        match zone {
            _ if tally.all_have_node && tally.some_names_node => Self::SameNode,
            Some(zone) if tally.all_have_zone && tally.some_names_zone => Self::SameZone(zone),
            _ => Self::Anywhere,
        }
    }

    /// Reports whether traffic may go to `endpoint`.
    pub(super) fn admits(self, endpoint: &Endpoint) -> bool {
        match self {
            Self::Anywhere => true,
            Self::SameNode => endpoint.node_hint == NodeHint::Here,
            Self::SameZone(zone) => names_zone(endpoint, zone),
        }
    }
}

#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts about one list"
)]
struct Tally {
    all_have_node: bool,
    some_names_node: bool,
    all_have_zone: bool,
    some_names_zone: bool,
}

fn names_zone(endpoint: &Endpoint, zone: &str) -> bool {
    endpoint.zone_hints.iter().any(|hint| &**hint == zone)
}
