//! `diff`: compares the live rules with the desired ones.
//!
//! Gets the two sides, prints the differences that [`diff`](crate::inspect::diff) finds and returns
//! the exit code.

mod load;
mod sides;

use super::arguments::RuleSettings;
use super::exit::{ErrorReport, is_broken_pipe};
use super::terminal::{self, Progress};
use crate::config::DiffArgs;
use crate::inspect::diff::Review;

/// Prints the differences, and returns whether there are none: also if the reader of the output
/// closes it early, as `head` does. The result is known before anything is printed, so that it does
/// not depend on how much of the output a pipe holds.
pub(super) fn diff(args: &DiffArgs, report: &ErrorReport) -> anyhow::Result<bool> {
    let selected = args.selection.query()?;
    terminal::install_quiet_log()?;
    let settings = RuleSettings::read(&args.desired)?;
    let sides = load::load(args, &settings)?.only(&selected)?;
    let progress = Progress::start("comparing rules");
    let reviews = sides.reviews();
    let facts = sides.facts(&reviews);
    drop(progress);
    let is_different = |review: &Review<'_>| {
        let is_strict_difference = args.strict && !review.is_empty();
        review.matters() || is_strict_difference
    };
    sides.report_not_compared(report);
    let are_equal = !reviews.iter().any(is_different);
    match sides::print(args, &sides, &reviews, &facts) {
        Err(error) if !is_broken_pipe(&error) => Err(error),
        _ => Ok(are_equal),
    }
}
