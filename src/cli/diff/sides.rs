//! Live and desired rules of each family, and the restore that turns one into the other.
//!
//! The live side comes from the kernel, a dump or older objects; the restore depends on which.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::arguments::RuleSettings;
use super::super::exit;
use super::super::restore::{NextRestore, RenderSide};
use super::super::snapshot::{self, RuleOrigin};
use super::desired::Desired;
use super::objects::ComparedObjects;
use crate::config::{DiffArgs, Source, SourceArgs};
use crate::inspect::catalog::{NoMatches, PortQuery};
use crate::inspect::diff::{
    FieldReview, PlannedRestore, PortSelection, RestoreScope, Review, compare,
};
use crate::net::{IpFamily, PerFamily};
use crate::render::{AppliedState, PartialRestore};
use crate::rules::{RuleSet, Table};
use crate::sync::FullReason;
use crate::watch::manifests::{self, ManifestOptions};

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
    /// Sentence if the live side has no rules of a proxy.
    absence: Option<String>,
    /// Sources of the live and the desired side.
    names: [String; 2],
    restores: PerFamily<Option<PlannedRestore>>,
    /// Objects of both sides, if both are manifests.
    objects: ComparedObjects,
}

impl Sides {
    /// Loads both sides as the flags select them.
    pub(super) fn load(args: &DiffArgs, settings: &RuleSettings<'_>) -> anyhow::Result<Self> {
        check_stdin(args)?;
        match &args.from_manifests {
            Some(path) => of_manifests(args, settings, path),
            None => of_host(args, settings),
        }
    }

    /// Limits the comparison to the selected service ports.
    pub(super) fn only(self, selected: &PortQuery) -> Result<Self, NoMatches> {
        let families = self.families.iter();
        let rules = families.flat_map(|family| [self.left.get(*family), self.right.get(*family)]);
        let chosen = PortSelection::of(selected, &rules.collect::<Vec<_>>())?;
        Ok(Self { chosen, ..self })
    }

    /// Returns the families that are compared.
    pub(super) fn families(&self) -> impl Iterator<Item = IpFamily> {
        self.families.iter().copied()
    }

    /// Returns a line for each family that is not compared, with the reason.
    pub(super) fn gaps(&self) -> impl Iterator<Item = String> {
        let absent = IpFamily::ALL.into_iter();
        let absent = absent.filter(|family| !self.families.contains(family));
        let absent =
            absent.map(|family| format!("{family} is not compared: {}", self.absence_reason));
        let tables = self.families().flat_map(|family| {
            let tables = self.missing_tables.get(family).iter();
            tables.map(move |table| {
                format!("{family} {table} is not compared: the dump has no such table")
            })
        });
        self.absence.iter().cloned().chain(absent).chain(tables)
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
            let review = Review {
                restore: restore.filter(is_needed),
                ..review
            };
            match &self.chosen {
                Some(chosen) => review.only(chosen),
                None => review,
            }
        };
        self.families().map(review).collect()
    }
}

fn check_stdin(args: &DiffArgs) -> anyhow::Result<()> {
    let saved = args.from_save.iter();
    let named = saved
        .chain(&args.from_manifests)
        .chain(&args.source.manifests);
    let readers = named.filter(|path| path.as_os_str() == "-").count();
    anyhow::ensure!(
        readers < 2,
        "stdin can be read only once, but `-` is given {readers} times"
    );
    Ok(())
}

/// Loads the rules of a kernel or a dump, and the objects to compare them with.
fn of_host(args: &DiffArgs, settings: &RuleSettings<'_>) -> anyhow::Result<Sides> {
    let host = if args.from_save.is_empty() {
        let config = settings.desired(&args.source)?;
        snapshot::live(config.backend)?
    } else {
        snapshot::saved(&args.from_save)?
    };
    let desired = Desired::for_host(settings, &args.source, &host)?;
    let absence = host.absence();
    let names = [host.origin.to_string(), name_of(&args.source)];
    let mut right = PerFamily::from_fn(|_| RuleSet::default());
    let mut restores = PerFamily::from_fn(|_| None);
    for family in host.families.iter().copied() {
        let side = desired.side(family);
        let missing = host.missing_tables.get(family);
        let right = right.get_mut(family);
        *right = side.rules()?.0;
        for table in missing {
            right.clear(*table);
        }
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
        left: host.rules,
        right,
        chosen: None,
        families: host.families,
        missing_tables: host.missing_tables,
        absence,
        names,
        restores,
        objects: ComparedObjects::default(),
    })
}

/// Loads two sets of objects: the restore is that of a daemon that has applied the first one.
fn of_manifests(
    args: &DiffArgs,
    settings: &RuleSettings<'_>,
    before: &Path,
) -> anyhow::Result<Sides> {
    let config = settings.desired(&args.source)?;
    let config = config.with_load_balancers(args.preview.manifests_load_balancer_cidr);
    let Source::Manifests {
        path,
        ranges,
        validation,
    } = &config.source
    else {
        anyhow::bail!("--from-manifests requires --manifests");
    };
    let options = ManifestOptions {
        node_name: config.node_name.as_str().into(),
        ranges: *ranges,
    };
    let names = [format!("`{}`", before.display()), name_of(&args.source)];
    let pair = manifests::load_pair(before, path, &options, *validation)?;
    exit::report(&pair.before.errors);
    exit::report(&pair.after.errors);
    let objects = ComparedObjects::of(&pair, ranges);
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
        left,
        right,
        chosen: None,
        families: IpFamily::ALL.into(),
        absence_reason: "",
        missing_tables: PerFamily::default(),
        absence: None,
        names,
        restores,
        objects,
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
