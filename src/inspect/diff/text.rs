//! Renders reviews as human-readable text.
//!
//! Effects on traffic come first, then the chains that differ. Rules are shown only where no effect
//! describes the difference.

use std::fmt::{self, Write};

use super::color;
use super::edit::Edit;
use super::effect::{Effect, sentence};
use super::node_settings::{FamilyPort, SettingGroup, groups};
use super::review::{
    ChainReview, ManifestFacts, PlannedRestore, PortChange, PortReview, Presence, RestoreScope,
    Review, Summary, plural,
};
use super::unreadable::listed;
use crate::net::IpFamily;

/// Writes the reviews of all IP families, values that manifests lack, and the summary.
pub fn text(out: &mut dyn Write, reviews: &[Review<'_>], facts: &ManifestFacts) -> fmt::Result {
    let mut ports: Vec<FamilyPort<'_>> = Vec::new();
    for review in reviews {
        ports.extend(review.ports.iter().map(|port| (port, review.family)));
    }
    ports.sort_by_key(|(port, family)| (&port.name, *family));
    let (cosmetic, other): (Vec<_>, Vec<_>) = ports
        .into_iter()
        .partition(|(port, _)| port.change == PortChange::Cosmetic);
    let (groups, other) = groups(other);
    for (port, family) in other {
        write_port(out, port, family)?;
    }
    for group in groups {
        write_group(out, &group)?;
    }
    for review in reviews {
        let family = review.family;
        write_chains(out, ("fixed chains and jumps", family), &review.fixed, true)?;
        write_chains(out, ("stale chains", family), &review.stale, false)?;
    }
    if !cosmetic.is_empty() {
        let names = names(&cosmetic);
        writeln!(out, "only comments or rounding differ: {names}\n")?;
    }
    if !facts.assumptions.is_empty() {
        let title = color::name("assumed, as the manifests do not have them");
        writeln!(out, "{title}")?;
        for line in &facts.assumptions {
            writeln!(out, "  {line}")?;
        }
        writeln!(out)?;
    }
    for review in reviews {
        if let Some(restore) = &review.restore {
            write_restore(out, review.family, restore)?;
        }
    }
    writeln!(out, "{}", reviews.iter().collect::<Summary>())?;
    match facts.hidden_objects {
        0 => Ok(()),
        count => writeln!(out, "{}", hidden_objects(count)),
    }
}

/// Returns the line about objects of manifests that differ only in what no rule shows.
pub(crate) fn hidden_objects(count: usize) -> String {
    let objects = plural(count, "object differs", "objects differ");
    format!("{objects} only in what no rule shows: see `kubectl diff`")
}

fn write_port(out: &mut dyn Write, port: &PortReview<'_>, family: IpFamily) -> fmt::Result {
    let change = match port.change {
        PortChange::Appears => "appears",
        PortChange::Disappears => "disappears",
        PortChange::Changes | PortChange::Cosmetic => "changes",
    };
    let name = color::name(&port.name);
    writeln!(out, "{name} {change} ({family})")?;
    for effect in &port.effects {
        writeln!(out, "  {}", sentence(effect, &port.name.protocol))?;
    }
    let needs_rules = port.effects.iter().any(|effect| {
        matches!(
            effect,
            Effect::MasqueradeRules | Effect::FilterRules | Effect::Reordered | Effect::OtherRules
        )
    });
    for chain in &port.chains {
        write_chain(out, chain, needs_rules)?;
    }
    writeln!(out)
}

/// Writes an effect that many service ports have, without their chains, which only the JSON lists.
fn write_group(out: &mut dyn Write, group: &SettingGroup<'_>) -> fmt::Result {
    let SettingGroup { family, ports, .. } = group;
    let title = color::name(plural(ports.len(), "service port", "service ports"));
    writeln!(out, "{title} change in the same way ({family})")?;
    writeln!(out, "  {}", sentence(group.effect, ""))?;
    writeln!(out, "  {}\n", names(ports))
}

/// Returns the first names, and the number of the others.
fn names(ports: &[FamilyPort<'_>]) -> String {
    let names = ports.iter().map(|(port, _)| port.name.to_string());
    let mut names: Vec<String> = names.collect();
    names.dedup();
    listed(names.into_iter())
}

fn write_chains(
    out: &mut dyn Write,
    (title, family): (&str, IpFamily),
    chains: &[ChainReview<'_>],
    with_rules: bool,
) -> fmt::Result {
    if chains.is_empty() {
        return Ok(());
    }
    writeln!(out, "{} ({family})", color::name(title))?;
    for chain in chains {
        write_chain(out, chain, with_rules)?;
    }
    writeln!(out)
}

fn write_chain(out: &mut dyn Write, chain: &ChainReview<'_>, with_rules: bool) -> fmt::Result {
    let (removed, added) = chain.counts();
    let ChainReview {
        table, chain: name, ..
    } = chain;
    write!(out, "  {table} {name}")?;
    match chain.presence {
        Presence::Live => write!(out, " {}", color::removed("removed"))?,
        Presence::Desired => write!(out, " {}", color::added("new"))?,
        Presence::Both if chain.is_cosmetic => write!(out, " only in comments")?,
        Presence::Both => {}
    }
    if removed > 0 {
        write!(out, " {}", color::removed(format_args!("-{removed}")))?;
    }
    if added > 0 {
        write!(out, " {}", color::added(format_args!("+{added}")))?;
    }
    writeln!(out)?;
    if !with_rules || chain.presence != Presence::Both {
        return Ok(());
    }
    for edit in &chain.edits {
        match edit {
            Edit::Kept(_) => {}
            Edit::Removed(rule) => {
                writeln!(out, "    {}", color::removed(format_args!("- {rule}")))?;
            }
            Edit::Added(rule) => writeln!(out, "    {}", color::added(format_args!("+ {rule}")))?,
        }
    }
    Ok(())
}

fn write_restore(out: &mut dyn Write, family: IpFamily, restore: &PlannedRestore) -> fmt::Result {
    let scope = match restore.scope {
        RestoreScope::Full => "full",
        RestoreScope::Partial => "partial",
    };
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let chains = plural(count(restore.chains), "chain", "chains");
    let lines = plural(count(restore.lines), "line", "lines");
    let bytes = plural(count(restore.bytes), "byte", "bytes");
    let reason = match restore.services {
        Some(services) if services > 0 => plural(services, "Service changed", "Services changed"),
        _ => restore.reason.to_owned(),
    };
    writeln!(
        out,
        "restore ({family}): {scope} ({reason}), {chains}, {lines}, {bytes}"
    )
}
