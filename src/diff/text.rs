//! The review for people.
//!
//! Apart from [`json`](super::json()), which says the same to machines. What traffic notices comes
//! first, chains second; rules are shown where nothing else tells what differs.

use std::fmt::{self, Write};

use super::alike::{self, Group, Place};
use super::edit::Edit;
use super::effect::Effect;
use super::paint;
use super::phrase::phrase;
use super::review::{ChainReview, PortReview, Presence, Restore, Review, Scope, Verdict};
use super::summary::{Summary, plural};
use crate::net::IpFamily;

/// How many names of service ports that differ only in comments are worth a line.
const MOST_NAMES: usize = 10;

/// Writes the reviews of all families, and the summary.
pub fn text(out: &mut dyn Write, reviews: &[Review<'_>]) -> fmt::Result {
    let mut ports: Vec<Place<'_>> = Vec::new();
    for review in reviews {
        ports.extend(review.ports.iter().map(|port| (port, review.family)));
    }
    ports.sort_by_key(|(port, family)| (&port.name, *family));
    let (cosmetic, other): (Vec<_>, Vec<_>) = ports
        .into_iter()
        .partition(|(port, _)| port.verdict == Verdict::Cosmetic);
    let (groups, other) = alike::groups(other);
    for (port, family) in other {
        write_port(out, port, family)?;
    }
    for group in groups {
        write_group(out, &group)?;
    }
    for review in reviews {
        write_chains(out, review)?;
    }
    write_cosmetic(out, &cosmetic)?;
    for review in reviews {
        if let Some(restore) = &review.restore {
            write_restore(out, review, restore)?;
        }
    }
    writeln!(out, "{}", reviews.iter().collect::<Summary>())
}

fn write_port(out: &mut dyn Write, port: &PortReview<'_>, family: IpFamily) -> fmt::Result {
    let verdict = match port.verdict {
        Verdict::Appears => "appears",
        Verdict::Disappears => "disappears",
        Verdict::Changes | Verdict::Cosmetic => "changes",
    };
    let name = paint::name(&port.name);
    writeln!(out, "{name} {verdict} ({family})")?;
    for effect in &port.effects {
        writeln!(out, "  {}", phrase(effect, &port.name.protocol))?;
    }
    let is_about_rules = port.effects.iter().any(|effect| {
        matches!(
            effect,
            Effect::OtherMasquerade | Effect::Refusals | Effect::Order | Effect::Rules
        )
    });
    for chain in &port.chains {
        write_chain(out, chain, is_about_rules)?;
    }
    writeln!(out)
}

/// What differs is told once, and in which chains is left to programs.
fn write_group(out: &mut dyn Write, group: &Group<'_>) -> fmt::Result {
    let Group { family, ports, .. } = group;
    let title = paint::name(plural(ports.len(), "service port", "service ports"));
    writeln!(out, "{title} change alike ({family})")?;
    writeln!(out, "  {}", phrase(group.effect, ""))?;
    writeln!(out, "  {}\n", names(ports))
}

/// The first few.
fn names(ports: &[Place<'_>]) -> String {
    let mut names: Vec<_> = ports
        .iter()
        .map(|(port, _)| port.name.to_string())
        .collect();
    names.dedup();
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let names = names.join(", ");
    match more {
        0 => names,
        _ => format!("{names} and {more} more"),
    }
}

fn write_chains(out: &mut dyn Write, review: &Review<'_>) -> fmt::Result {
    if !review.set_up.is_empty() {
        let title = paint::name("proxy set-up");
        writeln!(out, "{title} differs ({})", review.family)?;
        for chain in &review.set_up {
            write_chain(out, chain, true)?;
        }
        writeln!(out)?;
    }
    if !review.stale.is_empty() {
        let title = paint::name("chains that nothing leads to");
        writeln!(out, "{title} ({})", review.family)?;
        for chain in &review.stale {
            write_chain(out, chain, false)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_chain(out: &mut dyn Write, chain: &ChainReview<'_>, with_rules: bool) -> fmt::Result {
    let (removed, added) = chain.counts();
    let ChainReview {
        table, chain: name, ..
    } = chain;
    write!(out, "  {table} {name}")?;
    match chain.presence {
        Presence::Left => write!(out, " {}", paint::removed("removed"))?,
        Presence::Right => write!(out, " {}", paint::added("new"))?,
        Presence::Both if chain.is_cosmetic => write!(out, " only in comments")?,
        Presence::Both => {}
    }
    if removed > 0 {
        write!(out, " {}", paint::removed(format_args!("-{removed}")))?;
    }
    if added > 0 {
        write!(out, " {}", paint::added(format_args!("+{added}")))?;
    }
    writeln!(out)?;
    if !with_rules || chain.presence != Presence::Both {
        return Ok(());
    }
    for edit in &chain.edits {
        match edit {
            Edit::Kept(_) => {}
            Edit::Removed(rule) => {
                writeln!(out, "    {}", paint::removed(format_args!("- {rule}")))?;
            }
            Edit::Added(rule) => writeln!(out, "    {}", paint::added(format_args!("+ {rule}")))?,
        }
    }
    Ok(())
}

fn write_cosmetic(out: &mut dyn Write, ports: &[Place<'_>]) -> fmt::Result {
    if ports.is_empty() {
        return Ok(());
    }
    writeln!(out, "only in comments or rounding: {}\n", names(ports))
}

fn write_restore(out: &mut dyn Write, review: &Review<'_>, restore: &Restore) -> fmt::Result {
    let scope = match restore.scope {
        Scope::Full => "full",
        Scope::Partial => "partial",
    };
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let chains = plural(count(restore.chains), "chain", "chains");
    let lines = plural(count(restore.lines), "line", "lines");
    let bytes = plural(count(restore.bytes), "byte", "bytes");
    let reason = match restore.services {
        Some(services) if services > 0 => plural(services, "Service changed", "Services changed"),
        _ => restore.reason.to_owned(),
    };
    let family = review.family;
    writeln!(
        out,
        "restore ({family}): {scope} ({reason}), {chains}, {lines}, {bytes}"
    )
}
