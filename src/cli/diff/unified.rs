//! Both sides as sheets of rules, for whoever reads these.
//!
//! Apart because our own form and the user's program show the same: what is not asked for is on
//! neither.

use std::fmt;

use super::external::NAMES;
use super::sides::Sides;
use crate::inspect::diff::{self, RulesetText};
use crate::net::IpFamily;

/// Writes what `diff -u` would.
pub(super) fn write(text: &mut String, sides: &Sides) -> fmt::Result {
    for family in sides.families() {
        let [left, right] = sheets(sides, family);
        // As the folders of the other form, so that `patch -p0` finds them.
        let [old, new] = NAMES.map(|side| format!("{side}/{family}"));
        diff::unified(text, (&old, &new), &left, &right)?;
    }
    Ok(())
}

/// What is, and what is desired.
pub(super) fn sheets(sides: &Sides, family: IpFamily) -> [RulesetText<'_>; 2] {
    let (left, right) = (sides.left.get(family), sides.right.get(family));
    let both = [
        RulesetText::of(left, right, right),
        RulesetText::of(right, left, right),
    ];
    match &sides.chosen {
        Some(chosen) => both.map(|sheet| sheet.only(chosen)),
        None => both,
    }
}
