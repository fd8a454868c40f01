//! A unified diff of two sheets, as `diff -u` writes it: one or more hunks for each chain.
//!
//! Apart because programs read it. Rules whose order means nothing never make a hunk.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::edit::{Edit, edits};
use super::paint;
use super::sheet::{Sheet, SheetChain};
use crate::rules::{Rule, Table};

/// Lines shown around a difference, as `diff -u` does.
const CONTEXT: usize = 3;

/// Writes what makes `left` into `right`; nothing if they are the same.
pub fn unified(
    out: &mut dyn Write,
    names: (&str, &str),
    left: &Sheet<'_>,
    right: &Sheet<'_>,
) -> fmt::Result {
    let mut at = (1, 1);
    let mut is_first = true;
    for (old, new) in pairs(left, right).into_values() {
        let lines = lines(old, new);
        let before = at;
        advance(&mut at, &lines);
        if lines.iter().all(|line| matches!(line, Edit::Kept(_))) {
            continue;
        }
        if is_first {
            writeln!(out, "{}", paint::removed(format_args!("--- {}", names.0)))?;
            writeln!(out, "{}", paint::added(format_args!("+++ {}", names.1)))?;
            is_first = false;
        }
        if let Some(chain) = old.or(new) {
            write_hunks(out, chain, &lines, before)?;
        }
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

/// A line of a chain; `None` is the chain's own.
type Line<'a> = Edit<Option<&'a Rule>>;

fn lines<'a>(old: Option<&SheetChain<'a>>, new: Option<&SheetChain<'a>>) -> Vec<Line<'a>> {
    let mut lines = vec![match (old, new) {
        (Some(_), None) => Edit::Removed(None),
        (None, Some(_)) => Edit::Added(None),
        _ => Edit::Kept(None),
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
            Edit::Kept(rule) => Edit::Kept(Some(rule)),
            Edit::Removed(rule) => Edit::Removed(Some(rule)),
            Edit::Added(rule) => Edit::Added(Some(rule)),
        }));
    }
    lines
}

/// The numbers of the next lines on both sides.
type At = (usize, usize);

fn advance(at: &mut At, lines: &[Line<'_>]) {
    let (old, new) = lengths(lines);
    *at = (at.0 + old, at.1 + new);
}

fn lengths(lines: &[Line<'_>]) -> (usize, usize) {
    let added = lines.iter().filter(|line| matches!(line, Edit::Added(_)));
    let removed = lines.iter().filter(|line| matches!(line, Edit::Removed(_)));
    let (added, removed) = (added.count(), removed.count());
    (lines.len() - added, lines.len() - removed)
}

fn write_hunks(
    out: &mut dyn Write,
    chain: &SheetChain<'_>,
    lines: &[Line<'_>],
    start: At,
) -> fmt::Result {
    for (first, end) in spans(lines) {
        let mut at = start;
        advance(&mut at, lines.get(..first).unwrap_or_default());
        let hunk = lines.get(first..end).unwrap_or_default();
        let (old, new) = lengths(hunk);
        let (table, name) = (chain.table, chain.name);
        let (old_at, new_at) = (from(at.0, old), from(at.1, new));
        writeln!(out, "@@ -{old_at},{old} +{new_at},{new} @@ {table} {name}")?;
        for line in hunk {
            let text =
                |line: Option<&Rule>| line.map_or_else(|| chain.header(), |rule| chain.line(rule));
            match line {
                Edit::Kept(line) => writeln!(out, " {}", text(*line))?,
                Edit::Removed(line) => {
                    writeln!(out, "{}", paint::removed(format_args!("-{}", text(*line))))?;
                }
                Edit::Added(line) => {
                    writeln!(out, "{}", paint::added(format_args!("+{}", text(*line))))?;
                }
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
fn spans(lines: &[Line<'_>]) -> Vec<(usize, usize)> {
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
