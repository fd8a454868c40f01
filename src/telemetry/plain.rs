//! Log lines of a command that ends soon: they look as its errors do.
//!
//! Apart from the other formats because these are read while they are written, by whoever typed the
//! command: neither the time nor the module helps, and what was said once is known.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// `warning: ...`, each line once: two sides of a comparison may lack the same.
#[derive(Debug, Default)]
pub(super) struct Plain {
    said: Mutex<BTreeSet<String>>,
}

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = format!("{}: ", word(*event.metadata().level()));
        let fields = context.field_format();
        fields.format_fields(Writer::new(&mut line), event)?;
        line.push('\n');
        // A thread that panicked took nothing away: twice is better than never.
        let is_new = self
            .said
            .lock()
            .map_or(true, |mut said| said.insert(line.clone()));
        if is_new {
            writer.write_str(&line)?;
        }
        Ok(())
    }
}

const fn word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "note",
        Level::DEBUG | Level::TRACE => "detail",
    }
}
