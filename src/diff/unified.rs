//! A unified diff of two sheets, as `diff -u` writes it.
//!
//! Apart because programs read it: `patch` makes one sheet into the other. Rules whose order means
//! nothing never make a hunk, and what is in one chain is never taken for what is in another.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::edit::{Edit, edits};
use super::paint;
use super::sheet::{Sheet, SheetChain};
use crate::rules::{Rule, Table};

/// Lines shown around a difference, as `diff -u` does.
const CONTEXT: usize = 3;

/// Writes what makes `left` into `right`; nothing if they are the same. The names are those of
/// files that may hold the sheets.
pub fn unified(
    out: &mut dyn Write,
    names: (&str, &str),
    left: &Sheet<'_>,
    right: &Sheet<'_>,
) -> fmt::Result {
    let lines: Vec<Line<'_, '_>> = pairs(left, right)
        .into_values()
        .flat_map(|(old, new)| lines(old, new))
        .collect();
    let (mut at, mut done) = ((1, 1), 0);
    for (first, end) in spans(&lines) {
        if done == 0 {
            writeln!(out, "{}", paint::removed(format_args!("--- {}", names.0)))?;
            writeln!(out, "{}", paint::added(format_args!("+++ {}", names.1)))?;
        }
        advance(&mut at, lines.get(done..first).unwrap_or_default());
        let hunk = lines.get(first..end).unwrap_or_default();
        write_hunk(out, hunk, at)?;
        advance(&mut at, hunk);
        done = end;
    }
    Ok(())
}

type Pair<'s, 'a> = (Option<&'s SheetChain<'a>>, Option<&'s SheetChain<'a>>);

fn pairs<'s, 'a>(
    left: &'s Sheet<'a>,
    right: &'s Sheet<'a>,
) -> BTreeMap<(Table, &'a str), Pair<'s, 'a>> {
    let mut pairs: BTreeMap<_, Pair<'_, '_>> = BTreeMap::new();
    for chain in &left.chains {
        pairs.entry((chain.table, chain.name)).or_default().0 = Some(chain);
    }
    for chain in &right.chains {
        pairs.entry((chain.table, chain.name)).or_default().1 = Some(chain);
    }
    pairs
}

/// A line with the chain that it is in; no rule: the chain's own.
type Line<'s, 'a> = Edit<(&'s SheetChain<'a>, Option<&'a Rule>)>;

fn lines<'s, 'a>(
    old: Option<&'s SheetChain<'a>>,
    new: Option<&'s SheetChain<'a>>,
) -> Vec<Line<'s, 'a>> {
    let Some(chain) = old.or(new) else {
        return Vec::new();
    };
    let mut lines = vec![match (old, new) {
        (Some(_), None) => Edit::Removed((chain, None)),
        (None, Some(_)) => Edit::Added((chain, None)),
        _ => Edit::Kept((chain, None)),
    }];
    let mut lists: BTreeMap<&str, [&[&'a Rule]; 2]> = BTreeMap::new();
    for (key, rules) in old.iter().flat_map(|chain| &chain.lists) {
        lists.entry(key).or_default()[0] = rules;
    }
    for (key, rules) in new.iter().flat_map(|chain| &chain.lists) {
        lists.entry(key).or_default()[1] = rules;
    }
    for [old, new] in lists.into_values() {
        lines.extend(edits(old, new).into_iter().map(|edit| match edit {
            Edit::Kept(rule) => Edit::Kept((chain, Some(rule))),
            Edit::Removed(rule) => Edit::Removed((chain, Some(rule))),
            Edit::Added(rule) => Edit::Added((chain, Some(rule))),
        }));
    }
    lines
}

/// The numbers of the next lines on both sides.
type At = (usize, usize);

fn advance(at: &mut At, lines: &[Line<'_, '_>]) {
    let (old, new) = lengths(lines);
    *at = (at.0 + old, at.1 + new);
}

fn lengths(lines: &[Line<'_, '_>]) -> (usize, usize) {
    let added = lines.iter().filter(|line| matches!(line, Edit::Added(_)));
    let removed = lines.iter().filter(|line| matches!(line, Edit::Removed(_)));
    let (added, removed) = (added.count(), removed.count());
    (lines.len() - added, lines.len() - removed)
}

/// Behind the numbers stands the chain of the first difference.
fn write_hunk(out: &mut dyn Write, hunk: &[Line<'_, '_>], at: At) -> fmt::Result {
    let (old, new) = lengths(hunk);
    let (old_at, new_at) = (from(at.0, old), from(at.1, new));
    write!(out, "@@ -{old_at},{old} +{new_at},{new} @@")?;
    let first = hunk.iter().find_map(|line| match line {
        Edit::Removed((chain, _)) | Edit::Added((chain, _)) => Some(chain),
        Edit::Kept(_) => None,
    });
    if let Some(SheetChain { table, name, .. }) = first {
        write!(out, " {table} {name}")?;
    }
    writeln!(out)?;
    let text = |(chain, rule): &(&SheetChain<'_>, Option<&Rule>)| {
        rule.map_or_else(|| chain.header(), |rule| chain.line(rule))
    };
    for line in hunk {
        match line {
            Edit::Kept(line) => writeln!(out, " {}", text(line))?,
            Edit::Removed(line) => {
                writeln!(out, "{}", paint::removed(format_args!("-{}", text(line))))?;
            }
            Edit::Added(line) => {
                writeln!(out, "{}", paint::added(format_args!("+{}", text(line))))?;
            }
        }
    }
    Ok(())
}

/// Of nothing, the line before it is named.
const fn from(at: usize, length: usize) -> usize {
    if length == 0 { at - 1 } else { at }
}

/// Where hunks begin and end: differences with their context, together where contexts meet.
fn spans(lines: &[Line<'_, '_>]) -> Vec<(usize, usize)> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let changed = lines.iter().enumerate();
    for (at, _) in changed.filter(|(_, line)| !matches!(line, Edit::Kept(_))) {
        let (first, end) = (
            at.saturating_sub(CONTEXT),
            (at + CONTEXT + 1).min(lines.len()),
        );
        match spans.last_mut() {
            Some(last) if last.1 >= first => last.1 = end,
            _ => spans.push((first, end)),
        }
    }
    spans
}
