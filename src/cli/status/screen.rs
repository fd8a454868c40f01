//! Text of `status`: problems first, then the process, the families side by side, and lists.

use std::fmt::{self, Write as _};

use jiff::Timestamp;

use crate::status::{FamilyStatus, Problem, StatusDocument, SyncRecord, age, bytes, milliseconds};
use crate::text::counted;

/// Maximum columns of a line.
const WIDTH: usize = 110;

/// Columns of labels.
const LABEL: usize = 16;

/// Columns of one of two families.
const CELL: usize = (WIDTH - LABEL) / 2;

/// Renders the state.
pub(super) fn text(status: &StatusDocument) -> String {
    let mut screen = Screen::default();
    // Writing to a String cannot fail.
    let _ = screen.write(status);
    screen.0
}

#[derive(Default)]
struct Screen(String);

impl Screen {
    fn write(&mut self, status: &StatusDocument) -> fmt::Result {
        let failures = status.problems.iter().filter(|one| one.is_failure).count();
        let findings = status.problems.len() - failures;
        let verdict = match (failures, findings) {
            (0, 0) => "well".to_owned(),
            (0, findings) => format!("degraded: {}", counted(findings, "finding")),
            (failures, 0) => format!("degraded: {}", counted(failures, "failure")),
            (failures, findings) => format!(
                "degraded: {}, {}",
                counted(failures, "failure"),
                counted(findings, "finding")
            ),
        };
        let node = if status.node.is_empty() {
            "this node"
        } else {
            &status.node
        };
        writeln!(self.0, "{node}: {verdict}")?;
        for problem in &status.problems {
            self.problem(problem)?;
        }
        writeln!(self.0)?;
        self.process(status)?;
        writeln!(self.0)?;
        self.families(status)?;
        self.lists(status)
    }

    fn problem(&mut self, problem: &Problem) -> fmt::Result {
        let kind = if problem.is_failure {
            "FAILURE"
        } else {
            "finding"
        };
        self.paragraph(&format!("{kind}  "), &problem.summary)?;
        if problem.hint.is_empty() {
            return Ok(());
        }
        self.paragraph("         ", &format!("hint: {}", problem.hint))
    }

    fn process(&mut self, status: &StatusDocument) -> fmt::Result {
        let now = status.observed_at;
        self.row("deltaproxy", &status.version)?;
        let uptime = known(status.started_at).map_or_else(
            || "unknown".to_owned(),
            |started| format!("{}, since {started:.0}", age(started, now)),
        );
        self.row("uptime", &uptime)?;
        let watches = status.watches.iter().map(|watch| {
            let seconds = watch.age_seconds;
            format!("{} {seconds:.0} s ago", watch.kind)
        });
        self.row("last events", &listed(watches))?;
        if let Some(conntrack) = &status.conntrack {
            let (entries, max) = (conntrack.entries, conntrack.max);
            let percent = (entries * 100).checked_div(max).unwrap_or_default();
            let fill = format!("{entries} of {max} entries, {percent} %");
            self.row("conntrack", &fill)?;
        }
        let configuration = match status {
            _ if status.configuration_invalid => "the file is invalid; running with the last one",
            _ if status.configuration_changed => "the file has changed since the start",
            _ if !status.unknown_settings.is_empty() => "has unknown settings",
            _ => "as at the start",
        };
        self.row("configuration", configuration)
    }

    fn families(&mut self, status: &StatusDocument) -> fmt::Result {
        self.cells(status, "", |family| family.family.clone())?;
        let now = status.observed_at;
        for (label, text) in ROWS {
            self.cells(status, label, |family| match *label {
                "backend" if family.is_disabled => "disabled".to_owned(),
                _ if family.is_disabled => String::new(),
                _ => text(family, now),
            })?;
        }
        Ok(())
    }

    /// Writes a row with a cell of each family.
    fn cells(
        &mut self,
        status: &StatusDocument,
        label: &str,
        cell: impl Fn(&FamilyStatus) -> String,
    ) -> fmt::Result {
        let mut line = format!("{label:LABEL$}");
        for family in &status.families {
            let text = cell(family);
            let text: String = if text.chars().count() < CELL {
                text
            } else {
                text.chars().take(CELL - 4).chain("...".chars()).collect()
            };
            write!(line, "{text:CELL$}")?;
        }
        writeln!(self.0, "{}", line.trim_end())
    }

    /// Writes what has no room in cells.
    fn lists(&mut self, status: &StatusDocument) -> fmt::Result {
        let now = status.observed_at;
        let mut gap = "\n";
        for family in &status.families {
            let mut entries: Vec<(&str, String)> = Vec::new();
            if let Some(failure) = &family.last_failure {
                entries.push((
                    "failed restore",
                    format!(
                        "{} ago, {}: {}; {}",
                        age(failure.at, now),
                        failure.scope,
                        failure.error,
                        failure.consequence
                    ),
                ));
            }
            for one in &family.quarantined {
                let text = format!("{}: {}; {}", one.service, one.error, one.consequence);
                entries.push(("quarantine", text));
            }
            for drift in &family.drift {
                let program = match drift.program.as_str() {
                    "" => "an unknown program",
                    program => program,
                };
                let chains = counted(drift.chains, "chain");
                let text = format!(
                    "{} ago, by {program}, {chains}: {}",
                    age(drift.at, now),
                    drift.names
                );
                entries.push(("changed rules", text));
            }
            let conflicts = family.conflicts.iter();
            entries.extend(conflicts.map(|conflict| ("conflict", conflict.to_string())));
            for (label, text) in entries {
                self.0.push_str(std::mem::take(&mut gap));
                self.paragraph(&format!("{} {label}: ", family.family), &text)?;
            }
        }
        Ok(())
    }

    fn row(&mut self, label: &str, text: &str) -> fmt::Result {
        self.paragraph(&format!("{label:LABEL$}"), text)
    }

    /// Writes a text after a label, on as many lines as it needs, below each other.
    fn paragraph(&mut self, label: &str, text: &str) -> fmt::Result {
        let indent = label.chars().count();
        let mut line = label.to_owned();
        let mut used = indent;
        for word in text.split(' ') {
            let length = word.chars().count();
            if used > indent && used + 1 + length > WIDTH {
                writeln!(self.0, "{}", line.trim_end())?;
                line = " ".repeat(indent);
                used = indent;
            }
            if used > indent {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += length;
        }
        writeln!(self.0, "{}", line.trim_end())
    }
}

/// Text of a family at this time.
type Cell = fn(&FamilyStatus, Timestamp) -> String;

/// Rows of the table of families.
const ROWS: &[(&str, Cell)] = &[
    ("backend", |family, _| match family.backend.as_str() {
        "" => "not found yet".to_owned(),
        backend if family.iptables_version.is_empty() => backend.to_owned(),
        backend => {
            // The rest of it is the backend.
            let version = family.iptables_version.split(' ').next();
            format!("{backend}, iptables {}", version.unwrap_or_default())
        }
    }),
    ("chosen by", |family, _| {
        match family.backend_reason.as_str() {
            "" => "unknown".to_owned(),
            reason => reason.to_owned(),
        }
    }),
    ("rules", |family, _| {
        format!("{}, endpoints: {}", family.rules, family.endpoints)
    }),
    ("last full", |family, now| {
        family.last_full.as_ref().map_or_else(
            || "none".to_owned(),
            |sync| match sync.reason.as_str() {
                "" => sync_text(sync, now),
                reason => format!("{}, {reason}", sync_text(sync, now)),
            },
        )
    }),
    ("last partial", |family, now| {
        family.last_partial.as_ref().map_or_else(
            || "none".to_owned(),
            |sync| {
                let services = counted(sync.services, "Service");
                format!("{}, {services}", sync_text(sync, now))
            },
        )
    }),
    ("lock waits", |family, _| {
        let waits = family.recent_syncs.iter().map(|sync| sync.lock_wait_ms);
        let longest = waits.fold(0.0, f64::max);
        let syncs = counted(family.recent_syncs.len(), "sync");
        format!("at most {} in {syncs}", milliseconds(longest))
    }),
    ("waiting", |family, now| {
        let services = counted(family.pending_services, "Service");
        match family.waiting_since {
            Some(since) => format!("{services}, for {}", age(since, now)),
            None if family.pending_services > 0 => services,
            None => "nothing".to_owned(),
        }
    }),
    ("verification", |family, now| match &family.verification {
        Some(last) if last.is_clean => format!("clean, {} ago", age(last.at, now)),
        Some(last) => format!("found changed rules, {} ago", age(last.at, now)),
        None => "not yet".to_owned(),
    }),
    ("changed, 24 h", |family, _| {
        number_or_none(family.drift.len() as u64)
    }),
    ("quarantine", |family, _| {
        match family.quarantined.len() as u64 {
            0 => "none".to_owned(),
            count => counted(count, "Service"),
        }
    }),
    ("conflicts", |family, _| {
        number_or_none(family.conflict_count)
    }),
    ("over limits", |family, _| {
        let limits = family.over_limits.iter();
        listed(limits.map(|one| format!("{} {}", one.limit, one.services)))
    }),
];

fn sync_text(sync: &SyncRecord, now: Timestamp) -> String {
    format!(
        "{} ago, {} in {}",
        age(sync.at, now),
        bytes(sync.bytes),
        milliseconds(sync.took_ms)
    )
}

/// Returns a time that the daemon has sent.
fn known(time: Timestamp) -> Option<Timestamp> {
    (time != Timestamp::UNIX_EPOCH).then_some(time)
}

fn number_or_none(count: u64) -> String {
    match count {
        0 => "none".to_owned(),
        count => count.to_string(),
    }
}

fn listed(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.collect();
    match texts.as_slice() {
        [] => "none".to_owned(),
        texts => texts.join(", "),
    }
}

#[cfg(test)]
#[path = "tests/screen.rs"]
mod tests;
