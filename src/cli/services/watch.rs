//! `--watch`: prints all rows, then those that change.
//!
//! Rules are read repeatedly and compared, because netfilter does not report changes with both
//! backends. A table has one row for both families, a document an entry for each: a change in one
//! family is not a change of the other.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use jiff::Timestamp;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use tracing::subscriber::{NoSubscriber, with_default};

use super::rows::{self, Row, RowFilter};
use super::table::{self, ServiceTable};
use super::{document, notes};
use crate::cli::exit::ErrorReport;
use crate::cli::snapshot::{RuleSnapshot, TypeSource};
use crate::cli::terminal;
use crate::config::{ServicesArgs, ServicesOutput, Unusable};
use crate::inspect::catalog::{NoMatches, PortName, PortView};
use crate::net::IpFamily;

/// Prints changes until the reader closes the output.
pub(super) fn watch(
    args: &ServicesArgs,
    filter: &RowFilter,
    report: &ErrorReport,
) -> anyhow::Result<()> {
    let interval = interval(args)?;
    let snapshot = RuleSnapshot::load(&args.origin, report)?;
    if let Some(absence) = snapshot.absence() {
        notes::print(&format!("warning: {absence}\n"));
    }
    let (all, findings) = rows::rows(&snapshot);
    // A missing name may appear later.
    if let Err(NoMatches(names)) = filter.check(&all, &findings) {
        for name in names {
            notes::print(&format!("warning: {name}\n"));
        }
    }
    let mut known = filter.selected(all, &snapshot.node_addresses);
    if known.is_empty() {
        notes::print_empty(&snapshot.origin, filter, findings.all_unknown());
    }
    let mut printer = Printer::new(args, snapshot.type_source());
    drop(snapshot);
    printer.write(&RowChanges::new(&[], &known))?;
    let mut note = LastMessage::default();
    note.print(notes::note(&findings, filter, args.output));
    let mut error_message = LastMessage::default();
    while !is_reader_gone(interval)? {
        // Warnings of objects were logged the first time.
        let load = || RuleSnapshot::load(&args.origin, report);
        match with_default(NoSubscriber::default(), load) {
            Ok(snapshot) => {
                let (rows, findings) = rows::rows(&snapshot);
                let rows = filter.selected(rows, &snapshot.node_addresses);
                printer.write(&RowChanges::new(&known, &rows))?;
                known = rows;
                note.print(notes::note(&findings, filter, args.output));
                error_message = LastMessage::default();
            }
            // The lock may be taken or a file half written: the last rows stay valid.
            Err(error) => error_message.print(format!("error: {error:#}\n")),
        }
    }
    Ok(())
}

fn interval(args: &ServicesArgs) -> Result<PollTimeout, Unusable> {
    let unusable = |flag, problem: &str| Unusable::of_flag(flag, problem.to_owned());
    let stdin = Some(Path::new("-"));
    if args.origin.source.manifests.as_deref() == stdin {
        return Err(unusable("watch", "stdin can be read only once"));
    }
    let interval = args.interval.to_std().filter(|time| !time.is_zero());
    interval
        .and_then(|interval| PollTimeout::try_from(interval).ok())
        .ok_or_else(|| unusable("interval", "must be more than 0, and less than 24 days"))
}

/// Last message of a kind on stderr, which is not repeated.
#[derive(Debug, Default)]
struct LastMessage(String);

impl LastMessage {
    fn print(&mut self, text: String) {
        if text != self.0 {
            notes::print(&text);
            self.0 = text;
        }
    }
}

/// Waits for the interval, and reports whether the reader closed the output meanwhile, which would
/// go unnoticed as long as there is nothing to write.
fn is_reader_gone(interval: PollTimeout) -> anyhow::Result<bool> {
    let stdout = io::stdout();
    let mut reader = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    match poll(&mut reader, interval) {
        Ok(count) => Ok(count > 0),
        // The process was stopped and continued, for example: an early read does no harm.
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Change of a service port in one family: a line of JSON, or a document of a YAML stream. Fields
/// may be added.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "deltaproxy services --watch --output json"))]
#[serde(rename_all = "camelCase")]
struct ChangeDocument<'a> {
    /// Kind of the change. Service ports that exist at the start are ADDED.
    event: RowEvent,
    /// Service port after the change; its last state if it is GONE.
    service_port: document::PortDocument<'a>,
}

/// Width of a time of RFC 3339 with seconds.
const TIME_WIDTH: usize = "2006-01-02T15:04:05Z".len();

/// Width of the longest event; the first rows, which are all added, leave space for it.
const EVENT_WIDTH: usize = RowEvent::Changed.as_str().len();

struct Printer {
    output: ServicesOutput,
    table: ServiceTable,
    has_headings: bool,
}

impl Printer {
    fn new(args: &ServicesArgs, types: TypeSource) -> Self {
        let columns = table::columns(args.output == ServicesOutput::Wide, types);
        Self {
            output: args.output,
            table: ServiceTable::new(&[("TIME", TIME_WIDTH), ("EVENT", EVENT_WIDTH)], columns),
            has_headings: !args.no_headers,
        }
    }

    fn write(&mut self, changes: &RowChanges<'_>) -> anyhow::Result<()> {
        if changes.rows().next().is_none() {
            return Ok(());
        }
        terminal::stdout(|out| match self.output {
            ServicesOutput::Table | ServicesOutput::Wide => {
                let time = format!("{:.0}", Timestamp::now());
                for (event, row) in changes.rows() {
                    self.table.add(&[&time, event.as_str()], row);
                }
                let has_headings = std::mem::take(&mut self.has_headings);
                Ok(self.table.write(out, has_headings)?)
            }
            ServicesOutput::Json => each_line(changes, |line| {
                serde_json::to_writer(&mut *out, line)?;
                Ok(writeln!(out)?)
            }),
            ServicesOutput::Yaml => each_line(changes, |line| {
                let text = serde_saphyr::to_string(line)?;
                Ok(write!(out, "---\n{text}")?)
            }),
        })
    }
}

fn each_line(
    changes: &RowChanges<'_>,
    mut write: impl FnMut(&ChangeDocument<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    changes
        .entries()
        .try_for_each(|(event, row, family, view)| {
            write(&ChangeDocument {
                event,
                service_port: document::port_document(row, family, view),
            })
        })
}

/// Change of a service port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
enum RowEvent {
    Added,
    Changed,
    Gone,
}

impl RowEvent {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Changed => "CHANGED",
            Self::Gone => "GONE",
        }
    }

    /// Compares two states. Returns the event and the last known state; `None` if both are equal.
    fn between<T: PartialEq>(before: Option<T>, after: Option<T>) -> Option<(Self, T)> {
        match (before, after) {
            (None, Some(new)) => Some((Self::Added, new)),
            (Some(old), Some(new)) if old != new => Some((Self::Changed, new)),
            (Some(old), None) => Some((Self::Gone, old)),
            (Some(_), Some(_)) | (None, None) => None,
        }
    }
}

/// Service ports of two reads, in order; those that are gone come last.
struct RowChanges<'a>(Vec<(Option<&'a Row>, Option<&'a Row>)>);

impl<'a> RowChanges<'a> {
    fn new(before: &'a [Row], after: &'a [Row]) -> Self {
        let known = before.iter().map(|row| (&row.name, row));
        let mut known: BTreeMap<&PortName, &Row> = known.collect();
        let still = after.iter().map(|row| (known.remove(&row.name), Some(row)));
        let mut pairs: Vec<_> = still.collect();
        let gone = before.iter().filter(|row| known.contains_key(&row.name));
        pairs.extend(gone.map(|row| (Some(row), None)));
        Self(pairs)
    }

    /// Returns the rows that differ in any family.
    fn rows(&self) -> impl Iterator<Item = (RowEvent, &'a Row)> {
        let pairs = self.0.iter();
        pairs.filter_map(|(before, after)| RowEvent::between(*before, *after))
    }

    /// Returns the families of rows that differ.
    fn entries(&self) -> impl Iterator<Item = (RowEvent, &'a Row, IpFamily, &'a PortView)> {
        self.0.iter().flat_map(|(before, after)| {
            let row = after.or(*before);
            let of = |row: Option<&'a Row>, family| row.and_then(|row| row.view(family));
            let families = IpFamily::ALL.into_iter();
            families.filter_map(move |family| {
                let (event, view) = RowEvent::between(of(*before, family), of(*after, family))?;
                Some((event, row?, family, view))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    use crate::net::PerFamily;

    /// Returns a row with numbers of rules of each family; with 0, the family does not have it.
    fn row(name: &str, v4: usize, v6: usize) -> Row {
        let (name, protocol) = (name.into(), "tcp".into());
        let view = |rules| {
            (rules > 0).then(|| PortView {
                rules,
                ..PortView::default()
            })
        };
        Row {
            name: PortName { name, protocol },
            views: PerFamily {
                v4: view(v4),
                v6: view(v6),
            },
            declared_type: None,
            unreadable_frontends: 0,
            families_without_nat: BTreeSet::new(),
        }
    }

    #[test]
    fn the_schema_of_a_change_is_recorded() {
        crate::schema::assert_recorded::<ChangeDocument<'_>>("services-watch");
    }

    #[test]
    fn only_different_rows_are_changes() {
        let before = [row("a/a", 1, 0), row("a/b", 1, 0), row("a/d", 1, 0)];
        let after = [row("a/a", 1, 0), row("a/b", 2, 0), row("a/c", 1, 0)];
        let changes = RowChanges::new(&before, &after);
        let shown = changes.rows().map(|(event, row)| (event, &*row.name.name));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                (RowEvent::Changed, "a/b"),
                (RowEvent::Added, "a/c"),
                (RowEvent::Gone, "a/d"),
            ]
        );
    }

    /// Checks the events of a row by the numbers of rules of its families.
    #[track_caller]
    fn check(before: [usize; 2], after: [usize; 2], expected: &[(RowEvent, IpFamily)]) {
        let rows = |[v4, v6]: [usize; 2]| {
            let row = (v4 + v6 > 0).then(|| row("a/a", v4, v6));
            Vec::from_iter(row)
        };
        let (before, after) = (rows(before), rows(after));
        let changes = RowChanges::new(&before, &after);
        let entries = changes.entries();
        let found = entries.map(|(event, _, family, _)| (event, family));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn families_change_independently() {
        let (v4, v6) = (IpFamily::V4, IpFamily::V6);
        check([1, 1], [1, 1], &[]);
        check([1, 1], [2, 1], &[(RowEvent::Changed, v4)]);
        check([1, 1], [1, 0], &[(RowEvent::Gone, v6)]);
        check([0, 1], [1, 1], &[(RowEvent::Added, v4)]);
        check(
            [1, 0],
            [0, 1],
            &[(RowEvent::Gone, v4), (RowEvent::Added, v6)],
        );
        check(
            [1, 1],
            [0, 0],
            &[(RowEvent::Gone, v4), (RowEvent::Gone, v6)],
        );
    }
}
