//! Reads from a ruleset which service ports it serves: their frontends, endpoints and policies.
//!
//! Rules are the only input, so that a catalog describes a running kube-proxy's rules, those of a
//! dump and our own alike. Kept separate from [`render`](crate::render), which writes rules and
//! never reads any.
//!
//! A chain is assigned to a service port by following jumps from the dispatch chains, such as
//! `KUBE-SERVICES`. Rules there carry the service port's name in every release and every mode;
//! comments further down are not needed.

mod query;
mod reach;
mod read;
mod view;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use query::PortName;
pub(crate) use query::{
    InvalidName, NamePattern, NamespaceMismatch, NoMatch, NoMatches, PortQuery, Suggestions,
    UnknownRules,
};
pub use reach::RulesetSource;
pub(crate) use reach::{ProxyMode, RequiredChain, RequiredJump, RulesetGap};
pub(crate) use view::{
    EndpointView, FrontendConflict, FrontendDisposition, FrontendKind, FrontendView, LoserRules,
    ServiceType,
};
pub use view::{Policy, PortView, TrafficOrigin};

/// Every service port in the rules of one IP family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalog {
    /// Service ports by name and protocol.
    pub ports: BTreeMap<PortName, PortView>,
    /// Service chains that no jump leads to, sorted: stale, or not yet in use. Empty if a rule of
    /// the nat table cannot be read, which may lead to any.
    pub stale: Vec<Box<str>>,
    /// Frontends with rules of several Services, of which the first one has them, in the order of
    /// the rules.
    pub shadowed: Vec<FrontendConflict>,
    /// Parts of the rules that may be of service ports and do not show which.
    pub unknown: UnknownRules,
    /// Chains that mark packets, as far as a rule jumps to them.
    used_marks: BTreeSet<&'static str>,
}
