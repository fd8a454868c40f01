//! `diff`: what is against what is desired.
//!
//! Apart because it knows where the two sides come from and how a difference ends the program;
//! [`diff`](crate::inspect::diff) knows what a difference is.

mod desired;
mod external;
mod interrupt;
mod restore;
mod sides;
mod unified;

use std::fmt::{self, Write as _};

use self::sides::Sides;
use super::exit::Compared;
use super::file::Shape;
use super::{log, output};
use crate::config::{DiffArgs, DiffFormat, environment};
use crate::inspect::diff::{self, Review};

/// Prints the difference, and tells whether there is one.
pub(super) fn diff(args: &DiffArgs) -> anyhow::Result<Compared> {
    let asked = args.which.asked()?;
    log::install_quiet()?;
    let shape = Shape::read(&args.file, &args.rules)?;
    let external = environment::external_diff();
    let format = match (args.output, &external) {
        (Some(format), _) if !args.unified => format,
        (None, None) if !args.unified => DiffFormat::Text,
        _ => DiffFormat::Unified,
    };
    let sides = Sides::load(args, &shape)?.only(&asked)?;
    let reviews = sides.reviews();
    if format == DiffFormat::Unified {
        // Stdout is for programs.
        sides.gaps().for_each(|gap| tracing::warn!("{gap}"));
    }
    let is_different = |review: &Review<'_>| {
        let is_noted = args.strict && !review.is_empty();
        review.matters() || is_noted
    };
    match (format, &external) {
        (DiffFormat::Text, _) => print(|text| {
            sides.gaps().try_for_each(|gap| writeln!(text, "{gap}"))?;
            diff::text(text, &reviews)?;
            // Objects against objects are rendered with the same flags.
            let hint = diff::hint(&reviews).filter(|_| args.from_manifests.is_none());
            hint.map_or(Ok(()), |hint| writeln!(text, "hint: {hint}"))
        })?,
        (DiffFormat::Json, _) => output::stdout(|out| {
            serde_json::to_writer_pretty(&mut *out, &diff::json(&reviews))?;
            Ok(writeln!(out)?)
        })?,
        (DiffFormat::Unified, None) => print(|text| unified::write(text, &sides))?,
        (DiffFormat::Unified, Some(program)) => external::show(program, &sides)?,
    }
    Ok(if reviews.iter().any(is_different) {
        Compared::Different
    } else {
        Compared::Equal
    })
}

fn print(write: impl FnOnce(&mut String) -> fmt::Result) -> anyhow::Result<()> {
    let mut text = String::new();
    write(&mut text)?;
    output::stdout(|out| Ok(out.write_all(text.as_bytes())?))
}
