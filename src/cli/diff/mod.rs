//! `diff`: compares the live rules with the desired ones.
//!
//! Gets the two sides, prints the differences that [`diff`](crate::inspect::diff) finds and returns
//! the exit code.

mod desired;
mod sides;
mod unified;

use std::fmt::{self, Write as _};

use self::sides::Sides;
use super::arguments::RuleSettings;
use super::exit::ComparisonResult;
use super::terminal;
use crate::config::{DiffArgs, DiffFormat, environment};
use crate::inspect::diff::{self, Review};

/// Prints the differences, and reports whether there are any.
pub(super) fn diff(args: &DiffArgs) -> anyhow::Result<ComparisonResult> {
    let selected = args.which.asked()?;
    terminal::install_quiet_log()?;
    let settings = RuleSettings::read(&args.file, &args.rules)?;
    let external = environment::external_diff();
    let format = match (args.output, &external) {
        (Some(format), _) if !args.unified => format,
        (None, None) if !args.unified => DiffFormat::Text,
        _ => DiffFormat::Unified,
    };
    let sides = Sides::load(args, &settings)?.only(&selected)?;
    let reviews = sides.reviews();
    if format == DiffFormat::Unified {
        // Stdout is machine-readable.
        sides.gaps().for_each(|gap| tracing::warn!("{gap}"));
    }
    let is_different = |review: &Review<'_>| {
        let is_strict_difference = args.strict && !review.is_empty();
        review.matters() || is_strict_difference
    };
    match (format, &external) {
        (DiffFormat::Text, _) => print(|text| {
            text.push_str(&sides.heading());
            sides.gaps().try_for_each(|gap| writeln!(text, "{gap}"))?;
            diff::text(text, &reviews)?;
            // Two sets of objects are rendered with the same flags, so the hint cannot apply.
            let hint = diff::hint(&reviews).filter(|_| args.from_manifests.is_none());
            hint.map_or(Ok(()), |hint| writeln!(text, "hint: {hint}"))
        })?,
        (DiffFormat::Json, _) => terminal::stdout(|out| {
            serde_json::to_writer_pretty(&mut *out, &diff::json(&reviews))?;
            Ok(writeln!(out)?)
        })?,
        (DiffFormat::Unified, None) => print(|text| unified::write(text, &sides))?,
        (DiffFormat::Unified, Some(program)) => unified::show(program, &sides)?,
    }
    Ok(if reviews.iter().any(is_different) {
        ComparisonResult::Different
    } else {
        ComparisonResult::Equal
    })
}

fn print(write: impl FnOnce(&mut String) -> fmt::Result) -> anyhow::Result<()> {
    let mut text = String::new();
    write(&mut text)?;
    terminal::stdout(|out| Ok(out.write_all(text.as_bytes())?))
}
