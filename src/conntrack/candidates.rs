//! Candidates for deletion: destinations whose conntrack entries may be stale, and the entries of
//! each that stay.
//!
//! They are passed from a sync to the sweep, merged while a sweep fails, and asked about each
//! entry.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::net::Port;

/// Maximum filters of one sweep. The kernel walks its whole table for each filter, in some 20 ms
/// if it is empty; an entry that passes a filter takes 3 us. With more filters than this, one walk
/// that passes all of UDP takes less time for up to 30,000 entries.
const MOST_FILTERS: usize = 4;

/// Conntrack entry of UDP, with the parts that rules have decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Destination of the original tuple.
    pub destination: SocketAddr,
    /// Source of the reply tuple; the same as `destination` without translation.
    pub reply_source: SocketAddr,
}

/// Destination under which clients reach a service port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Destination {
    /// Cluster IP, external IP or load balancer address, with the port.
    Address(SocketAddr),
    /// Port of the addresses of the node that NodePorts answer on.
    NodePort(Port),
}

/// Filter of a request to the kernel, for UDP: it passes a superset of the candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter {
    /// All entries of the family.
    Everything,
    /// Entries with this destination.
    To(SocketAddr),
    /// Entries with this destination port.
    ToPort(Port),
}

/// Entries of one destination that stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Entries whose replies come from one of these endpoints; sorted. Without endpoints the rules
    /// reject all clients.
    RepliesFrom(Arc<[SocketAddr]>),
    /// Entries without translation: no Service has this destination.
    Untranslated,
}

impl Keep {
    fn allows(&self, flow: &Flow) -> bool {
        match self {
            Self::RepliesFrom(endpoints) => endpoints.binary_search(&flow.reply_source).is_ok(),
            Self::Untranslated => flow.reply_source == flow.destination,
        }
    }
}

/// Candidates of one family; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StaleCandidates {
    /// Destinations of which some entry may be stale.
    checked: HashMap<Destination, Keep>,
    /// Destinations that gained endpoints: none of their entries became stale. They replace what
    /// stays of a destination that is checked for an earlier change.
    extended: HashMap<Destination, Keep>,
}

impl StaleCandidates {
    /// Adds a destination whose entries have to be checked; an earlier one of the same sync stays.
    pub(super) fn check(&mut self, destination: Destination, keep: Keep) {
        self.checked.entry(destination).or_insert(keep);
    }

    /// Adds a destination that gained endpoints.
    pub(super) fn extend(&mut self, destination: Destination, keep: Keep) {
        self.extended.entry(destination).or_insert(keep);
    }

    /// Reports whether no destination has to be checked.
    pub fn is_empty(&self) -> bool {
        self.checked.is_empty()
    }

    /// Reports whether a sync changed nothing here, not even for destinations that are checked
    /// already.
    pub fn is_unchanged(&self) -> bool {
        self.checked.is_empty() && self.extended.is_empty()
    }

    /// Returns the number of destinations that have to be checked.
    pub fn len(&self) -> usize {
        self.checked.len()
    }

    /// Reports whether any of them is a NodePort, for which the addresses of the node are needed.
    pub fn has_node_ports(&self) -> bool {
        let mut destinations = self.checked.keys();
        destinations.any(|destination| matches!(destination, Destination::NodePort(_)))
    }

    /// Adds the candidates of a later sync.
    pub fn merge(&mut self, newer: Self) {
        self.update(&newer);
        self.checked.extend(newer.checked);
    }

    /// Updates what stays of the destinations that are checked already, by a later sync: a long
    /// sweep must not delete entries that became right meanwhile.
    pub fn update(&mut self, newer: &Self) {
        for (destination, keep) in newer.extended.iter().chain(&newer.checked) {
            if let Some(known) = self.checked.get_mut(destination) {
                known.clone_from(keep);
            }
        }
    }

    /// Returns the filters, sorted, that together pass the entries of all checked destinations.
    pub fn filters(&self) -> Vec<Filter> {
        let mut filters = BTreeSet::new();
        for destination in self.checked.keys() {
            filters.insert(match destination {
                Destination::Address(address) => Filter::To(*address),
                Destination::NodePort(port) => Filter::ToPort(*port),
            });
            if filters.len() > MOST_FILTERS {
                return vec![Filter::Everything];
            }
        }
        filters.into_iter().collect()
    }

    /// Reports whether the rules would send the packets of this entry elsewhere now. Addresses
    /// come before NodePorts, as in the rules.
    ///
    /// Differs from upstream: an entry belongs to a NodePort only if its destination is an address
    /// of this node. One with the same port on another host stays.
    pub fn is_stale(&self, flow: &Flow, has_node_ports: impl Fn(IpAddr) -> bool) -> bool {
        let address = Destination::Address(flow.destination);
        let keep = self.checked.get(&address).or_else(|| {
            let port = flow.destination.port().try_into().ok()?;
            let keep = self.checked.get(&Destination::NodePort(port))?;
            has_node_ports(flow.destination.ip()).then_some(keep)
        });
        keep.is_some_and(|keep| !keep.allows(flow))
    }
}
