//! Output of a comparison in each format.

use std::fmt::{self, Write as _};

use super::super::terminal;
use super::sides::Sides;
use crate::config::{DiffArgs, DiffFormat};
use crate::inspect::diff::{self, ManifestFacts, Review, RulesetText};

/// Prints the differences in the format that the flags select.
pub(super) fn print(
    args: &DiffArgs,
    sides: &Sides,
    reviews: &[Review<'_>],
    facts: &ManifestFacts,
) -> anyhow::Result<()> {
    let format = if args.unified {
        DiffFormat::Unified
    } else {
        args.output
    };
    if format == DiffFormat::Unified {
        // Stdout is machine-readable.
        sides
            .gaps()
            .for_each(|gap| tracing::warn!("{}", terminal::escaped(&gap)));
        warn_of_facts(facts);
    }
    match format {
        DiffFormat::Text => print_text(|text| {
            text.push_str(&terminal::escaped(&sides.heading()));
            sides
                .gaps()
                .try_for_each(|gap| writeln!(text, "{}", terminal::escaped(&gap)))?;
            diff::text(text, reviews, facts)?;
            // Two sets of objects are rendered with the same flags, so the hint cannot apply.
            let hint = diff::hint(reviews).filter(|_| args.from_manifests.is_empty());
            hint.map_or(Ok(()), |hint| writeln!(text, "hint: {hint}"))
        }),
        DiffFormat::Json => terminal::stdout(|out| {
            serde_json::to_writer_pretty(&mut *out, &diff::json(reviews, facts))?;
            Ok(writeln!(out)?)
        }),
        DiffFormat::Unified => print_text(|text| write_unified(text, sides, reviews)),
    }
}

/// Warns of what the rules do not show.
fn warn_of_facts(facts: &ManifestFacts) {
    for line in &facts.assumptions {
        tracing::warn!("assumed, as the manifests do not have them: {line}");
    }
    if facts.hidden_objects > 0 {
        tracing::warn!("{}", diff::hidden_objects(facts.hidden_objects));
    }
}

fn print_text(write: impl FnOnce(&mut String) -> fmt::Result) -> anyhow::Result<()> {
    let mut text = String::new();
    write(&mut text)?;
    terminal::stdout(|out| Ok(out.write_all(text.as_bytes())?))
}

/// Writes the output of `diff -u`.
fn write_unified(text: &mut String, sides: &Sides, reviews: &[Review<'_>]) -> fmt::Result {
    for review in reviews {
        let (family, [left, right]) = (review.family, sides_as_text(sides, review));
        let [old, new] = NAMES.map(|side| format!("{side}/{family}"));
        diff::unified(text, (&old, &new), &left, &right)?;
    }
    Ok(())
}

/// Returns the live and the desired rules as text, limited to the selected service ports and
/// without what is not compared.
fn sides_as_text<'s>(sides: &'s Sides, review: &Review<'_>) -> [RulesetText<'s>; 2] {
    let family = review.family;
    let (left, right) = (sides.left.get(family), sides.right.get(family));
    let both = [
        RulesetText::of(left, right, right),
        RulesetText::of(right, left, right),
    ];
    let both = both.map(|text| text.compared(&review.not_compared, [left, right]));
    match &sides.chosen {
        Some(chosen) => both.map(|text| text.only(chosen)),
        None => both,
    }
}

/// Directories in the paths of the two sides.
const NAMES: [&str; 2] = ["LIVE", "DESIRED"];
