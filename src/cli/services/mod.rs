//! `services`: what rules say of Services, as a table or a document.
//!
//! Apart because it knows how that looks, and [`catalog`](crate::inspect::catalog) what is in it.

mod beside;
mod changes;
mod document;
mod filter;
mod quarantined;
mod row;
mod table;
mod watch;

use std::io::{self, Write};

use super::snapshot::{Origin, Snapshot, unruled};
use super::{log, names, output};
use crate::config::{ServicesArgs, ServicesOutput};
use filter::Filter;
use table::Table;

/// Prints one line for each service port.
pub(super) fn services(args: &ServicesArgs) -> anyhow::Result<()> {
    let filter = Filter::new(args)?;
    log::install_quiet()?;
    if args.watch && args.names.only.is_none() {
        return watch::watch(args, &filter);
    }
    let snapshot = Snapshot::load(&args.origin)?;
    if let Some(what) = args.names.only {
        return names::print(&snapshot, what, args.which.namespace.as_deref());
    }
    let (rows, beside) = row::rows(&snapshot);
    let named = filter.check(&rows, &beside);
    let rows = filter.chosen(rows, &snapshot.node_addresses);
    if rows.is_empty() && named.is_ok() {
        say_empty(&snapshot.origin, &filter);
    }
    say(&beside.note(&filter, args.output));
    say(&quarantined::note(&snapshot.origin));
    output::stdout(|out| match args.output {
        ServicesOutput::Json => document::write_json(out, &rows, &beside, &filter),
        ServicesOutput::Yaml => document::write_yaml(out, &rows, &beside, &filter),
        ServicesOutput::Table | ServicesOutput::Wide => {
            let columns = table::columns(args.output == ServicesOutput::Wide);
            let mut table = Table::new(&[], columns);
            for row in &rows {
                table.add(&[], row);
            }
            Ok(table.write(out, !args.no_headers)?)
        }
    })?;
    // What was found is worth seeing, whatever else was typed.
    unruled::told(named, || unruled::of_origin(&args.origin))
}

/// Nothing found is not a failure, but whoever looks at an empty screen should know why.
fn say_empty(origin: &Origin, filter: &Filter) {
    let is_filtered = !filter.is_all();
    let which = if is_filtered { "such " } else { "" };
    let place = match origin {
        Origin::Live(backend) => format!("the kernel's rules ({backend})"),
        Origin::Saved(paths) => {
            let paths = paths.iter().map(|path| format!("`{}`", path.display()));
            paths.collect::<Vec<_>>().join(", ")
        }
        Origin::Desired => "the rules that would be written".to_owned(),
    };
    let mut text = format!("no {which}service ports in {place}\n");
    if let (Origin::Live(_), false) = (origin, is_filtered) {
        text.push_str("hint: does a kube-proxy in mode iptables run here, with this backend?\n");
    }
    say(&text);
}

fn say(text: &str) {
    // If stderr is gone, nobody waits for an explanation.
    let _ = io::stderr().write_all(text.as_bytes());
}
