//! Services that `services` lists: those of names, of a namespace, or with labels.

use crate::cli::arguments::RuleSettings;
use crate::cli::snapshot;
use crate::config::ServicesArgs;
use crate::inspect::catalog::PortQuery;

/// Returns the query that the flags make up. Rules have no labels: the API server is asked for the
/// names of the Services.
///
/// # Errors
///
/// A name has another namespace, or no Service has the labels.
pub(super) fn read(args: &ServicesArgs, settings: &RuleSettings<'_>) -> anyhow::Result<PortQuery> {
    let Some(labels) = &args.labels else {
        return Ok(args.selection.query()?);
    };
    let options = settings.api_options()?;
    let namespace = args.selection.namespace.name.as_deref();
    let names = snapshot::names_with_labels(&options, labels, namespace)?;
    Ok(PortQuery::new(&names, None)?)
}
