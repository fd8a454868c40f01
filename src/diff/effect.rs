//! What traffic to a service port notices.
//!
//! Apart so that every way of showing a review tells the same facts.

use std::net::SocketAddr;
use std::time::Duration;

use super::masquerade::Clients;
use crate::catalog::{Entrance, Fate, Policy};
use crate::rules::{Network, Share};

/// One thing that traffic notices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A destination that was not one.
    EntranceAdded(Entrance),
    /// No longer a destination.
    EntranceRemoved(Entrance),
    /// Something else becomes of what comes there.
    Fate {
        /// The destination as it will be.
        entrance: Entrance,
        /// What became of it.
        before: Fate,
    },
    /// The policy of traffic from inside or from outside.
    PolicyChanged {
        /// Which traffic.
        traffic: Traffic,
        /// As it was, as far as it can be told.
        before: Option<Policy>,
        /// As it will be.
        after: Option<Policy>,
    },
    /// Others answer.
    Endpoints(Answerers),
    /// An endpoint that stays among the same ones gets more or less.
    ShareChanged {
        /// Under which policy.
        policy: Policy,
        /// Which endpoint.
        endpoint: SocketAddr,
        /// What it got.
        before: Share,
        /// What it will get.
        after: Share,
    },
    /// How long clients stay with their endpoint; `None`: not at all.
    Affinity {
        /// As it was.
        before: Option<Duration>,
        /// As it will be.
        after: Option<Duration>,
    },
    /// Whom the load balancer admits.
    SourceRanges {
        /// Who is admitted now.
        added: Vec<Network>,
        /// Who is no longer.
        removed: Vec<Network>,
    },
    /// Other traffic to a cluster IP gets this node's address as its source.
    Masquerade {
        /// Whose did; `None`: nobody's.
        before: Option<Clients>,
        /// Whose will.
        after: Option<Clients>,
    },
    /// Other traffic does in other ways.
    OtherMasquerade,
    /// Other traffic is dropped or refused.
    Refusals,
    /// The same, in another order.
    Order,
    /// Other rules that say the same of entrances and endpoints, such as another release's.
    Rules,
}

/// Who answers, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answerers {
    /// Under which policy they will; of a service port that is gone, under which they did.
    pub policy: Policy,
    /// The destinations that they answer for.
    pub at: Vec<Entrance>,
    /// How many there were.
    pub before: usize,
    /// How many there will be.
    pub after: usize,
    /// The new ones, sorted.
    pub added: Vec<SocketAddr>,
    /// Those that are gone, sorted.
    pub removed: Vec<SocketAddr>,
}

impl Answerers {
    /// The same happens, perhaps at other destinations.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let Self { at, .. } = self;
        let elsewhere = Self {
            at: at.clone(),
            ..other.clone()
        };
        *self == elsewhere
    }
}

/// Where traffic comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// To the cluster IP.
    Internal,
    /// To everything else.
    External,
}

impl Traffic {
    /// As in the names of policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::External => "external",
        }
    }
}
