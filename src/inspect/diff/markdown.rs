//! Renders reviews as Markdown for a pull request or a ticket: the summary, a table of the effects,
//! and the rules as fenced diffs.

use std::fmt::{self, Write};

use anstream::adapter::strip_str;

use super::review::{ChainReview, ManifestFacts, Review};
use super::text::{PortLists, names, sentence, summary, write_chain};
use crate::net::IpFamily;

/// Writes the reviews of all IP families. `notes` are lines about both sides, and `rules` the
/// unified diff of each family, which may be empty.
pub(crate) fn markdown(
    out: &mut dyn Write,
    reviews: &[Review<'_>],
    facts: &ManifestFacts,
    notes: &[String],
    rules: &[(IpFamily, String)],
) -> fmt::Result {
    for line in summary(reviews, facts).lines() {
        writeln!(out, "**{}**\n", escaped(line))?;
    }
    for note in notes {
        writeln!(out, "- {note}")?;
    }
    for line in &facts.assumptions {
        writeln!(
            out,
            "- assumed, as the manifests do not have them: {}",
            escaped(line)
        )?;
    }
    if reviews.iter().all(Review::is_empty) {
        return Ok(());
    }
    writeln!(out, "\n| What | Family | Difference |\n|---|---|---|")?;
    write_table(out, reviews)?;
    for (family, diff) in rules.iter().filter(|(_, diff)| !diff.is_empty()) {
        let diff = strip_str(diff).to_string();
        let fence = fence(&diff);
        writeln!(out, "\nRules ({family}):\n\n{fence}diff\n{diff}{fence}")?;
    }
    Ok(())
}

fn write_table(out: &mut dyn Write, reviews: &[Review<'_>]) -> fmt::Result {
    let lists = PortLists::of(reviews);
    for (port, family) in &lists.ports {
        let (change, protocol) = (port.change.as_str().to_owned(), &port.name.protocol);
        let effects = port.effects.iter().map(|effect| sentence(effect, protocol));
        let cells: Vec<String> = std::iter::once(change).chain(effects).collect();
        write_row(out, &port.name.to_string(), family.as_str(), &cells)?;
    }
    for group in &lists.groups {
        let effect = sentence(group.effect, "");
        write_row(out, &names(&group.ports), group.family.as_str(), &[effect])?;
    }
    for review in reviews {
        let family = review.family.as_str();
        for (title, chains) in [
            ("fixed chains and jumps", &review.fixed),
            ("stale chains", &review.stale),
        ] {
            let cells: Vec<String> = chains.iter().map(chain_line).collect();
            if !cells.is_empty() {
                write_row(out, title, family, &cells)?;
            }
        }
    }
    if !lists.cosmetic.is_empty() {
        let difference = "only comments or rounding".to_owned();
        write_row(out, &names(&lists.cosmetic), "", &[difference])?;
    }
    Ok(())
}

fn chain_line(chain: &ChainReview<'_>) -> String {
    let mut line = String::new();
    // Writing to a String cannot fail.
    let _ = write_chain(&mut line, chain, false);
    line.trim().to_owned()
}

/// Writes a row of the table; each line of the last cell is a difference.
fn write_row(out: &mut dyn Write, name: &str, family: &str, lines: &[String]) -> fmt::Result {
    let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
    let (name, lines) = (escaped(name), lines.join("<br>"));
    writeln!(out, "| {name} | {family} | {lines} |")
}

/// Removes colors, and escapes characters that Markdown acts on.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in strip_str(text).to_string().chars() {
        if "\\`*_<[|".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Returns a fence that is longer than any in a text.
fn fence(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    fence
}

#[cfg(test)]
#[path = "tests/markdown.rs"]
mod tests;
