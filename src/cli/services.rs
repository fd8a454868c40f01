//! `services`: what rules say of Services, as a table.
//!
//! Apart because it knows how a table looks, and [`catalog`](crate::catalog) what is in it.

use super::{log, output, snapshot::Snapshot};
use crate::catalog::{Catalog, PortView};
use crate::config::{ServicesArgs, environment};
use crate::telemetry::Format;

/// Prints one line for each service port.
pub(super) fn services(args: &ServicesArgs) -> anyhow::Result<()> {
    log::install(
        Format::Text,
        0,
        environment::log_filter().or(Some("warn".to_owned())),
    )?;
    let snapshot = Snapshot::load(&args.origin)?;
    output::stdout(|out| {
        for (_, rules) in snapshot.rules.as_ref().into_pairs() {
            for (name, view) in Catalog::read(rules).ports {
                let (entrances, endpoints) = columns(&view);
                writeln!(out, "{name}\t{entrances}\t{endpoints}")?;
            }
        }
        Ok(())
    })
}

fn columns(view: &PortView) -> (String, String) {
    let entrances: Vec<_> = view.entrances.iter().map(ToString::to_string).collect();
    let endpoints = view.endpoints.iter().map(|one| one.address.to_string());
    let endpoints: Vec<_> = endpoints.collect();
    (entrances.join(","), endpoints.join(","))
}
