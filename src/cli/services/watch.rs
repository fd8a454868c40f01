//! `--watch`: all rows, then those that change.
//!
//! Apart because only here rules are read again and again. They are compared, not listened to:
//! netfilter tells nobody when rules change, at least not with both backends.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use jiff::Timestamp;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use tracing::subscriber::{NoSubscriber, with_default};

use super::changes::{Changes, Event};
use super::filter::Filter;
use super::row;
use super::table::{self, Table};
use super::{document, say, say_empty};
use crate::cli::output;
use crate::cli::snapshot::Snapshot;
use crate::config::{ServicesArgs, ServicesOutput, Unusable};
use crate::inspect::catalog::NoMatches;

/// Goes on until nobody reads any more.
pub(super) fn watch(args: &ServicesArgs, filter: &Filter) -> anyhow::Result<()> {
    let interval = interval(args)?;
    let snapshot = Snapshot::load(&args.origin)?;
    let (all, beside) = row::rows(&snapshot);
    // What is not there may come.
    if let Err(NoMatches(names)) = filter.check(&all, &beside) {
        for name in names {
            say(&format!("warning: {name}\n"));
        }
    }
    let mut known = filter.chosen(all, &snapshot.node_addresses);
    if known.is_empty() {
        say_empty(&snapshot.origin, filter);
    }
    drop(snapshot);
    let mut printer = Printer::new(args);
    printer.write(&Changes::new(&[], &known))?;
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
                printer.write(&Changes::new(&known, &rows))?;
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

    fn write(&mut self, changes: &Changes<'_>) -> anyhow::Result<()> {
        if changes.rows().next().is_none() {
            return Ok(());
        }
        output::stdout(|out| match self.output {
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
    changes: &Changes<'_>,
    mut write: impl FnMut(&Line<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    changes
        .entries()
        .try_for_each(|(event, name, family, view)| {
            write(&Line {
                event,
                service_port: document::entry(name, family, view),
            })
        })
}
