//! Renders reviews as human-readable text: a sentence for each effect.
//!
//! Effects on traffic come first, then the chains that differ. Rules are shown only where no effect
//! describes the difference.

use std::fmt::{self, Display, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::edit::Edit;
use super::node_settings::{FamilyPort, SettingGroup, groups};
use super::review::{
    ChainReview, Effect, EndpointChange, MAX_NAMES, ManifestFacts, MasqueradedClients,
    PlannedRestore, PortChange, PortReview, Presence, Review, Summary, plural,
};
use crate::inspect::catalog::{FrontendDisposition, FrontendView, Policy};
use crate::net::IpFamily;
use crate::text::{counted, first_of};

/// Returns a line with the numbers of differences, and one about objects that differ only in what
/// no rule shows.
pub(crate) fn summary(reviews: &[Review<'_>], facts: &ManifestFacts) -> String {
    let mut text = format!("{}\n", reviews.iter().collect::<Summary>());
    if facts.hidden_objects > 0 {
        text.push_str(&hidden_objects(facts.hidden_objects));
        text.push('\n');
    }
    text
}

/// Writes the differences of all IP families and the values that manifests lack.
pub fn text(out: &mut dyn Write, reviews: &[Review<'_>], facts: &ManifestFacts) -> fmt::Result {
    let PortLists {
        ports,
        groups,
        cosmetic,
    } = PortLists::of(reviews);
    for (port, family) in ports {
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
        let title = bold("assumed, as the manifests do not have them");
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
    Ok(())
}

/// Returns the line about objects of manifests that differ only in what no rule shows.
pub(crate) fn hidden_objects(count: usize) -> String {
    let objects = plural(count, "object differs", "objects differ");
    format!("{objects} only in what no rule shows: see `kubectl diff`")
}

/// Service ports that differ, by how they are shown.
pub(super) struct PortLists<'r> {
    /// Shown one by one.
    pub(super) ports: Vec<FamilyPort<'r>>,
    /// Shown as one difference.
    pub(super) groups: Vec<SettingGroup<'r>>,
    /// Named only.
    pub(super) cosmetic: Vec<FamilyPort<'r>>,
}

impl<'r> PortLists<'r> {
    pub(super) fn of(reviews: &'r [Review<'_>]) -> Self {
        let mut all: Vec<FamilyPort<'_>> = Vec::new();
        for review in reviews {
            all.extend(review.ports.iter().map(|port| (port, review.family)));
        }
        all.sort_by_key(|(port, family)| (&port.name, *family));
        let (cosmetic, other): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(port, _)| port.change == PortChange::Cosmetic);
        let (groups, ports) = groups(other);
        Self {
            ports,
            groups,
            cosmetic,
        }
    }
}

fn write_port(out: &mut dyn Write, port: &PortReview<'_>, family: IpFamily) -> fmt::Result {
    let (name, change) = (bold(&port.name), port.change.as_str());
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
    let title = bold(counted(ports.len(), "service port"));
    writeln!(out, "{title} change in the same way ({family})")?;
    writeln!(out, "  {}", sentence(group.effect, ""))?;
    writeln!(out, "  {}\n", names(ports))
}

/// Returns the first names, and the number of the others.
pub(super) fn names(ports: &[FamilyPort<'_>]) -> String {
    let names = ports.iter().map(|(port, _)| port.name.to_string());
    let mut names: Vec<String> = names.collect();
    names.dedup();
    first_of(names, MAX_NAMES)
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
    writeln!(out, "{} ({family})", bold(title))?;
    for chain in chains {
        write_chain(out, chain, with_rules)?;
    }
    writeln!(out)
}

pub(super) fn write_chain(
    out: &mut dyn Write,
    chain: &ChainReview<'_>,
    with_rules: bool,
) -> fmt::Result {
    let (removed, added) = chain.counts();
    let ChainReview {
        table, chain: name, ..
    } = chain;
    write!(out, "  {table} {name}")?;
    match chain.presence {
        Presence::Live => write!(out, " {}", red("removed"))?,
        Presence::Desired => write!(out, " {}", green("new"))?,
        Presence::Both if chain.is_cosmetic => write!(out, " only in comments")?,
        Presence::Both => {}
    }
    if removed > 0 {
        write!(out, " {}", red(format_args!("-{removed}")))?;
    }
    if added > 0 {
        write!(out, " {}", green(format_args!("+{added}")))?;
    }
    writeln!(out)?;
    if !with_rules || chain.presence != Presence::Both {
        return Ok(());
    }
    for edit in &chain.edits {
        match edit {
            Edit::Kept(_) => {}
            Edit::Removed(rule) => {
                writeln!(out, "    {}", red(format_args!("- {rule}")))?;
            }
            Edit::Added(rule) => writeln!(out, "    {}", green(format_args!("+ {rule}")))?,
        }
    }
    Ok(())
}

fn write_restore(out: &mut dyn Write, family: IpFamily, restore: &PlannedRestore) -> fmt::Result {
    let scope = restore.scope.as_str();
    let chains = counted(restore.chains, "chain");
    let lines = counted(restore.lines, "line");
    let bytes = counted(restore.bytes, "byte");
    let reason = match restore.services {
        Some(services) if services > 0 => plural(services, "Service changed", "Services changed"),
        _ => restore.reason.to_owned(),
    };
    writeln!(
        out,
        "restore ({family}): {scope} ({reason}), {chains}, {lines}, {bytes}"
    )
}

/// Maximum addresses of each sign in one line: a removed Service with a thousand endpoints would
/// fill the screen.
const MAX_ADDRESSES: usize = 8;

/// Maximum frontends in one line.
const MAX_FRONTENDS: usize = 4;

/// Returns one line for an effect on a service port with this protocol.
pub(super) fn sentence(effect: &Effect, protocol: &str) -> String {
    let name = |frontend: &FrontendView| format!("{frontend}/{protocol}");
    match effect {
        Effect::FrontendAdded(frontend) => {
            let text = format!("+ {} {}", frontend.kind, name(frontend));
            let disposition = disposition(frontend.disposition);
            let disposition = disposition.map_or(String::new(), |words| format!(", {words}"));
            format!("{}{disposition}", green(text))
        }
        Effect::FrontendRemoved(frontend) => {
            red(format!("- {} {}", frontend.kind, name(frontend))).to_string()
        }
        Effect::DispositionChanged { frontend, .. } => {
            let disposition = disposition(frontend.disposition).unwrap_or("served");
            format!("{}: now {disposition}", name(frontend))
        }
        Effect::PolicyChanged {
            traffic,
            before,
            after,
        } => {
            let traffic = traffic.as_str();
            let [before, after] =
                [before, after].map(|policy| policy.map_or("unknown", Policy::as_str));
            format!("{traffic} policy {before} -> {after}")
        }
        Effect::EndpointsChanged(change) => endpoints(change, protocol),
        Effect::ShareChanged {
            endpoint,
            before,
            after,
            ..
        } => format!("{endpoint}: {before} -> {after} of new connections"),
        Effect::AffinityChanged { before, after } => {
            format!("affinity {} -> {}", timeout(*before), timeout(*after))
        }
        Effect::SourceRangesChanged { added, removed } => {
            let mut text = "source ranges".to_owned();
            append_changes(&mut text, added, removed);
            text
        }
        Effect::MasqueradeChanged { before, after } => masquerade(before.as_ref(), after.as_ref()),
        Effect::MasqueradeRules => "masquerade rules differ".to_owned(),
        Effect::FilterRules => "rules that drop or reject differ".to_owned(),
        Effect::Reordered => "the same rules in a different order".to_owned(),
        Effect::OtherRules => "rules differ; frontends and endpoints are the same".to_owned(),
    }
}

fn endpoints(change: &EndpointChange, protocol: &str) -> String {
    let EndpointChange {
        policy,
        frontends,
        before,
        after,
        added,
        removed,
    } = change;
    let named = frontends.iter().take(MAX_FRONTENDS);
    let named: Vec<_> = named.map(|one| format!("{one}/{protocol}")).collect();
    let mut text = named.join(", ");
    append_rest(&mut text, frontends.len(), MAX_FRONTENDS);
    let local = match policy {
        Policy::Cluster => "",
        Policy::Local => "local ",
    };
    let noun = if *after == 1 { "endpoint" } else { "endpoints" };
    // Writing to a String cannot fail.
    let _ = write!(text, ": {before} -> {after} {local}{noun}");
    append_changes(&mut text, added, removed);
    text
}

fn masquerade(before: Option<&MasqueradedClients>, after: Option<&MasqueradedClients>) -> String {
    use MasqueradedClients::{All, OutsideInterface, OutsideNetwork};
    let traffic = |clients: &MasqueradedClients| match clients {
        All => "all traffic".to_owned(),
        OutsideNetwork(network) => format!("traffic from outside {network}"),
        OutsideInterface(name) => format!("traffic by interfaces other than {name}"),
    };
    match (before, after) {
        (Some(OutsideNetwork(old)), Some(OutsideNetwork(new))) => {
            format!("traffic from outside {new} instead of {old} is masqueraded")
        }
        (Some(old), Some(new)) => {
            let (old, new) = (traffic(old), traffic(new));
            format!("{new} is masqueraded, instead of {old}")
        }
        (Some(old), None) => format!("{} is no longer masqueraded", traffic(old)),
        (None, Some(new)) => format!("{} is now masqueraded", traffic(new)),
        // Such an effect is never made.
        (None, None) => String::new(),
    }
}

/// Appends the first additions and removals, and the numbers of the others.
fn append_changes<T: ToString>(text: &mut String, added: &[T], removed: &[T]) {
    for one in added.iter().take(MAX_ADDRESSES) {
        let one = green(format!("+{}", one.to_string()));
        let _ = write!(text, ", {one}");
    }
    append_rest(text, added.len(), MAX_ADDRESSES);
    for one in removed.iter().take(MAX_ADDRESSES) {
        let one = red(format!("-{}", one.to_string()));
        let _ = write!(text, ", {one}");
    }
    append_rest(text, removed.len(), MAX_ADDRESSES);
}

fn append_rest(text: &mut String, count: usize, max: usize) {
    if let Some(rest) = count.checked_sub(max).filter(|rest| *rest > 0) {
        let _ = write!(text, " and {rest} more");
    }
}

/// Returns the words for a disposition other than served.
const fn disposition(disposition: FrontendDisposition) -> Option<&'static str> {
    match disposition {
        FrontendDisposition::Served => None,
        FrontendDisposition::Dropped => Some("dropped: no endpoint on this node"),
        FrontendDisposition::Rejected => Some("rejected: no endpoints"),
        FrontendDisposition::Unreachable => Some("unreachable: no jump leads to an endpoint"),
    }
}

fn timeout(affinity: Option<Duration>) -> String {
    affinity.map_or_else(
        || "none".to_owned(),
        |timeout| format!("{} s", timeout.as_secs()),
    )
}

/// Text in a style. Escape codes are always written; the command strips them where the output is
/// not a terminal.
pub(super) struct Styled<T> {
    style: Style,
    text: T,
}

impl<T: Display> Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { style, text } = self;
        write!(f, "{style}{text}{style:#}")
    }
}

/// Marks text that only the desired side has.
pub(super) const fn green<T>(text: T) -> Styled<T> {
    let style = AnsiColor::Green.on_default();
    Styled { style, text }
}

/// Marks text that only the live side has.
pub(super) const fn red<T>(text: T) -> Styled<T> {
    let style = AnsiColor::Red.on_default();
    Styled { style, text }
}

/// Marks the name of a service port, or a title.
const fn bold<T>(text: T) -> Styled<T> {
    let style = Style::new().bold();
    Styled { style, text }
}
