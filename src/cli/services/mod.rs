//! `services`: lists the Service ports that rules are programmed for, as a table or a document.

mod document;
mod notes;
mod rows;
mod table;

use super::exit::ErrorReport;
use super::snapshot::RuleSnapshot;
use super::terminal;
use crate::config::{ServicesArgs, ServicesOutput};

/// Prints one line for each service port.
pub(super) fn services(args: &ServicesArgs, report: &ErrorReport) -> anyhow::Result<()> {
    let query = args.selection.query()?;
    terminal::install_quiet_log()?;
    let snapshot = RuleSnapshot::load(&args.origin, report)?;
    let absence = snapshot.absence();
    if let Some(absence) = &absence {
        tracing::warn!("{absence}");
    }
    let (rows, findings) = rows::rows(&snapshot);
    let named = rows::check(&query, &rows, &findings);
    let rows = rows::selected(rows, &query);
    if rows.is_empty() && named.is_ok() && absence.is_none() {
        notes::print_empty(&snapshot.origin, &query, findings.all_unknown());
    }
    // Without a proxy in this mode nothing is missing.
    if absence.is_none() {
        notes::print(&notes::note(&findings, &query, args.output));
    }
    notes::print(&notes::quarantine_note(&snapshot.origin));
    terminal::stdout(|out| match args.output {
        ServicesOutput::Json => document::write_json(out, &rows, &findings, &query),
        ServicesOutput::Yaml => document::write_yaml(out, &rows, &findings, &query),
        ServicesOutput::Table | ServicesOutput::Wide => {
            let is_wide = args.output == ServicesOutput::Wide;
            let columns = table::columns(is_wide, snapshot.service_types.is_some());
            Ok(table::write(out, &columns, &rows, !args.no_headers)?)
        }
    })?;
    // Known names are listed in spite of unknown ones.
    Ok(named?)
}
