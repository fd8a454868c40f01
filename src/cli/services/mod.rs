//! `services`: lists the Service ports that rules are programmed for, as a table or a document.

mod document;
mod notes;
mod rows;
mod table;
mod watch;

use std::io::{self, Write};

use super::snapshot::{RuleOrigin, RuleSnapshot, missing};
use super::{completions, terminal};
use crate::config::{ServicesArgs, ServicesOutput};
use rows::RowFilter;
use table::ServiceTable;

/// Prints one line for each service port.
pub(super) fn services(args: &ServicesArgs) -> anyhow::Result<()> {
    let filter = RowFilter::new(args)?;
    terminal::install_quiet_log()?;
    if args.watch && args.names.only.is_none() {
        return watch::watch(args, &filter);
    }
    let snapshot = RuleSnapshot::load(&args.origin)?;
    if let Some(kind) = args.names.only {
        return completions::names(&snapshot, kind, args.which.namespace.as_deref());
    }
    let (rows, findings) = rows::rows(&snapshot);
    let named = filter.check(&rows, &findings);
    let rows = filter.selected(rows, &snapshot.node_addresses);
    if rows.is_empty() && named.is_ok() {
        print_empty(&snapshot.origin, &filter);
    }
    print_stderr(&notes::note(&findings, &filter, args.output));
    print_stderr(&notes::quarantine_note(&snapshot.origin));
    terminal::stdout(|out| match args.output {
        ServicesOutput::Json => document::write_json(out, &rows, &findings, &filter),
        ServicesOutput::Yaml => document::write_yaml(out, &rows, &findings, &filter),
        ServicesOutput::Table | ServicesOutput::Wide => {
            let columns = table::columns(args.output == ServicesOutput::Wide);
            let mut table = ServiceTable::new(&[], columns);
            for row in &rows {
                table.add(&[], row);
            }
            Ok(table.write(out, !args.no_headers)?)
        }
    })?;
    // Known names are listed in spite of unknown ones.
    missing::explained(named, || missing::services_of_origin(&args.origin))
}

/// Explains an empty list on stderr; it is not a failure.
fn print_empty(origin: &RuleOrigin, filter: &RowFilter) {
    let is_filtered = !filter.is_all();
    let which = if is_filtered { "such " } else { "" };
    let place = match origin {
        RuleOrigin::Live(backend) => format!("the kernel's rules ({backend})"),
        RuleOrigin::Saved(paths) => {
            let paths = paths.iter().map(|path| format!("`{}`", path.display()));
            paths.collect::<Vec<_>>().join(", ")
        }
        RuleOrigin::Desired => "the desired rules".to_owned(),
    };
    let mut text = format!("no {which}service ports in {place}\n");
    if let (RuleOrigin::Live(_), false) = (origin, is_filtered) {
        text.push_str(
            "hint: check that a kube-proxy in mode iptables runs here, with this backend\n",
        );
    }
    print_stderr(&text);
}

fn print_stderr(text: &str) {
    // Without stderr the text is lost, which is no reason to fail.
    let _ = io::stderr().write_all(text.as_bytes());
}
