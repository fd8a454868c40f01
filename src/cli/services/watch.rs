//! `--watch`: all rows, then those that change.
//!
//! Apart because only here rules are read again and again. They are compared, not listened to:
//! netfilter tells nobody when rules change, at least not with both backends.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use jiff::Timestamp;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use tracing::subscriber::{NoSubscriber, with_default};

use super::filter::Filter;
use super::row::{self, Row};
use super::table::{self, Table};
use super::{document, say, say_empty};
use crate::catalog::PortName;
use crate::cli::output;
use crate::cli::snapshot::Snapshot;
use crate::config::{ServicesArgs, ServicesOutput, Unusable};

/// Goes on until nobody reads any more.
pub(super) fn watch(args: &ServicesArgs, filter: &Filter) -> anyhow::Result<()> {
    let interval = interval(args)?;
    let snapshot = Snapshot::load(&args.origin)?;
    let (all, beside) = row::rows(&snapshot);
    // What is not there may come.
    if let Err(missing) = filter.check(&all) {
        say(&format!("warning: {missing}\n"));
    }
    let mut known = filter.chosen(all, &snapshot.node_addresses);
    if known.is_empty() {
        say_empty(&snapshot.origin, filter);
    }
    drop(snapshot);
    let mut printer = Printer::new(args);
    printer.write(&changes(&[], &known))?;
    let mut note = Said::default();
    note.say(beside.note(filter, args.output));
    let mut complaint = Said::default();
    while !is_reader_gone(interval)? {
        // What there is to say of objects was said the first time.
        let load = || Snapshot::load(&args.origin);
        match with_default(NoSubscriber::default(), load) {
            Ok(snapshot) => {
                let (rows, beside) = row::rows(&snapshot);
                let rows = filter.chosen(rows, &snapshot.node_addresses);
                printer.write(&changes(&known, &rows))?;
                known = rows;
                note.say(beside.note(filter, args.output));
                complaint = Said::default();
            }
            // A lock that is taken, a file half written: what was true is still the best to know.
            Err(error) => complaint.say(format!("error: {error:#}\n")),
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

/// What was said last on stderr, and is not said again.
#[derive(Debug, Default)]
struct Said(String);

impl Said {
    fn say(&mut self, text: String) {
        if text != self.0 {
            say(&text);
            self.0 = text;
        }
    }
}

/// Waits. Whoever does not read any more is noticed although there is nothing to write.
fn is_reader_gone(interval: PollTimeout) -> anyhow::Result<bool> {
    let stdout = io::stdout();
    let mut reader = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    match poll(&mut reader, interval) {
        Ok(count) => Ok(count > 0),
        // Stopped and continued, for example: a look too early does no harm.
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Event {
    Added,
    Changed,
    Gone,
}

impl Event {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Changed => "CHANGED",
            Self::Gone => "GONE",
        }
    }
}

/// The rows that differ, in their order; those that are gone, as they were, come last.
fn changes<'a>(before: &'a [Row], after: &'a [Row]) -> Vec<(Event, &'a Row)> {
    let known = before.iter().map(|row| (&row.name, row));
    let mut known: BTreeMap<&PortName, &Row> = known.collect();
    let mut changes = Vec::new();
    for row in after {
        match known.remove(&row.name) {
            None => changes.push((Event::Added, row)),
            Some(was) if was != row => changes.push((Event::Changed, row)),
            Some(_) => {}
        }
    }
    let is_gone = |row: &&Row| known.contains_key(&row.name);
    changes.extend(before.iter().filter(is_gone).map(|row| (Event::Gone, row)));
    changes
}

/// One change as a document: a line of JSON, or a part of a YAML stream.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    event: Event,
    service_port: document::Entry<'a>,
}

/// As RFC 3339 has it, in seconds.
const TIME_WIDTH: usize = "2006-01-02T15:04:05Z".len();

/// What comes later should begin below what was there at first, which was only added.
const EVENT_WIDTH: usize = Event::Changed.as_str().len();

struct Printer {
    output: ServicesOutput,
    table: Table,
    has_headings: bool,
}

impl Printer {
    fn new(args: &ServicesArgs) -> Self {
        let columns = table::columns(args.output == ServicesOutput::Wide);
        Self {
            output: args.output,
            table: Table::new(&[("TIME", TIME_WIDTH), ("EVENT", EVENT_WIDTH)], columns),
            has_headings: !args.no_headers,
        }
    }

    fn write(&mut self, changes: &[(Event, &Row)]) -> anyhow::Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        output::stdout(|out| match self.output {
            ServicesOutput::Table | ServicesOutput::Wide => {
                let time = format!("{:.0}", Timestamp::now());
                for (event, row) in changes {
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
    changes: &[(Event, &Row)],
    mut write: impl FnMut(&Line<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for (event, row) in changes {
        for service_port in document::entries(row) {
            write(&Line {
                event: *event,
                service_port,
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::PortView;
    use crate::net::PerFamily;

    fn row(name: &str, rules: usize) -> Row {
        let (name, protocol) = (name.into(), "tcp".into());
        let mut views = PerFamily::<Option<PortView>>::default();
        *views.get_mut(crate::net::IpFamily::V4) = Some(PortView {
            rules,
            ..PortView::default()
        });
        Row {
            name: PortName { name, protocol },
            views,
        }
    }

    #[test]
    fn only_what_differs_is_a_change() {
        let before = [row("a/a", 1), row("a/b", 1), row("a/d", 1)];
        let after = [row("a/a", 1), row("a/b", 2), row("a/c", 1)];
        let changes = changes(&before, &after);
        let shown = changes.iter().map(|(event, row)| (*event, &*row.name.name));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                (Event::Changed, "a/b"),
                (Event::Added, "a/c"),
                (Event::Gone, "a/d"),
            ]
        );
    }
}
