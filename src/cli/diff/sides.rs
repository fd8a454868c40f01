//! Live and desired rules of each family, the parts of them that are compared, and the output of
//! the comparison in each format.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use serde_json::Value;

use super::super::exit::ErrorReport;
use super::super::snapshot::RuleSnapshot;
use super::super::terminal::{self, escaped};
use crate::config::{DiffArgs, DiffFormat};
use crate::ingest::ObjectName;
use crate::inspect::catalog::{NoMatches, PortQuery};
use crate::inspect::diff::{self, ManifestFacts, PortSelection, Review, RulesetText, compare};
use crate::model::Kind;
use crate::net::{IpFamily, PerFamily};
use crate::rules::{Backend, RuleSet, Table};
use crate::ruleset::is_proxy_chain;
use crate::text::first_of;
use crate::watch::manifests::WrittenObjects;

/// Live rules on the left and desired rules on the right.
#[derive(Default)]
pub(super) struct Sides {
    /// Live side, of the families that are compared.
    pub(super) live: RuleSnapshot,
    pub(super) right: PerFamily<RuleSet>,
    /// Selected service ports; `None`: all.
    pub(super) chosen: Option<PortSelection>,
    pub(super) absence_reason: &'static str,
    /// Sources of the live and the desired side.
    pub(super) names: [String; 2],
    /// Objects of both sides; empty if a side is not manifests.
    pub(super) written: [WrittenObjects; 2],
    /// Values that the manifests lack.
    pub(super) assumptions: Vec<String>,
}

impl Sides {
    /// Limits the comparison to the selected service ports.
    ///
    /// # Errors
    ///
    /// A name has no match.
    pub(super) fn only(self, selected: &PortQuery) -> Result<Self, NoMatches> {
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

    pub(super) fn families(&self) -> impl Iterator<Item = IpFamily> {
        self.live.families.iter().copied()
    }

    /// Prints errors about live rules that cannot be read, and about those that are not compared.
    pub(super) fn report_not_compared(&self, report: &ErrorReport) {
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
        for (family, other) in self.live.other_backends.as_ref().into_pairs() {
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
    pub(super) fn facts(&self, reviews: &[Review<'_>]) -> ManifestFacts {
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
    pub(super) fn reviews(&self) -> Vec<Review<'_>> {
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
pub(super) fn print(
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
