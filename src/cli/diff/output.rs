//! Output of a comparison in each format, to stdout or by the user's own program.

use std::fmt::{self, Write as _};

use super::super::terminal;
use super::sides::Sides;
use super::unified;
use crate::config::{DiffArgs, DiffFormat, environment};
use crate::inspect::diff::{self, FieldReview, Review};

/// Prints the differences in the format that flags and environment select.
pub(super) fn print(
    args: &DiffArgs,
    sides: &Sides,
    reviews: &[Review<'_>],
    fields: &FieldReview,
) -> anyhow::Result<()> {
    let external = environment::external_diff();
    let format = match (args.output, &external) {
        (Some(format), _) if !args.unified => format,
        (None, None) if !args.unified => DiffFormat::Text,
        _ => DiffFormat::Unified,
    };
    if format == DiffFormat::Unified {
        // Stdout is machine-readable.
        sides.gaps().for_each(|gap| tracing::warn!("{gap}"));
        warn_of_fields(fields);
    }
    match (format, &external) {
        (DiffFormat::Text, _) => print_text(|text| {
            text.push_str(&sides.heading());
            sides.gaps().try_for_each(|gap| writeln!(text, "{gap}"))?;
            diff::text(text, reviews, fields)?;
            // Two sets of objects are rendered with the same flags, so the hint cannot apply.
            let hint = diff::hint(reviews).filter(|_| args.from_manifests.is_none());
            hint.map_or(Ok(()), |hint| writeln!(text, "hint: {hint}"))
        }),
        (DiffFormat::Json, _) => terminal::stdout(|out| {
            serde_json::to_writer_pretty(&mut *out, &diff::json(reviews, fields))?;
            Ok(writeln!(out)?)
        }),
        (DiffFormat::Unified, None) => print_text(|text| unified::write(text, sides)),
        (DiffFormat::Unified, Some(program)) => unified::show(program, sides),
    }
}

/// Warns of what the rules do not show.
fn warn_of_fields(fields: &FieldReview) {
    for change in &fields.changes {
        tracing::warn!("{change}, which the rules do not show");
    }
    for line in &fields.assumptions {
        tracing::warn!("assumed, as the manifests do not have them: {line}");
    }
}

fn print_text(write: impl FnOnce(&mut String) -> fmt::Result) -> anyhow::Result<()> {
    let mut text = String::new();
    write(&mut text)?;
    terminal::stdout(|out| Ok(out.write_all(text.as_bytes())?))
}
