//! Reads from a ruleset which service ports it serves: their frontends, endpoints and policies.
//!
//! Rules are the only input, so that a catalog describes a running kube-proxy's rules, those of a
//! dump and our own alike. Kept separate from [`render`](crate::render), which writes rules and
//! never reads any.
//!
//! A chain is assigned to a service port by following jumps from the dispatch chains, such as
//! `KUBE-SERVICES`. Rules there carry the service port's name in every release and every mode;
//! comments further down are not needed.

mod document;
mod endpoints;
mod name;
mod query;
mod reach;
mod read;
mod suggestion;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use document::FrontendDocument;
pub use name::{InvalidName, NamePattern, NamespaceMismatch, PortName};
pub use query::{NoMatch, NoMatches, PortQuery, UnknownNamespace};
pub use reach::{RequiredJump, RulesetSource};
pub use suggestion::Suggestions;
pub use view::{
    EndpointView, FrontendConflict, FrontendDisposition, FrontendKind, FrontendView, Policy,
    PortView, is_service_chain,
};

/// Every service port in the rules of one IP family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalog {
    /// Service ports by name and protocol.
    pub ports: BTreeMap<PortName, PortView>,
    /// Service chains that no jump leads to, sorted: stale, or not yet in use.
    pub stale: Vec<Box<str>>,
}

impl Catalog {
    /// Returns each chain of the nat table that belongs to a service port, with that service port.
    pub fn owners(&self) -> BTreeMap<&str, &PortName> {
        let ports = self.ports.iter();
        ports
            .flat_map(|(name, view)| view.chains.iter().map(move |chain| (&**chain, name)))
            .collect()
    }
}
