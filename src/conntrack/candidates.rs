//! Destinations whose flows have to be looked at, and which of these may live on.
//!
//! Apart from how they are found because this is what is carried from sync to sweep, added to while
//! a sweep fails, and asked for every flow.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::flow::{Destination, Filter, Flow};

/// The kernel walks its whole table for each filter, some 20 ms however little is in it; what
/// passes costs 3 us an entry. With more than this, one walk that lets all of UDP pass is the
/// cheaper one up to 30,000 flows.
const MOST_FILTERS: usize = 4;

/// Which flows to one destination may live on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// Those that one of these answers; sorted. With none of them the rules refuse everybody.
    AnsweredBy(Arc<[SocketAddr]>),
    /// Those that nothing was translated of: no Service has this destination any more.
    Untranslated,
}

impl Keep {
    fn allows(&self, flow: &Flow) -> bool {
        match self {
            Self::AnsweredBy(endpoints) => endpoints.binary_search(&flow.answerer).is_ok(),
            Self::Untranslated => flow.answerer == flow.destination,
        }
    }
}

/// What has to be looked at in one family. Default: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Suspects {
    /// Some flow to here may be stale.
    looked_at: HashMap<Destination, Keep>,
    /// No flow to here is stale that was not before; but if it is looked at for something else,
    /// this may live on, too.
    widened: HashMap<Destination, Keep>,
}

impl Suspects {
    /// Flows to here have to be looked at; what was said before in the same breath counts.
    pub(super) fn look_at(&mut self, destination: Destination, keep: Keep) {
        self.looked_at.entry(destination).or_insert(keep);
    }

    /// Whatever was left alone before may be left alone still.
    pub(super) fn widen(&mut self, destination: Destination, keep: Keep) {
        self.widened.entry(destination).or_insert(keep);
    }

    /// There is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.looked_at.is_empty()
    }

    /// Nothing was said at all, not even about what could be looked at already.
    pub fn is_silent(&self) -> bool {
        self.looked_at.is_empty() && self.widened.is_empty()
    }

    /// How many destinations have to be looked at.
    pub fn len(&self) -> usize {
        self.looked_at.len()
    }

    /// Whether any of them is a NodePort, for which the machine's addresses have to be known.
    pub fn has_node_ports(&self) -> bool {
        let mut destinations = self.looked_at.keys();
        destinations.any(|destination| matches!(destination, Destination::NodePort(_)))
    }

    /// Adds what a later sync said.
    pub fn absorb(&mut self, newer: Self) {
        self.amend(&newer);
        self.looked_at.extend(newer.looked_at);
    }

    /// Takes over what a later sync said of destinations that are looked at already: a look that
    /// takes long must not find what it was told at its beginning.
    pub fn amend(&mut self, newer: &Self) {
        for (destination, keep) in newer.widened.iter().chain(&newer.looked_at) {
            if let Some(known) = self.looked_at.get_mut(destination) {
                known.clone_from(keep);
            }
        }
    }

    /// What to ask the kernel for, sorted: each lets some of the flows pass, all of them together
    /// let all that are looked at pass.
    pub fn filters(&self) -> Vec<Filter> {
        let mut filters = BTreeSet::new();
        for destination in self.looked_at.keys() {
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

    /// Whether the rules would send this flow elsewhere now. An address is asked for first, as
    /// rules do.
    ///
    /// Differs from upstream: a NodePort's flows are sent to this machine. One that is sent to a
    /// port of the same number elsewhere has nothing to do with it, and lives on.
    pub fn is_stale(&self, flow: &Flow, has_node_ports: impl Fn(IpAddr) -> bool) -> bool {
        let address = Destination::Address(flow.destination);
        let keep = self.looked_at.get(&address).or_else(|| {
            let port = flow.destination.port().try_into().ok()?;
            let keep = self.looked_at.get(&Destination::NodePort(port))?;
            has_node_ports(flow.destination.ip()).then_some(keep)
        });
        keep.is_some_and(|keep| !keep.allows(flow))
    }
}
