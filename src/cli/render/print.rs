//! What of a payload is shown, and with what beside it.
//!
//! A payload that is cut down to some Services is for reading: it lacks the rules that others have
//! in the chains that all share. It ends without `COMMIT`, so that no restore program takes it for
//! the whole.

use std::io::Write;

use super::objects::{Object, Objects};
use crate::cli::snapshot::unruled;
use crate::config::RenderConfig;
use crate::inspect::catalog::PortQuery;
use crate::rules::Table;

/// What was asked for.
pub(super) struct Shown<'a> {
    pub(super) asked: &'a PortQuery,
    pub(super) table: Option<Table>,
    pub(super) is_annotated: bool,
}

impl Shown<'_> {
    /// Whether the payload is printed as it is.
    pub(super) fn is_everything(&self) -> bool {
        self.asked.is_all() && self.table.is_none() && !self.is_annotated
    }

    /// That every Service that was named is there.
    pub(super) fn check_services(
        &self,
        objects: &Objects,
        config: &RenderConfig,
    ) -> anyhow::Result<()> {
        let found = self.asked.check(&objects.ports());
        unruled::told(found, || unruled::of_config(config))
    }

    /// Prints it.
    pub(super) fn print(
        &self,
        out: &mut dyn Write,
        payload: &str,
        objects: &Objects,
    ) -> anyhow::Result<()> {
        let (mut table, mut head) = (None, None);
        let mut last: Option<Object> = None;
        for line in payload.lines() {
            if let Some(name) = line.strip_prefix('*') {
                (table, last, head) = (Table::from_name(name), None, Some(line));
                continue;
            }
            let object = self.object(line, objects);
            if !self.shows(table, object.as_ref(), objects) {
                continue;
            }
            // A table is named once something of it is shown.
            if let Some(head) = head.take() {
                writeln!(out, "{head}")?;
            }
            if self.is_annotated && object.is_some() && object != last {
                let object = object.as_ref();
                writeln!(
                    out,
                    "# {}",
                    object.map(ToString::to_string).unwrap_or_default()
                )?;
            }
            writeln!(out, "{line}")?;
            last = object;
        }
        Ok(())
    }

    fn object(&self, line: &str, objects: &Objects) -> Option<Object> {
        let is_asked = self.is_annotated || !self.asked.is_all();
        is_asked.then(|| objects.of_line(line)).flatten()
    }

    fn shows(&self, table: Option<Table>, object: Option<&Object>, objects: &Objects) -> bool {
        if self.table.is_some() && self.table != table {
            return false;
        }
        if self.asked.is_all() {
            return true;
        }
        object.is_some_and(|object| {
            self.asked
                .fits(object.port(), &objects.numbers(object.port()))
        })
    }
}
