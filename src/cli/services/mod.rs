//! `services`: lists the Service ports that rules are programmed for, as a table or a document.

mod document;
mod notes;
mod rows;
mod table;

use super::exit::ErrorReport;
use super::snapshot::RuleSnapshot;
use super::terminal;
use crate::config::{ServicesArgs, ServicesOutput};
use rows::RowFilter;
use table::ServiceTable;

/// Prints one line for each service port.
pub(super) fn services(args: &ServicesArgs, report: &ErrorReport) -> anyhow::Result<()> {
    let filter = RowFilter::new(args)?;
    terminal::install_quiet_log()?;
    let snapshot = RuleSnapshot::load(&args.origin, report)?;
    let absence = snapshot.absence();
    if let Some(absence) = &absence {
        tracing::warn!("{absence}");
    }
    let (rows, findings) = rows::rows(&snapshot);
    let named = filter.check(&rows, &findings);
    let rows = filter.selected(rows, &snapshot.node_addresses);
    let without_address = filter.address().filter(|_| rows.is_empty());
    if rows.is_empty() && without_address.is_none() && named.is_ok() && absence.is_none() {
        notes::print_empty(&snapshot.origin, &filter, findings.all_unknown());
    }
    // Without a proxy in this mode nothing is missing.
    if absence.is_none() {
        notes::print(&notes::note(&findings, &filter, args.output));
    }
    notes::print(&notes::quarantine_note(&snapshot.origin));
    terminal::stdout(|out| match args.output {
        ServicesOutput::Json => document::write_json(out, &rows, &findings, &filter),
        ServicesOutput::Yaml => document::write_yaml(out, &rows, &findings, &filter),
        ServicesOutput::Table | ServicesOutput::Wide => {
            let is_wide = args.output == ServicesOutput::Wide;
            let columns = table::columns(is_wide, snapshot.service_types.is_some());
            let mut table = ServiceTable::new(columns);
            for row in &rows {
                table.add(row);
            }
            Ok(table.write(out, !args.no_headers)?)
        }
    })?;
    // Known names are listed in spite of unknown ones.
    named?;
    without_address.map_or(Ok(()), |address| {
        let which = notes::which(&snapshot.origin, findings.all_unknown());
        Err(anyhow::anyhow!(
            "no such service port at `{address}` in {which}"
        ))
    })
}
