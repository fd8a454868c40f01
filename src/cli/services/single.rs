//! Lists the Service ports of one ruleset.

use std::mem::ManuallyDrop;

use super::document::ListDocument;
use super::{counters, notes, rows, table};
use crate::cli::arguments::RuleSettings;
use crate::cli::exit::ErrorReport;
use crate::cli::snapshot::{self, RuleOrigin, RuleSnapshot};
use crate::cli::terminal::{self, Progress};
use crate::config::{ServicesArgs, ServicesOutput};
use crate::inspect::catalog::PortQuery;
use crate::status::ServiceCondition;

/// Prints the service ports that the flags select.
pub(super) fn list(args: &ServicesArgs, report: &ErrorReport) -> anyhow::Result<()> {
    terminal::install_quiet_log()?;
    let settings = RuleSettings::read(&args.origin.desired)?;
    let query = query(args, &settings)?;
    // The process ends after this: freeing each rule and row of a large cluster takes part of a
    // second.
    let snapshot = ManuallyDrop::new(RuleSnapshot::load(&args.origin, &settings, report)?);
    let absence = snapshot.absence();
    if let Some(absence) = &absence {
        tracing::warn!("{absence}");
    }
    let progress = Progress::start("reading Services from the rules");
    let (rows, findings) = rows::rows(&snapshot);
    let named = rows::check(&query, &rows, &findings);
    let mut rows = ManuallyDrop::new(rows::selected(rows, &query));
    drop(progress);
    if args.counters {
        counters::add(&mut rows, &snapshot, args, &settings)?;
    }
    // Without a proxy in this mode nothing is missing.
    if absence.is_none() {
        notes::print(&notes::note(&findings, &query, args.output));
    }
    notes::print(&notes::quarantine_note(&snapshot.quarantined));
    let summary = notes::summary(&snapshot.origin, &query, &rows, findings.all_unknown());
    let count = rows.len();
    let unlisted = rows::unlisted_problems(&rows, &findings, &query);
    if args.problems {
        rows.retain(|row| row.status() != ServiceCondition::Ok);
    }
    let has_problems = !rows.is_empty() || unlisted > 0 || absence.is_some();
    terminal::stdout(|out| match args.output {
        output @ (ServicesOutput::Json | ServicesOutput::Yaml) => {
            ListDocument::new(&snapshot, &rows, &findings, &query).write(out, output)
        }
        ServicesOutput::Name => Ok(table::write_names(out, &rows)?),
        ServicesOutput::Table | ServicesOutput::Wide if args.counters => {
            let is_wide = args.output == ServicesOutput::Wide;
            Ok(counters::write(out, &rows, is_wide, !args.no_headers)?)
        }
        ServicesOutput::Table | ServicesOutput::Wide => {
            rows.sort_by_key(|row| row.status() == ServiceCondition::Ok);
            let is_wide = args.output == ServicesOutput::Wide;
            let columns = table::columns(is_wide, snapshot.service_types.is_some());
            Ok(table::write(out, &columns, &rows, !args.no_headers)?)
        }
    })?;
    // Known names are listed in spite of unknown ones.
    named?;
    let more = match unlisted {
        0 => "",
        _ => "; see the notes",
    };
    anyhow::ensure!(!args.problems || !has_problems, "{summary}{more}");
    if absence.is_none() && (count == 0 || args.output.is_table()) {
        notes::print(&format!("{summary}\n"));
        if args.counters {
            notes::print(&counters::note(&rows));
        }
        if let (RuleOrigin::Live(_), 0, true) = (&snapshot.origin, count, query.is_all()) {
            notes::print(notes::NO_PORTS);
        }
    }
    Ok(())
}

/// Returns the query that the flags make up. Rules have no labels: the API server is asked for the
/// names of the Services.
///
/// # Errors
///
/// A name has another namespace, or no Service has the labels.
pub(super) fn query(args: &ServicesArgs, settings: &RuleSettings<'_>) -> anyhow::Result<PortQuery> {
    let Some(labels) = &args.labels else {
        return Ok(args.selection.query()?);
    };
    let options = settings.api_options()?;
    let namespace = args.selection.namespace.name.as_deref();
    let names = snapshot::names_with_labels(&options, labels, namespace)?;
    Ok(PortQuery::new(&names, None)?)
}
