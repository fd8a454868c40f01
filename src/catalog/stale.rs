//! Service chains that belong to nobody.

use super::Catalog;
use crate::rules::{RuleSet, Table};

/// How the names of chains begin that belong to one service port.
const PREFIXES: [&str; 6] = [
    "KUBE-SVC-",
    "KUBE-SVL-",
    "KUBE-EXT-",
    "KUBE-FW-",
    "KUBE-SEP-",
    "KUBE-XLB-",
];

/// Whether a chain's name is that of a service port's chain, in any release.
pub fn is_service_chain(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Those that no service port has.
pub(super) fn chains(catalog: &Catalog, rules: &RuleSet) -> Vec<Box<str>> {
    let owners = catalog.owners();
    let names = rules.chains(Table::Nat).map(|(name, _)| name);
    let stale = names.filter(|name| is_service_chain(name) && !owners.contains_key(name));
    stale.map(Box::from).collect()
}
