//! `services --counters`: connections to service ports, and how they spread over the endpoints.
//!
//! A counter begins at 0 when its rule is written. Restores leave rules of frontends alone whose
//! Services did not change, so these go back far. A jump to an endpoint is written again whenever
//! the endpoints of its Service change: its counters show the shares since then.

use std::io::{self, Write};

use jiff::Timestamp;

use super::rows::Row;
use super::table::{name, write_lines};
use crate::cli::arguments::RuleSettings;
use crate::cli::snapshot::{PortCounters, RuleCounters, RuleOrigin, RuleSnapshot};
use crate::cli::status::StatusPage;
use crate::config::ServicesArgs;
use crate::inspect::catalog::EndpointView;
use crate::net::PerFamily;
use crate::rules::Share;

/// Adds counters to rows: those of the dumps, or else of the kernel.
pub(super) fn add(
    rows: &mut [Row],
    snapshot: &RuleSnapshot,
    args: &ServicesArgs,
    settings: &RuleSettings<'_>,
) -> anyhow::Result<()> {
    let read;
    let (counters, last_full_syncs) = if let RuleOrigin::Saved(_) = snapshot.origin {
        let mut counters = snapshot.counters.pairs();
        anyhow::ensure!(
            rows.is_empty() || counters.any(|(_, counters)| !counters.is_empty()),
            "{} has no counters\nhint: save with `iptables-save -c`",
            snapshot.origin
        );
        (&snapshot.counters, PerFamily::default())
    } else {
        read = RuleCounters::read_kernel(settings.rendering()?.backend)?;
        (&read, last_full_syncs(args, settings))
    };
    for row in rows {
        let views = row.views.as_ref();
        row.counters = views.map(|family, view| {
            let last_full_sync = *last_full_syncs.get(family);
            let view = view.as_ref()?;
            Some(counters.get(family).of_port(view, last_full_sync))
        });
    }
    Ok(())
}

/// Asks the daemon for its last full sync of each family.
fn last_full_syncs(
    args: &ServicesArgs,
    settings: &RuleSettings<'_>,
) -> PerFamily<Option<Timestamp>> {
    let address = settings.daemon(&args.origin.daemon).ok().flatten();
    let page = address.and_then(|address| StatusPage::get(address).ok());
    let families = page.map_or_else(Vec::new, |page| page.document.families);
    PerFamily::from_fn(|family| {
        let mut families = families.iter();
        let status = families.find(|status| status.family == family.as_str())?;
        status.last_full.as_ref().map(|sync| sync.at)
    })
}

const COLUMNS: &[&str] = &["NAMESPACE", "NAME", "CONNECTIONS"];

const WIDE: &[&str] = &["ENDPOINT", "SENT", "SHARE", "EXPECTED"];

/// Cell of a column that a line has nothing for.
const NOTHING: &str = "-";

/// Writes a line for each row, or in the wide form for each of its endpoints.
pub(super) fn write(
    out: &mut dyn Write,
    rows: &[Row],
    is_wide: bool,
    has_headings: bool,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let headings = [COLUMNS, if is_wide { WIDE } else { &[] }].concat();
    let lines = rows.iter().flat_map(|row| {
        if is_wide {
            wide_lines(row)
        } else {
            vec![first_cells(row)]
        }
    });
    write_lines(out, &headings, lines.collect(), has_headings)
}

fn counters(row: &Row) -> impl Iterator<Item = &PortCounters> {
    let counters = row.counters.pairs();
    counters.filter_map(|(_, counters)| counters.as_ref())
}

fn first_cells(row: &Row) -> Vec<String> {
    let connections = counters(row).filter_map(|one| one.connections);
    let connections = connections.reduce(|one, other| one + other);
    vec![
        row.name.namespace().to_owned(),
        name(row),
        number(connections),
    ]
}

fn wide_lines(row: &Row) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for (family, view) in row.views() {
        let Some(counters) = row.counters.get(family) else {
            continue;
        };
        for (index, endpoint) in view.endpoints.iter().enumerate() {
            let sent = counters.endpoints.get(index).copied().flatten();
            let mut line = first_cells(row);
            line.extend([
                endpoint.address.to_string(),
                number(sent),
                percent(counters.observed_ratio(index)),
                percent(expected(endpoint)),
            ]);
            lines.push(line);
        }
    }
    if lines.is_empty() {
        let mut line = first_cells(row);
        line.extend(WIDE.iter().map(|_| NOTHING.to_owned()));
        lines.push(line);
    }
    lines
}

/// Returns the share by the rules. Under both policies, that of policy Cluster.
fn expected(endpoint: &EndpointView) -> Option<f64> {
    endpoint.cluster.or(endpoint.local).map(Share::ratio)
}

fn number(count: Option<u64>) -> String {
    count.map_or_else(|| NOTHING.to_owned(), |count| count.to_string())
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(
        || NOTHING.to_owned(),
        |ratio| format!("{:.1}%", ratio * 100.0),
    )
}

/// Returns a sentence on the time since which connections are counted.
pub(super) fn note(rows: &[Row]) -> String {
    let last = rows.iter().flat_map(counters);
    let last = last.filter_map(|counters| counters.last_full_sync).max();
    let last = last.map_or(String::new(), |at| {
        format!(", all of them with the last full sync at {at:.0}")
    });
    format!("a rule counts since it was last written{last}\n")
}
