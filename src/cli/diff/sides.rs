//! Live and desired rules of each family, and the restore that turns one into the other.
//!
//! The live side comes from the kernel, a dump or older objects; the restore depends on which.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::arguments::{RuleSettings, given_once};
use super::super::exit::ErrorReport;
use super::super::restore::{NextRestore, RenderSide};
use super::super::snapshot::{self, RuleOrigin, missing};
use super::desired::Desired;
use super::objects::ComparedObjects;
use crate::config::{DiffArgs, Source, SourceArgs, Unusable};
use crate::inspect::catalog::PortQuery;
use crate::inspect::diff::{
    FieldReview, PlannedRestore, PortSelection, RestoreScope, Review, compare, restore_comments,
};
use crate::inspect::explain::ServiceWithoutRules;
use crate::net::{IpFamily, PerFamily};
use crate::render::{AppliedState, PartialRestore};
use crate::rules::{Backend, RuleSet, Table};
use crate::ruleset::flattened;
use crate::sync::FullReason;
use crate::watch::manifests;

/// Live rules on the left and desired rules on the right.
pub(super) struct Sides {
    pub(super) left: PerFamily<RuleSet>,
    pub(super) right: PerFamily<RuleSet>,
    /// Selected service ports; `None`: all.
    pub(super) chosen: Option<PortSelection>,
    families: BTreeSet<IpFamily>,
    absence_reason: &'static str,
    /// Tables that the live side lacks because they were not saved.
    missing_tables: PerFamily<BTreeSet<Table>>,
    /// Tables of the live side that could not be read.
    unreadable_tables: PerFamily<BTreeSet<Table>>,
    /// Families with rules of the backend legacy that the live side lacks.
    families_with_legacy: BTreeSet<IpFamily>,
    /// Numbers of comments of the live side that were removed or replaced.
    altered_comments: PerFamily<usize>,
    /// Sentence if the live side has no rules of a proxy.
    absence: Option<String>,
    /// Sources of the live and the desired side.
    names: [String; 2],
    restores: PerFamily<Option<PlannedRestore>>,
    /// Objects of both sides, if both are manifests.
    objects: ComparedObjects,
    /// Namespaces and names of Services that a side has only in part, as objects are invalid.
    incomplete: BTreeSet<(String, String)>,
}

impl Sides {
    /// Loads both sides as the flags select them.
    pub(super) fn load(
        args: &DiffArgs,
        settings: &RuleSettings<'_>,
        report: &ErrorReport,
    ) -> anyhow::Result<Self> {
        check_stdin(args)?;
        match given_once("from-manifests", &args.from_manifests)? {
            Some(path) => of_manifests(args, settings, path, report),
            None => of_host(args, settings, report),
        }
    }

    /// Limits the comparison to the selected service ports.
    ///
    /// # Errors
    ///
    /// A name has no match; if its Service never has rules, the error says why.
    pub(super) fn only(
        self,
        selected: &PortQuery,
        args: &DiffArgs,
        settings: &RuleSettings<'_>,
    ) -> anyhow::Result<Self> {
        let families = self.families.iter();
        let rules = families.flat_map(|family| [self.left.get(*family), self.right.get(*family)]);
        match PortSelection::of(selected, &rules.collect::<Vec<_>>()) {
            Ok(chosen) => Ok(Self { chosen, ..self }),
            Err(no_matches) => {
                missing::explained(Err(no_matches), || without_rules(args, settings))?;
                Ok(self)
            }
        }
    }

    /// Returns the families that are compared.
    pub(super) fn families(&self) -> impl Iterator<Item = IpFamily> {
        self.families.iter().copied()
    }

    /// Prints errors about live rules that cannot be read, and what is not compared because of
    /// them.
    pub(super) fn report_not_compared(&self, reviews: &[Review<'_>], report: &ErrorReport) {
        let [live, _] = &self.names;
        for family in self.families() {
            let tables = self.unreadable_tables.get(family).iter();
            for table in tables.filter(|table| holds_services(**table)) {
                report.print_one(&format_args!(
                    "{live}: {family} {table} is not compared: the save program could not read it\n\
                     hint: `nft list ruleset` lists the rules that iptables cannot express"
                ));
            }
        }
        for text in reviews.iter().filter_map(Review::not_compared_text) {
            report.print_one(&format_args!("{live}: {text}"));
        }
    }

    /// Returns a line for each part that is not compared, with the reason, and for comments that
    /// are not compared.
    pub(super) fn gaps(&self) -> impl Iterator<Item = String> {
        let absent = IpFamily::ALL.into_iter();
        let absent = absent.filter(|family| !self.families.contains(family));
        let absent =
            absent.map(|family| format!("{family} is not compared: {}", self.absence_reason));
        let tables = self.families().flat_map(|family| {
            let unreadable = self.unreadable_tables.get(family);
            let tables = self.missing_tables.get(family).difference(unreadable);
            let missing = tables.map(move |table| {
                format!("{family} {table} is not compared: the dump has no such table")
            });
            let unreadable = unreadable.iter().filter(|table| !holds_services(**table));
            missing.chain(unreadable.map(move |table| {
                format!("{family} {table} is not compared: the save program could not read it")
            }))
        });
        let altered = self
            .families()
            .map(|family| (family, *self.altered_comments.get(family)));
        let altered = altered.filter(|(_, count)| *count > 0).map(|(family, count)| {
            format!(
                "{family} comments are not compared: {count} that name Services were removed or \
                 replaced; Services are recognized by their chains"
            )
        });
        let absence = self.absence.iter().cloned();
        absence.chain(absent).chain(tables).chain(altered)
    }

    /// Returns the lines that say which side is which.
    pub(super) fn heading(&self) -> String {
        let [live, desired] = &self.names;
        format!("live: {live}\ndesired: {desired}\n")
    }

    /// Compares the fields of objects.
    pub(super) fn fields(&self, reviews: &[Review<'_>]) -> FieldReview {
        let review = self.objects.review(reviews);
        match &self.chosen {
            Some(chosen) => review.only(chosen),
            None => review,
        }
    }

    /// Compares each family.
    pub(super) fn reviews(&self) -> Vec<Review<'_>> {
        let review = |family| {
            let review = compare(family, self.left.get(family), self.right.get(family));
            let restore = self.restores.get(family).clone();
            let is_needed = |restore: &PlannedRestore| restore.bytes > 0 && !review.is_empty();
            let mut review = Review {
                restore: restore.filter(is_needed),
                ..review
            };
            let legacy = Some(Backend::Legacy);
            let has_legacy = self.families_with_legacy.contains(&family);
            review.not_compared.backend = legacy.filter(|_| has_legacy);
            let review = review.without_incomplete(&self.incomplete);
            match &self.chosen {
                Some(chosen) => review.only(chosen),
                None => review,
            }
        };
        self.families().map(review).collect()
    }
}

/// Reports whether rules of Services are in a table. In mangle there is only a canary.
const fn holds_services(table: Table) -> bool {
    match table {
        Table::Filter | Table::Nat => true,
        Table::Mangle => false,
    }
}

/// Returns the Services of both sides that never have rules; `None` if these are unknown.
fn without_rules(
    args: &DiffArgs,
    settings: &RuleSettings<'_>,
) -> anyhow::Result<Option<Vec<ServiceWithoutRules>>> {
    let mut all = missing::services_of_config(&settings.rendering(&args.source)?)?;
    let before = given_once("from-manifests", &args.from_manifests)?;
    if let (Some(all), Some(before)) = (&mut all, before) {
        let mut source = args.source.clone();
        source.manifests = Some(before.to_path_buf());
        let before = missing::services_of_config(&settings.rendering(&source)?)?;
        for one in before.unwrap_or_default() {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    Ok(all)
}

fn check_stdin(args: &DiffArgs) -> Result<(), Unusable> {
    let saved = args.from_save.iter().map(|path| ("from-save", path));
    let before = args.from_manifests.iter();
    let named = saved.chain(before.map(|path| ("from-manifests", path)));
    let after = args.source.manifests.iter().map(|path| ("manifests", path));
    let mut readers = named
        .chain(after)
        .filter(|(_, path)| path.as_os_str() == "-");
    match (readers.next(), readers.next()) {
        (Some((first, _)), Some((second, _))) => {
            let problem = format!("stdin can be read only once, and --{first} reads it");
            Err(Unusable::of_flag(second, problem))
        }
        _ => Ok(()),
    }
}

/// Loads the rules of a kernel or a dump, and the objects to compare them with.
fn of_host(
    args: &DiffArgs,
    settings: &RuleSettings<'_>,
    report: &ErrorReport,
) -> anyhow::Result<Sides> {
    let mut host = if args.from_save.is_empty() {
        let config = settings.rendering(&args.source)?;
        snapshot::live(config.backend)?
    } else {
        snapshot::saved(&args.from_save, report)?
    };
    let desired = Desired::for_host(settings, &args.source, &host, report)?;
    let absence = host.absence();
    let names = [host.origin.to_string(), name_of(&args.source)];
    let mut right = PerFamily::from_fn(|_| RuleSet::default());
    let mut restores = PerFamily::from_fn(|_| None);
    let mut altered_comments = PerFamily::default();
    for family in host.families.iter().copied() {
        let side = desired.side(family);
        let missing = host.missing_tables.get(family);
        let missing = missing | host.unreadable_tables.get(family);
        let right = right.get_mut(family);
        *right = side.rules()?.0;
        for table in &missing {
            right.clear(*table);
        }
        *altered_comments.get_mut(family) = restore_comments(host.rules.get_mut(family), right);
        // A restore depends on the live rules of all tables that Services use.
        if !missing.iter().any(|table| *table != Table::Mangle) {
            *restores.get_mut(family) = Some(first_restore(side, host.rules.get(family))?);
        }
    }
    Ok(Sides {
        absence_reason: match host.origin {
            RuleOrigin::Saved(_) => "no dump of it was given",
            RuleOrigin::Live(_) | RuleOrigin::Desired => "this kernel does not support it",
        },
        left: host.rules.map(|_, rules| flattened(rules)),
        right: right.map(|_, rules| flattened(rules)),
        chosen: None,
        families: host.families,
        missing_tables: host.missing_tables,
        unreadable_tables: host.unreadable_tables,
        families_with_legacy: host.families_with_legacy,
        altered_comments,
        absence,
        names,
        restores,
        objects: ComparedObjects::default(),
        incomplete: BTreeSet::new(),
    })
}

/// Loads two sets of objects: the restore is that of a daemon that has applied the first one.
fn of_manifests(
    args: &DiffArgs,
    settings: &RuleSettings<'_>,
    before: &Path,
    report: &ErrorReport,
) -> anyhow::Result<Sides> {
    let config = settings.rendering(&args.source)?;
    let config = config.with_load_balancers(args.preview.manifests_load_balancer_cidr);
    let Source::Manifests {
        path,
        ranges,
        validation,
    } = &config.source
    else {
        anyhow::bail!("--from-manifests requires --manifests");
    };
    let options = config.manifest_options(ranges);
    let names = [format!("`{}`", before.display()), name_of(&args.source)];
    let pair = manifests::load_pair([before, path], &options, *validation)?;
    report.print(&pair.before.errors);
    report.print(&pair.after.errors);
    let objects = ComparedObjects::of(&pair, ranges);
    let incomplete = pair.incomplete_services.iter();
    let incomplete = incomplete.map(|one| (one.namespace.clone(), one.name.clone()));
    let incomplete = incomplete.collect();
    let before = Desired::of_manifests(&config, pair.before)?;
    let after = Desired::of_manifests(&config, pair.after)?;
    let mut left = PerFamily::from_fn(|_| RuleSet::default());
    let mut right = PerFamily::from_fn(|_| RuleSet::default());
    let mut restores = PerFamily::from_fn(|_| None);
    for family in IpFamily::ALL {
        let (old, new) = (before.side(family), after.side(family));
        let (rules, ledger) = old.rules()?;
        let restore = next_restore((old, new), (&rules, ledger))?;
        *restores.get_mut(family) = Some(restore);
        *left.get_mut(family) = rules;
        *right.get_mut(family) = new.rules()?.0;
    }
    Ok(Sides {
        left: left.map(|_, rules| flattened(rules)),
        right: right.map(|_, rules| flattened(rules)),
        chosen: None,
        families: IpFamily::ALL.into(),
        absence_reason: "",
        missing_tables: PerFamily::default(),
        unreadable_tables: PerFamily::default(),
        families_with_legacy: BTreeSet::new(),
        altered_comments: PerFamily::default(),
        absence: None,
        names,
        restores,
        objects,
        incomplete,
    })
}

/// Returns the name of a source of objects.
fn name_of(source: &SourceArgs) -> String {
    match &source.manifests {
        Some(path) => format!("`{}`", path.display()),
        None => "the cluster".to_owned(),
    }
}

/// Returns the restore of a daemon that starts on a host with the `live` rules.
fn first_restore(side: RenderSide<'_>, live: &RuleSet) -> anyhow::Result<PlannedRestore> {
    full(side, live, FullReason::First.as_str())
}

/// Returns the restore of a daemon when objects change.
fn next_restore(
    (before, after): (RenderSide<'_>, RenderSide<'_>),
    (live, ledger): (&RuleSet, AppliedState),
) -> anyhow::Result<PlannedRestore> {
    let (services, partial) = match after.after(before, ledger, PartialRestore::ChangedChains) {
        NextRestore::Full(why) => return full(after, live, why.as_str()),
        NextRestore::Partial(services, partial) => (services, partial),
    };
    Ok(PlannedRestore {
        scope: RestoreScope::Partial,
        reason: match services {
            0 => "node port addresses changed",
            _ => "services changed",
        },
        services: Some(services),
        chains: partial.stats.chains,
        lines: count_lines(&partial.text),
        bytes: partial.stats.bytes,
        payload: Some(String::from_utf8_lossy(&partial.text).into_owned()),
    })
}

fn full(
    side: RenderSide<'_>,
    live: &RuleSet,
    reason: &'static str,
) -> anyhow::Result<PlannedRestore> {
    let mut lines = 0;
    let stats = side.full(live, |piece| {
        lines += count_lines(piece);
        Ok(())
    })?;
    Ok(PlannedRestore {
        scope: RestoreScope::Full,
        reason,
        services: None,
        chains: stats.chains,
        lines,
        bytes: stats.bytes,
        payload: None,
    })
}

fn count_lines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}
