//! `diff`: compares the live rules with the desired ones.
//!
//! Loads the two sides, prints the differences that [`diff`](crate::inspect::diff) finds and
//! returns the exit code. The live side comes from the kernel, another node, a dump, older objects
//! or a past moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use serde_json::Value;

use super::arguments::{self, RuleSettings, check_stdin, given_once};
use super::exit::{ErrorReport, is_broken_pipe};
use super::snapshot::{self, RenderSide, RuleOrigin, RuleSnapshot};
use super::terminal::{self, Progress, escaped};
use crate::config::{DiffArgs, DiffFormat, PastTime, RenderConfig, Source, SourceArgs, Unusable};
use crate::host::RunError;
use crate::ingest::ObjectName;
use crate::inspect::catalog::{NoMatches, PortQuery};
use crate::inspect::diff::{self, ManifestFacts, PortSelection, Review, RulesetText, compare};
use crate::model::Kind;
use crate::net::{IpFamily, PerFamily};
use crate::render::{Counter, Options};
use crate::rules::{Backend, Match, Rule, RuleSet, Table, Target};
use crate::ruleset::{KUBE_FORWARD, KUBE_NODEPORTS, KUBE_POSTROUTING, flattened, is_proxy_chain};
use crate::text::first_of;
use crate::tracker::Tracker;
use crate::watch::manifests::{self, Manifests, WrittenObjects};

/// Prints the differences, and returns whether there are none: also if the reader of the output
/// closes it early, as `head` does. The result is known before anything is printed, so that it does
/// not depend on how much of the output a pipe holds.
pub(super) fn diff(args: &DiffArgs, report: &ErrorReport) -> anyhow::Result<bool> {
    let selected = args.selection.query()?;
    terminal::install_quiet_log()?;
    let settings = RuleSettings::read(&args.desired)?;
    let sides = load(args, &settings)?.only(&selected)?;
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
    match print(args, &sides, &reviews, &facts) {
        Err(error) if !is_broken_pipe(&error) => Err(error),
        _ => Ok(are_equal),
    }
}

/// Loads both sides as the flags select them.
fn load(args: &DiffArgs, settings: &RuleSettings<'_>) -> anyhow::Result<Sides> {
    let saved = args.from_save.iter().map(|path| ("from-save", &**path));
    let before = args.from_manifests.iter();
    let before = before.map(|path| ("from-manifests", &**path));
    let after = args.desired.source.manifests.as_deref();
    check_stdin(
        saved
            .chain(before)
            .chain(after.map(|path| ("manifests", path))),
    )?;
    if let (Some(folder), moments) = (&args.state_dir, &args.at[..]) {
        return of_moments(folder, moments);
    }
    match given_once("from-manifests", &args.from_manifests)? {
        Some(path) => of_manifests(args, settings, path),
        None => of_host(args, settings),
    }
}

/// Loads the rules of this node, of another one or of a dump, and the objects to compare them with.
fn of_host(args: &DiffArgs, settings: &RuleSettings<'_>) -> anyhow::Result<Sides> {
    let host = match &args.node {
        Some(node) => snapshot::of_node(settings.api_options()?, node)?,
        // A comparison verifies the daemon as well.
        None => RuleSnapshot::of_host(&args.from_save, None, settings).map_err(not_readable)?,
    };
    // Before any problem of the objects, which may be due to it.
    if let Some(absence) = host.absence() {
        tracing::warn!("{}", escaped(&absence));
    }
    let mut config = settings
        .rendering()?
        .with_request_timeout(&args.desired.request);
    if let Some(node) = &args.node {
        config.node_name.clone_from(node);
    }
    // Any error of manifests is returned, as a missing object would be a difference.
    let trackers = snapshot::read_objects(&config, None)?.0;
    check_node(&config, &trackers)?;
    let _progress = Progress::start("rendering");
    let desired = Desired::new(&config, trackers, &host)?;
    let names = [host.origin.to_string(), name_of(&args.desired.source)];
    let mut right = PerFamily::<RuleSet>::default();
    for family in host.families.iter().copied() {
        let missing = host.missing_tables.get(family);
        let missing = missing | host.unreadable_tables.get(family);
        let right = right.get_mut(family);
        *right = desired.rules(family)?;
        for table in &missing {
            right.clear(*table);
        }
    }
    Ok(Sides {
        absence_reason: match host.origin {
            RuleOrigin::Saved(_) => "no dump of it was given",
            _ if args.node.is_some() => "the node has no rules of it",
            _ => "this kernel does not support it",
        },
        right: right.map(|_, rules| flattened(rules)),
        live: RuleSnapshot {
            rules: host.rules.map(|_, rules| flattened(rules)),
            ..host
        },
        names,
        ..Sides::default()
    })
}

fn of_moments(folder: &Path, moments: &[PastTime]) -> anyhow::Result<Sides> {
    let [before, after] = moments else {
        let problem = "must be given twice: the rules of the first moment are compared with those \
                       of the second";
        return Err(Unusable::of_flag("at", problem.to_owned()).into());
    };
    let [left, right] =
        [before, after].map(|at| RuleSnapshot::past(folder, arguments::moment(*at)));
    let (left, right) = (left?, right?);
    Ok(Sides {
        absence_reason: "the history does not have it at both moments",
        names: [left.origin.to_string(), right.origin.to_string()],
        live: RuleSnapshot {
            families: &left.families & &right.families,
            rules: left.rules.map(|_, rules| flattened(rules)),
            ..left
        },
        right: right.rules.map(|_, rules| flattened(rules)),
        ..Sides::default()
    })
}

/// Adds a hint to an error of reading the kernel.
fn not_readable(error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        // It has a hint of its own.
        Ok(error @ RunError::Spawn { .. }) => error.into(),
        Ok(error) => {
            anyhow::anyhow!("{error}\nhint: use --from-save FILE to compare a dump without root")
        }
        Err(error) => error,
    }
}

/// Loads two sets of objects.
fn of_manifests(
    args: &DiffArgs,
    settings: &RuleSettings<'_>,
    before: &Path,
) -> anyhow::Result<Sides> {
    let config = settings.rendering()?.read_once(&args.desired.request);
    let Source::Manifests {
        path, validation, ..
    } = &config.source
    else {
        anyhow::bail!("--from-manifests requires --manifests");
    };
    let options = config.manifest_options();
    let names = [
        format!("`{}`", before.display()),
        name_of(&args.desired.source),
    ];
    let _progress = Progress::start("reading and rendering manifests");
    let load = |path| manifests::load_compared(path, &options, *validation);
    let (before, written_before) = load(before)?;
    let (after, written_after) = load(path)?;
    let assumed = [&before.assumptions[..], &after.assumptions].concat();
    let assumptions = manifests::assumption_lines(&assumed);
    let desired = |manifests: &Manifests| {
        let trackers = snapshot::manifest_trackers(&config, manifests);
        Desired::new(&config, trackers, &RuleSnapshot::default())
    };
    let (before, after) = (desired(&before)?, desired(&after)?);
    let mut left = PerFamily::<RuleSet>::default();
    let mut right = PerFamily::<RuleSet>::default();
    for family in IpFamily::ALL {
        *left.get_mut(family) = before.rules(family)?;
        *right.get_mut(family) = after.rules(family)?;
    }
    Ok(Sides {
        live: RuleSnapshot {
            families: IpFamily::ALL.into(),
            rules: left.map(|_, rules| flattened(rules)),
            ..RuleSnapshot::default()
        },
        right: right.map(|_, rules| flattened(rules)),
        names,
        written: [written_before, written_after],
        assumptions,
        ..Sides::default()
    })
}

fn name_of(source: &SourceArgs) -> String {
    match &source.manifests {
        Some(path) => format!("`{}`", path.display()),
        None => "the cluster".to_owned(),
    }
}

/// Objects and render options of both families, for the host that the live rules were read from:
/// facts that only the host knows are adopted from its rules.
struct Desired {
    trackers: PerFamily<Tracker>,
    options: PerFamily<Options>,
}

impl Desired {
    /// Takes the facts of the host whose rules are in a snapshot; by default it is unknown.
    fn new(
        config: &RenderConfig,
        trackers: PerFamily<Tracker>,
        host: &RuleSnapshot,
    ) -> anyhow::Result<Self> {
        let mut options = PerFamily::from_fn(Options::defaults);
        for family in IpFamily::ALL {
            let of_family = options.get_mut(family);
            *of_family = resolve(config, family, trackers.get(family), host)?;
            adopt_facts(of_family, host.rules.get(family));
        }
        Ok(Self { trackers, options })
    }

    fn rules(&self, family: IpFamily) -> anyhow::Result<RuleSet> {
        let side = RenderSide {
            tracker: self.trackers.get(family),
            options: self.options.get(family),
        };
        Ok(side.rules()?.0)
    }
}

/// Checks that the node exists. Without its Node object, local endpoints, zones and primary
/// addresses would all differ.
fn check_node(config: &RenderConfig, trackers: &PerFamily<Tracker>) -> anyhow::Result<()> {
    let is_cluster = matches!(config.source, Source::Cluster(_));
    anyhow::ensure!(
        !is_cluster || trackers.v4.node().is_some(),
        "node `{}` is not in the cluster\n\
         hint: set --hostname-override to the node that these rules are of",
        config.node_name
    );
    Ok(())
}

/// Returns the render options. Of another host than this one, only the addresses in its Node are
/// known.
fn resolve(
    config: &RenderConfig,
    family: IpFamily,
    tracker: &Tracker,
    host: &RuleSnapshot,
) -> anyhow::Result<Options> {
    if !host.origin.is_of_another_host() {
        return snapshot::options(config, family, tracker);
    }
    let node = tracker.node();
    let mut addresses: Vec<IpAddr> = node.map(|node| node.addresses.clone()).unwrap_or_default();
    addresses.push(Ipv4Addr::LOCALHOST.into());
    addresses.retain(|ip| IpFamily::of(*ip) == family);
    Ok(config.render_settings.get(family).options(node, &addresses))
}

/// Adopts the facts that only the host of these rules knows: capabilities of its kernel and
/// iptables binaries, and sysctls; none if one of the fixed chains with them is missing or empty.
fn adopt_facts(options: &mut Options, host: &RuleSet) {
    let forward = host.rules_of(Table::Filter, KUBE_FORWARD);
    let postrouting = host.rules_of(Table::Nat, KUBE_POSTROUTING);
    if forward.is_empty() || postrouting.is_empty() {
        return;
    }
    let drop = forward.iter().find(|rule| drops_invalid(rule));
    let counts_drops = drop.is_some_and(has_counter);
    // Without NodePorts no rule shows it, but a kernel with one counter has the other as well.
    let counts_localhost = match host.rules_of(Table::Nat, KUBE_NODEPORTS) {
        [] => counts_drops,
        rules => rules.iter().any(has_counter),
    };
    options.drops_invalid_packets = drop.is_some();
    let counters = [
        (Counter::InvalidDropped, counts_drops),
        (Counter::LocalhostNodePorts, counts_localhost),
    ];
    let counters = counters.into_iter().filter(|(_, is_used)| *is_used);
    options.counters = counters.map(|(counter, _)| counter).collect();
    let fully_random = Target::Masquerade {
        is_fully_random: true,
    };
    let mut targets = postrouting.iter().filter_map(|rule| rule.target.as_ref());
    options.masquerade.is_random_fully = targets.any(|target| *target == fully_random);
}

fn drops_invalid(rule: &Rule) -> bool {
    let is_invalid =
        |one: &Match| matches!(one, Match::Conntrack(states) if states.value.contains("INVALID"));
    rule.target == Some(Target::Drop) && rule.matches.iter().any(is_invalid)
}

fn has_counter(rule: &Rule) -> bool {
    rule.matches.iter().any(|one| one.name() == "nfacct")
}

/// Live rules on the left and desired rules on the right.
#[derive(Default)]
struct Sides {
    /// Live side, of the families that are compared.
    live: RuleSnapshot,
    right: PerFamily<RuleSet>,
    /// Selected service ports; `None`: all.
    chosen: Option<PortSelection>,
    absence_reason: &'static str,
    /// Sources of the live and the desired side.
    names: [String; 2],
    /// Objects of both sides; empty if a side is not manifests.
    written: [WrittenObjects; 2],
    /// Values that the manifests lack.
    assumptions: Vec<String>,
}

impl Sides {
    /// Limits the comparison to the selected service ports.
    ///
    /// # Errors
    ///
    /// A name has no match.
    fn only(self, selected: &PortQuery) -> Result<Self, NoMatches> {
        if selected.is_all() {
            return Ok(self);
        }
        let live = &self.live.rules;
        let rules = self
            .families()
            .flat_map(|family| [live.get(family), self.right.get(family)]);
        let chosen = PortSelection::of(selected, &rules.collect::<Vec<_>>())?;
        Ok(Self {
            chosen: Some(chosen),
            ..self
        })
    }

    fn families(&self) -> impl Iterator<Item = IpFamily> {
        self.live.families.iter().copied()
    }

    /// Prints errors about live rules that cannot be read, and about those that are not compared.
    fn report_not_compared(&self, report: &ErrorReport) {
        let [live, _] = &self.names;
        for family in self.families() {
            let tables = self.live.unreadable_tables.get(family).iter();
            for table in tables.filter(|table| holds_services(**table)) {
                report.print_one(&format_args!(
                    "{live}: {family} {table} is not compared: the save program could not read it\n\
                     hint: `nft list ruleset` lists the rules that iptables cannot express"
                ));
            }
        }
        for (family, other) in self.live.other_backends.pairs() {
            if let Some((other, _)) = other {
                report.print_one(&format_args!(
                    "{live}: {family} rules of a proxy in backend {other} are not compared, and \
                     packets traverse both\n\
                     hint: `deltaproxy cleanup --iptables-backend={other}` removes them"
                ));
            }
        }
        for family in self.families() {
            if let Some(rules) = unreadable(self.live.rules.get(family)) {
                report.print_one(&format_args!(
                    "{live}: {family} rules cannot be read, and differ from all others: {rules}"
                ));
            }
        }
    }

    /// Returns a line for each part that is not compared, with the reason.
    fn gaps(&self) -> impl Iterator<Item = String> {
        let absent = IpFamily::ALL.into_iter();
        let absent = absent.filter(|family| !self.live.families.contains(family));
        let absent =
            absent.map(|family| format!("{family} is not compared: {}", self.absence_reason));
        let tables = self.families().flat_map(|family| {
            let unreadable = self.live.unreadable_tables.get(family);
            let tables = self.live.missing_tables.get(family).difference(unreadable);
            let missing = tables.map(move |table| {
                format!("{family} {table} is not compared: the dump has no such table")
            });
            let unreadable = unreadable.iter().filter(|table| !holds_services(**table));
            missing.chain(unreadable.map(move |table| {
                format!("{family} {table} is not compared: the save program could not read it")
            }))
        });
        absent.chain(tables)
    }

    /// Returns the lines that say which side is which, and what is not compared.
    fn notes(&self) -> Vec<String> {
        let [live, desired] = &self.names;
        let heading = [format!("live: {live}"), format!("desired: {desired}")].into_iter();
        let lines = heading.chain(self.gaps());
        lines.map(|line| escaped(&line).into_owned()).collect()
    }

    /// Returns what the rules of manifests do not show.
    fn facts(&self, reviews: &[Review<'_>]) -> ManifestFacts {
        let [before, after] = &self.written;
        let ports = reviews.iter().flat_map(|review| {
            let ports = review.ports.iter().map(|port| &port.name);
            ports.chain(&review.not_selected.ports)
        });
        let shown: BTreeSet<_> = ports
            .map(|port| (port.namespace(), port.service()))
            .collect();
        let is_hidden = |namespace: &str, service: &str| {
            let chosen = self.chosen.as_ref();
            chosen.is_none_or(|chosen| chosen.has_service(namespace, service))
                && !shown.contains(&(namespace, service))
        };
        let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let hidden = names.into_iter().filter(|key| {
            let sides = [before.get(key), after.get(key)];
            let mut objects = sides.iter().flatten();
            let service = objects.find_map(|object| service_of(key, object));
            let service = escaped(service.unwrap_or_default());
            sides[0] != sides[1] && is_hidden(&escaped(&key.1.namespace), &service)
        });
        ManifestFacts {
            hidden_objects: hidden.count(),
            assumptions: self
                .assumptions
                .iter()
                .map(|line| escaped(line).into_owned())
                .collect(),
        }
    }

    /// Compares each family.
    fn reviews(&self) -> Vec<Review<'_>> {
        let review = |family| {
            let mut review = compare(family, self.live.rules.get(family), self.right.get(family));
            let legacy = Some(Backend::Legacy);
            let has_legacy = self.live.families_with_legacy.contains(&family);
            let other = self.live.other_backends.get(family).as_ref();
            let other = other.map(|(backend, _)| *backend);
            review.other_backend = other.or(legacy.filter(|_| has_legacy));
            match &self.chosen {
                Some(chosen) => review.only(chosen),
                None => review,
            }
        };
        self.families().map(review).collect()
    }
}

/// Returns the Service that an object is or belongs to.
fn service_of<'o>((kind, name): &'o (Kind, ObjectName), value: &'o Value) -> Option<&'o str> {
    const LABEL: &str = "/metadata/labels/kubernetes.io~1service-name";

    match kind {
        Kind::EndpointSlice => value.pointer(LABEL).and_then(Value::as_str),
        Kind::Service | Kind::Node => Some(&name.name),
    }
}

/// Returns the number of unreadable rules in each chain of the proxy; `None` if there are none.
fn unreadable(live: &RuleSet) -> Option<String> {
    let mut counts: BTreeMap<(Table, &str), usize> = BTreeMap::new();
    let unparsed = live.unparsed_rules();
    for (table, chain, _) in unparsed.filter(|(table, chain, _)| is_proxy_chain(*table, chain)) {
        *counts.entry((table, chain)).or_default() += 1;
    }
    let counts = counts.into_iter();
    let texts: Vec<String> = counts
        .map(|((table, chain), count)| format!("{count} of {table} {chain}"))
        .collect();
    (!texts.is_empty()).then(|| first_of(texts, MAX_CHAINS))
}

/// Maximum chains in one line.
const MAX_CHAINS: usize = 10;

/// Reports whether rules of Services are in a table. In mangle there is only a canary.
const fn holds_services(table: Table) -> bool {
    match table {
        Table::Filter | Table::Nat => true,
        Table::Mangle => false,
    }
}

/// Prints the differences in the format that the flags select.
fn print(
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
            text.push_str(&diff::summary(reviews, facts));
            for note in sides.notes() {
                writeln!(text, "{note}")?;
            }
            diff::text(text, reviews, facts)
        }),
        DiffFormat::Markdown => print_text(|text| {
            let rules = reviews.iter().map(|review| {
                let mut rules = String::new();
                write_unified(&mut rules, sides, review)?;
                Ok((review.family, rules))
            });
            let rules = rules.collect::<Result<Vec<_>, fmt::Error>>()?;
            diff::markdown(text, reviews, facts, &sides.notes(), &rules)
        }),
        DiffFormat::Json => terminal::print(format!("{:#}\n", diff::json(reviews, facts))),
        DiffFormat::Unified => print_text(|text| {
            let mut reviews = reviews.iter();
            reviews.try_for_each(|review| write_unified(text, sides, review))
        }),
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
    terminal::print(text)
}

/// Writes the output of `diff -u` for one family.
fn write_unified(text: &mut String, sides: &Sides, review: &Review<'_>) -> fmt::Result {
    let (family, [left, right]) = (review.family, sides_as_text(sides, review));
    let [old, new] = NAMES.map(|side| format!("{side}/{family}"));
    diff::unified(text, (&old, &new), &left, &right)
}

/// Returns the live and the desired rules as text, limited to the selected service ports and
/// without what is not compared.
fn sides_as_text<'s>(sides: &'s Sides, review: &Review<'_>) -> [RulesetText<'s>; 2] {
    let family = review.family;
    let (left, right) = (sides.live.rules.get(family), sides.right.get(family));
    let both = [
        RulesetText::of(left, right, right),
        RulesetText::of(right, left, right),
    ];
    match &sides.chosen {
        Some(chosen) => both.map(|text| text.only(chosen)),
        None => both,
    }
}

/// Directories in the paths of the two sides.
const NAMES: [&str; 2] = ["LIVE", "DESIRED"];

#[cfg(test)]
#[path = "tests/diff.rs"]
mod tests;
