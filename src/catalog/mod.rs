//! What a ruleset says of Services: which service ports there are, how they are reached, and who
//! answers.
//!
//! Apart from [`rules`](crate::rules), which knows no Services, and from [`render`](crate::render),
//! which writes rules and never reads any. A catalog is read from rules alone, so it tells of a
//! running kube-proxy's, of a dump's and of our own alike, whoever wrote them.
//!
//! Which chain is whose is found by following the jumps from the chains that all Services share,
//! whose rules carry the service port's name in every release and every mode; comments further down
//! are not needed.

mod asked;
mod conflict;
mod dead_end;
mod endpoints;
mod entrance;
mod missing;
mod namespaces;
mod pattern;
mod port;
mod reach;
mod read;
mod similar;
mod stale;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use asked::Asked;
pub use conflict::FrontendConflict;
pub use endpoints::Endpoint;
pub use entrance::{Entrance, Fate, Kind};
pub use missing::{Missing, NoSuch};
pub use namespaces::NoNamespace;
pub use pattern::{NamePattern, NoName, OtherNamespace};
pub use port::{Policy, PortName, PortView};
pub use reach::{Extent, Gap};
pub use similar::Similar;
pub use stale::is_service_chain;

/// Every service port of one family's rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalog {
    /// By name and protocol.
    pub ports: BTreeMap<PortName, PortView>,
    /// Service chains that nothing leads to, sorted: left behind, or not yet in use.
    pub stale: Vec<Box<str>>,
}

impl Catalog {
    /// The service port that a chain of the nat table belongs to, for many chains.
    pub fn owners(&self) -> BTreeMap<&str, &PortName> {
        let ports = self.ports.iter();
        ports
            .flat_map(|(name, view)| view.chains.iter().map(move |chain| (&**chain, name)))
            .collect()
    }
}
