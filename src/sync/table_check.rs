//! Checks one table for our rules, with three possible answers: they are there, they are gone, or a
//! third-party rule keeps the program from printing them.
//!
//! "Gone" is only what a program says in so many words. What it cannot print, and a program that
//! gives no answer, are no reason to write all rules anew.

use crate::host::{Iptables, ListedChains, RunError};
use crate::render::{FixedChainState, Jump, Options, guarded_chains};
use crate::rules::Table;

/// Extent of a loss that a full restore repairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Loss {
    /// A chain of ours was deleted, so that the jumps were not listed.
    Deleted,
    /// The chains are there without the jumps to them, as after `iptables -F`.
    Flushed {
        /// Jumps of ours that are missing.
        missing: Vec<&'static Jump>,
    },
}

/// Answer of a check that could be made.
#[derive(Debug)]
pub(super) enum TableCheck {
    /// Rules or chains of ours are missing that everything depends on.
    Gone(Loss),
    /// The chains are there.
    Present {
        /// Fixed chains that hold third-party rules besides ours.
        edited: Vec<&'static str>,
        /// Fixed chains that lack rules of ours.
        incomplete: Vec<&'static str>,
        /// Jumps of ours that are missing.
        missing: Vec<&'static Jump>,
        /// The words of a program that could not print a rule in a built-in chain.
        unprintable: Option<RunError>,
    },
}

/// Lists the guarded chains, and asks for each jump in a chain that cannot be printed.
///
/// # Errors
///
/// A program gave no answer, as while another one holds the lock.
pub(super) async fn check_table(
    iptables: &impl Iptables,
    table: Table,
    options: &Options,
) -> Result<TableCheck, RunError> {
    let Some(listing) = list(iptables, table, options).await? else {
        return Ok(TableCheck::Gone(Loss::Deleted));
    };
    let mut state = FixedChainState::of(table, &listing.text, &listing.cut, options);
    if state.is_flushed {
        let missing = state.missing.into_iter().chain(state.unseen).collect();
        return Ok(TableCheck::Gone(Loss::Flushed { missing }));
    }
    for jump in state.unseen {
        match iptables.has(table, jump.from, jump.rule).await {
            // Still unknown: the rules before it stay unprintable.
            Ok(true) | Err(RunError::Unprintable { .. }) => {}
            Ok(false) => state.missing.push(jump),
            Err(error) => return Err(error),
        }
    }
    Ok(TableCheck::Present {
        edited: state.edited,
        incomplete: state.incomplete,
        missing: state.missing,
        unprintable: listing.unprintable,
    })
}

/// Lines of all chains as far as they can be printed.
#[derive(Debug, Default)]
struct Listing {
    text: String,
    /// The chains with unprintable rules.
    cut: Vec<String>,
    /// The first cause that concerns a built-in chain.
    unprintable: Option<RunError>,
}

/// Goes on behind each chain at which the program ends; `None` if one of them does not exist.
async fn list(
    iptables: &impl Iptables,
    table: Table,
    options: &Options,
) -> Result<Option<Listing>, RunError> {
    let chains = guarded_chains(table, options);
    let mut listing = Listing::default();
    let mut rest = chains.as_slice();
    while !rest.is_empty() {
        match iptables.list(table, rest).await? {
            ListedChains::Missing => return Ok(None),
            ListedChains::Whole(text) => {
                listing.text += &text;
                break;
            }
            ListedChains::Truncated {
                printed,
                chain,
                cause,
            } => {
                listing.text += &printed;
                // Without a name that was asked for, the first one is to blame.
                let at = rest.iter().position(|asked| *asked == chain);
                let (cut, behind) = rest.split_at(at.map_or(1, |at| at + 1));
                rest = behind;
                let cut = cut.last().copied().unwrap_or_default();
                if table.built_in_chains().contains(&cut) {
                    listing.unprintable.get_or_insert(cause);
                }
                listing.cut.push(cut.to_owned());
            }
        }
    }
    Ok(Some(listing))
}
