//! Extent of a comparison of the rules in the kernel with the applied ones.

use std::collections::BTreeSet;

use crate::host::{ForeignChange, Touched};
use crate::render::{AppliedState, Options, guarded_chains, is_service_chain};
use crate::rules::Table;

/// Extent of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Tables whose fixed chains and jumps are checked.
    pub(super) tables: BTreeSet<Table>,
    /// Chains to which every Service adds rules.
    pub(super) dispatch: BTreeSet<(Table, Box<str>)>,
    /// Chains of Services.
    pub(super) services: BTreeSet<Box<str>>,
    /// Named chains, or all of our rules.
    pub(super) depth: Depth,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Depth {
    /// Only the chains that are named.
    #[default]
    Named,
    /// Every rule of ours in the filter and nat tables.
    Whole,
}

impl Extent {
    /// All rules of ours.
    pub(super) fn whole() -> Self {
        Self {
            tables: Table::ALL.into(),
            depth: Depth::Whole,
            ..Self::default()
        }
    }

    /// Rules of ours that another program may have changed.
    pub(super) fn of(change: &ForeignChange, options: &Options) -> Self {
        let mut extent = Self::default();
        for (table, touched) in &change.tables {
            match touched {
                Touched::Unknown => {
                    extent.tables.insert(*table);
                    if *table != Table::Mangle {
                        extent.depth = Depth::Whole;
                    }
                }
                Touched::Chains(chains) => {
                    for chain in chains {
                        extent.add(*table, chain, options);
                    }
                }
            }
        }
        extent
    }

    /// Returns the same without chains of Services that the kernel should not have.
    pub(super) fn of_ours(
        change: &ForeignChange,
        options: &Options,
        applied: &AppliedState,
    ) -> Self {
        let mut extent = Self::of(change, options);
        extent.services = applied.recorded(&extent.services);
        extent
    }

    fn add(&mut self, table: Table, chain: &str, options: &Options) {
        if guarded_chains(table, options).contains(&chain) {
            self.tables.insert(table);
        } else if AppliedState::is_dispatch(table, chain) {
            self.dispatch.insert((table, chain.into()));
        } else if table == Table::Nat && is_service_chain(chain) {
            self.services.insert(chain.into());
        }
    }

    /// Adds all of another extent.
    pub(super) fn merge(&mut self, other: Self) {
        self.tables.extend(other.tables);
        self.dispatch.extend(other.dispatch);
        self.services.extend(other.services);
        if other.depth == Depth::Whole {
            self.depth = Depth::Whole;
        }
    }

    /// Returns this extent without chains of Services, which are written anew if they cannot be
    /// read.
    pub(super) fn to_read_again(&self) -> Self {
        Self {
            services: BTreeSet::new(),
            ..self.clone()
        }
    }

    /// Reports whether nothing of ours is concerned.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
