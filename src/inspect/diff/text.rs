//! Renders reviews as text for people, a sentence for each effect, and as Markdown for a pull
//! request or a ticket.
//!
//! Effects on traffic come first, then the chains that differ. Text shows rules only where no
//! effect describes the difference; Markdown is the summary, a table of the effects, and the rules
//! as fenced diffs. Flags that make nearly every Service differ are reported once.

use std::fmt::{self, Display, Write};
use std::time::Duration;

use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};

use super::review::{
    ChainReview, Edit, Effect, EndpointChange, ManifestFacts, MasqueradedClients, PortChange,
    PortReview, Presence, Review, Summary, plural,
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
    Ok(())
}

/// Returns the line about objects of manifests that differ only in what no rule shows.
pub(crate) fn hidden_objects(count: usize) -> String {
    let objects = plural(count, "object differs", "objects differ");
    format!("{objects} only in what no rule shows: see `kubectl diff`")
}

/// Service ports that differ, by how they are shown.
struct PortLists<'r> {
    /// Shown one by one.
    ports: Vec<FamilyPort<'r>>,
    /// Shown as one difference.
    groups: Vec<SettingGroup<'r>>,
    /// Named only.
    cosmetic: Vec<FamilyPort<'r>>,
}

impl<'r> PortLists<'r> {
    fn of(reviews: &'r [Review<'_>]) -> Self {
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

/// A service port in one IP family.
type FamilyPort<'r> = (&'r PortReview<'r>, IpFamily);

/// Service ports of one IP family with one and the same effect.
struct SettingGroup<'r> {
    family: IpFamily,
    effect: &'r Effect,
    ports: Vec<FamilyPort<'r>>,
}

/// Groups service ports that differ only, and in the same way, in which clients are masqueraded.
/// Returns the groups, and the other service ports.
fn groups(ports: Vec<FamilyPort<'_>>) -> (Vec<SettingGroup<'_>>, Vec<FamilyPort<'_>>) {
    let mut groups: Vec<SettingGroup<'_>> = Vec::new();
    let mut others = Vec::new();
    for (port, family) in ports {
        let [effect @ Effect::MasqueradeChanged { .. }] = port.effects.as_slice() else {
            others.push((port, family));
            continue;
        };
        let mut existing = groups.iter_mut();
        match existing.find(|group| (group.family, group.effect) == (family, effect)) {
            Some(group) => group.ports.push((port, family)),
            None => groups.push(SettingGroup {
                family,
                effect,
                ports: vec![(port, family)],
            }),
        }
    }
    let (several, single): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|group| group.ports.len() > 1);
    others.extend(single.into_iter().flat_map(|group| group.ports));
    others.sort_by_key(|(port, family)| (&port.name, *family));
    (several, others)
}

fn write_port(out: &mut dyn Write, port: &PortReview<'_>, family: IpFamily) -> fmt::Result {
    let (name, change) = (bold(&port.name), port.change.as_str());
    writeln!(out, "{name} {change} ({family})")?;
    for effect in &port.effects {
        writeln!(out, "  {}", sentence(effect, &port.name.protocol))?;
    }
    let needs_rules = port.effects.contains(&Effect::OtherRules);
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
fn names(ports: &[FamilyPort<'_>]) -> String {
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

fn write_chain(out: &mut dyn Write, chain: &ChainReview<'_>, with_rules: bool) -> fmt::Result {
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

/// Maximum addresses of each sign in one line: a removed Service with a thousand endpoints would
/// fill the screen.
const MAX_ADDRESSES: usize = 8;

/// Maximum service ports in one line.
const MAX_NAMES: usize = 10;

/// Maximum frontends in one line.
const MAX_FRONTENDS: usize = 4;

/// Returns one line for an effect on a service port with this protocol.
fn sentence(effect: &Effect, protocol: &str) -> String {
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
    let signs = [
        ("+", AnsiColor::Green, added),
        ("-", AnsiColor::Red, removed),
    ];
    for (sign, color, changed) in signs {
        let style = color.on_default();
        for one in changed.iter().take(MAX_ADDRESSES) {
            let _ = write!(text, ", {style}{sign}{}{style:#}", one.to_string());
        }
        append_rest(text, changed.len(), MAX_ADDRESSES);
    }
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
