//! Names for completion scripts.
//!
//! Apart because every command that takes names offers the same ones, wherever its rules come from:
//! what is typed of a name already is the shell's business.

use std::collections::BTreeSet;

use super::output;
use super::snapshot::Snapshot;
use crate::config::NamesArg;
use crate::inspect::catalog::{Catalog, NamePattern, PortName};

/// Prints a name on each line, sorted.
pub(super) fn print(
    snapshot: &Snapshot,
    what: NamesArg,
    namespace: Option<&str>,
) -> anyhow::Result<()> {
    let families = snapshot.rules.as_ref().into_pairs().into_iter();
    let mut names = BTreeSet::new();
    for (_, rules) in families {
        let catalog = Catalog::read(rules);
        names.extend(
            catalog
                .ports
                .keys()
                .filter_map(|port| name(port, what, namespace)),
        );
    }
    // A comment can say anything; a shell is only told what can be the name of a Service.
    names.retain(|name| name.parse::<NamePattern>().is_ok());
    output::stdout(|out| Ok(names.iter().try_for_each(|name| writeln!(out, "{name}"))?))
}

fn name(port: &PortName, what: NamesArg, namespace: Option<&str>) -> Option<String> {
    let own = port.namespace();
    match (what, namespace) {
        (NamesArg::Namespaces, _) => Some(own.to_owned()),
        (NamesArg::Services, None) => Some(format!("{own}/{}", port.service())),
        (NamesArg::Services, Some(asked)) => (asked == own).then(|| port.service().to_owned()),
    }
}
