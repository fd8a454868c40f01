//! The two rulesets of each family, and what makes one into the other.
//!
//! Apart because there are three ways to get the left one, and the restore depends on which.

use std::collections::BTreeSet;

use anyhow::Context;

use super::super::file::Shape;
use super::super::snapshot::{self, Origin};
use super::desired::Desired;
use super::restore;
use crate::config::{DiffArgs, SourceArgs};
use crate::inspect::catalog::{NoMatches, PortQuery};
use crate::inspect::diff::{PlannedRestore, PortSelection, Review, compare};
use crate::net::{IpFamily, PerFamily};
use crate::rules::RuleSet;

/// What is and what is desired.
pub(super) struct Sides {
    pub(super) left: PerFamily<RuleSet>,
    pub(super) right: PerFamily<RuleSet>,
    /// Only these service ports.
    pub(super) chosen: Option<PortSelection>,
    families: BTreeSet<IpFamily>,
    why_absent: &'static str,
    restores: PerFamily<Option<PlannedRestore>>,
}

impl Sides {
    /// Gets both as the flags say.
    pub(super) fn load(args: &DiffArgs, shape: &Shape<'_>) -> anyhow::Result<Self> {
        check_stdin(args)?;
        match &args.from_manifests {
            Some(path) => {
                let source = SourceArgs {
                    manifests: Some(path.clone()),
                    ..args.source.clone()
                };
                of_manifests(args, shape, &source, &path.display().to_string())
            }
            None => of_machine(args, shape),
        }
    }

    /// Cut down to what is asked for.
    pub(super) fn only(self, asked: &PortQuery) -> Result<Self, NoMatches> {
        let families = self.families.iter();
        let rules = families.flat_map(|family| [self.left.get(*family), self.right.get(*family)]);
        let chosen = PortSelection::of(asked, &rules.collect::<Vec<_>>())?;
        Ok(Self { chosen, ..self })
    }

    /// The families that both sides tell of.
    pub(super) fn families(&self) -> impl Iterator<Item = IpFamily> {
        self.families.iter().copied()
    }

    /// Why families are not compared, a line each.
    pub(super) fn gaps(&self) -> impl Iterator<Item = String> {
        let absent = IpFamily::ALL.into_iter();
        let absent = absent.filter(|family| !self.families.contains(family));
        absent.map(|family| format!("{family} is not compared: {}", self.why_absent))
    }

    /// Each family compared.
    pub(super) fn reviews(&self) -> Vec<Review<'_>> {
        let review = |family| {
            let review = compare(family, self.left.get(family), self.right.get(family));
            let restore = self.restores.get(family).clone();
            let has_to = |restore: &PlannedRestore| restore.bytes > 0 && !review.is_empty();
            let review = Review {
                restore: restore.filter(has_to),
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
        "stdin can be read once, and `-` is given {readers} times"
    );
    Ok(())
}

/// A kernel or its dump against objects.
fn of_machine(args: &DiffArgs, shape: &Shape<'_>) -> anyhow::Result<Sides> {
    let machine = if args.from_save.is_empty() {
        let config = shape.desired(&args.source)?;
        snapshot::live(config.backend)?
    } else {
        snapshot::saved(&args.from_save)?
    };
    let desired = Desired::for_machine(shape, &args.source, &machine)?;
    let mut right = PerFamily::from_fn(|_| RuleSet::default());
    let mut restores = PerFamily::from_fn(|_| None);
    for family in machine.families.iter().copied() {
        let side = desired.side(family);
        *right.get_mut(family) = side.rules()?.0;
        *restores.get_mut(family) = Some(restore::first(side, machine.rules.get(family))?);
    }
    Ok(Sides {
        why_absent: match machine.origin {
            Origin::Saved(_) => "there is no dump of it",
            Origin::Live(_) | Origin::Desired => "this kernel is without it",
        },
        left: machine.rules,
        right,
        chosen: None,
        families: machine.families,
        restores,
    })
}

/// Objects against objects: what a daemon that has applied the first ones does next.
fn of_manifests(
    args: &DiffArgs,
    shape: &Shape<'_>,
    source: &SourceArgs,
    name: &str,
) -> anyhow::Result<Sides> {
    let before = Desired::load(shape, source).with_context(|| format!("`{name}`"))?;
    let after = Desired::load(shape, &args.source)?;
    let mut left = PerFamily::from_fn(|_| RuleSet::default());
    let mut right = PerFamily::from_fn(|_| RuleSet::default());
    let mut restores = PerFamily::from_fn(|_| None);
    for family in IpFamily::ALL {
        let (old, new) = (before.side(family), after.side(family));
        let (rules, applied) = old.rules()?;
        let restore = restore::next((old, new), (&rules, applied))?;
        *restores.get_mut(family) = Some(restore);
        *left.get_mut(family) = rules;
        *right.get_mut(family) = new.rules()?.0;
    }
    Ok(Sides {
        left,
        right,
        chosen: None,
        families: IpFamily::ALL.into(),
        why_absent: "",
        restores,
    })
}
