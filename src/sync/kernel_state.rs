//! Reads the rules in the kernel, and checks the guarded chains.
//!
//! Tables hold third-party rules as well, some of which the iptables binaries cannot print. An
//! unprintable rule must neither stop a sync nor make a table look empty.

use crate::host::{Iptables, ListedChains, RunError};
use crate::render::{
    GuardedChainState, JUMPS, LiveChains, LiveRules, Options, guarded_chains, has_desired_rules,
};
use crate::rules::Table;
use crate::ruleset::Jump;
use crate::ruleset::KUBE_FIREWALL;

/// Amount of rules to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadScope<'a> {
    /// Chains and jumps without the other rules, for a full restore.
    Outlines,
    /// All kube-proxy rules in the filter and nat tables, for a verification.
    Verification,
    /// All kube-proxy rules, for an adoption with these render options.
    Adoption(&'a Options),
}

/// Reaction to a [transient](RunError::is_transient) failure to read, for example while another
/// program holds the xtables lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnTransientFailure {
    /// The read fails, and the sync is retried: most causes are temporary.
    Fail,
    /// The table counts as unreadable, and the read goes on. A full restore then writes the table
    /// without having read it.
    Unreadable,
}

impl OnTransientFailure {
    /// Failures in a row after which a cause counts as permanent: the retry delays usually add up
    /// to seven seconds by then, longer than other programs hold the lock. Changes of the cluster
    /// may shorten them to three seconds.
    const MOST_FAILURES: u32 = 3;

    /// Returns the reaction after this many failures in a row.
    pub(super) const fn after(failures: u32) -> Self {
        if failures < Self::MOST_FAILURES {
            Self::Fail
        } else {
            Self::Unreadable
        }
    }
}

/// Rules in the kernel.
#[derive(Debug, Default)]
pub(super) struct KernelRules {
    /// Chains and jumps.
    pub(super) live: LiveChains,
    /// All kube-proxy rules, if requested and if all tables could be read.
    pub(super) found: Option<LiveRules>,
    /// The mangle table has the rules that a restore with the render options of the adoption would
    /// write; false for other scopes.
    pub(super) is_mangle_complete: bool,
    /// Tables that could not be read, with the causes.
    pub(super) unreadable: Vec<(Table, RunError)>,
}

/// Reads the filter and nat tables, and for an adoption the guarded chains of mangle. In a table
/// that cannot be read, each jump is queried, because a jump must not be written twice; stale
/// chains are not found, so they stay.
///
/// # Errors
///
/// An iptables binary failed in a transient way, or a query of a jump failed. A retry may succeed.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Failed to execute iptables-save:
/// stale chains will not be deleted" (v1.37)
pub(super) async fn read_rules(
    iptables: &impl Iptables,
    scope: ReadScope<'_>,
    on_transient: OnTransientFailure,
) -> Result<KernelRules, RunError> {
    let mut rules = KernelRules::default();
    let mut found = (scope != ReadScope::Outlines).then(LiveRules::of_tables);
    for table in [Table::Filter, Table::Nat] {
        let mut live = rules.live.clone();
        let mut read = |line: &str| {
            live.read_line(table, line);
            if let Some(found) = &mut found {
                found.read_line(table, line);
            }
        };
        match iptables.save(table, &mut read).await {
            Ok(()) => {
                live.note_read(table);
                rules.live = live;
            }
            Err(error) if error.is_transient() && on_transient == OnTransientFailure::Fail => {
                return Err(error);
            }
            Err(error) => {
                found = None;
                query_jumps(iptables, table, &mut rules.live).await?;
                rules.unreadable.push((table, error));
            }
        }
    }
    // A full restore creates KUBE-FIREWALL, as kubelet does: without it there is nothing to adopt,
    // so no process is started to list mangle.
    if let (ReadScope::Adoption(options), Some(_)) = (scope, &found)
        && rules.live.has_kube_firewall
    {
        let guarded = guarded_chains(Table::Mangle, options);
        rules.is_mangle_complete = match iptables.list(Table::Mangle, &guarded).await {
            Ok(ListedChains::Whole(listing)) => has_desired_rules(Table::Mangle, &listing, options),
            Err(error) if error.is_transient() && on_transient == OnTransientFailure::Fail => {
                return Err(error);
            }
            Ok(_) | Err(_) => false,
        };
    }
    rules.found = found;
    Ok(rules)
}

/// Queries each jump of a table, and `KUBE-FIREWALL`, which kubelet may have made.
async fn query_jumps(
    iptables: &impl Iptables,
    table: Table,
    live: &mut LiveChains,
) -> Result<(), RunError> {
    for jump in JUMPS.iter().filter(|jump| jump.table == table) {
        if iptables.has(table, jump.from, jump.rule).await? {
            live.note_jump(jump);
        }
    }
    if table == Table::Filter {
        let listed = iptables.list(table, &[KUBE_FIREWALL]).await?;
        if !matches!(listed, ListedChains::Missing) {
            live.note_kube_firewall();
        }
    }
    Ok(())
}

/// Loss of rules that a full restore repairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TableLoss {
    /// A guarded chain is missing, so that the iptables binary listed nothing.
    Deleted,
    /// The chains exist without the jumps to them, as after `iptables -F`.
    Flushed {
        /// Missing jumps from built-in chains. Includes those from chains that could not be
        /// printed: they count as missing, because all others are.
        missing_jumps: Vec<&'static Jump>,
    },
}

/// Result of the check of the guarded chains of one table.
#[derive(Debug)]
pub(super) enum TableCheck {
    /// A guarded chain, or all jumps, are missing.
    Gone(TableLoss),
    /// The chains exist.
    Present {
        /// Fixed chains with third-party rules.
        edited_chains: Vec<&'static str>,
        /// Fixed chains that lack some of their rules.
        incomplete_chains: Vec<&'static str>,
        /// Missing jumps from built-in chains.
        missing_jumps: Vec<&'static Jump>,
        /// Error of the iptables binary at an unprintable rule in a built-in chain.
        unprintable: Option<RunError>,
    },
}

/// Lists the guarded chains, and queries each jump in a chain that cannot be printed.
///
/// # Errors
///
/// The iptables binary failed, for example because another program held the xtables lock.
pub(super) async fn check_table(
    iptables: &impl Iptables,
    table: Table,
    options: &Options,
) -> Result<TableCheck, RunError> {
    let Some(listing) = list(iptables, table, options).await? else {
        return Ok(TableCheck::Gone(TableLoss::Deleted));
    };
    let mut state = GuardedChainState::of(table, &listing.text, &listing.truncated, options);
    if state.is_flushed {
        let missing_jumps = state
            .missing_jumps
            .into_iter()
            .chain(state.unlisted_jumps)
            .collect();
        return Ok(TableCheck::Gone(TableLoss::Flushed { missing_jumps }));
    }
    for jump in state.unlisted_jumps {
        match iptables.has(table, jump.from, jump.rule).await {
            // The jump counts as present: its chain has an unprintable rule.
            Ok(true) | Err(RunError::Unprintable { .. }) => {}
            Ok(false) => state.missing_jumps.push(jump),
            Err(error) => return Err(error),
        }
    }
    Ok(TableCheck::Present {
        edited_chains: state.edited_chains,
        incomplete_chains: state.incomplete_chains,
        missing_jumps: state.missing_jumps,
        unprintable: listing.unprintable,
    })
}

/// Printable lines of the guarded chains of one table.
#[derive(Debug, Default)]
struct Listing {
    text: String,
    /// Chains with unprintable rules.
    truncated: Vec<String>,
    /// First error that concerns a built-in chain.
    unprintable: Option<RunError>,
}

/// Lists the guarded chains, and continues after each chain at which the iptables binary ends;
/// `None` if one of them does not exist.
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
                // If the binary names another chain than the listed ones, the first of these counts
                // as unprintable.
                let at = rest.iter().position(|listed| *listed == chain);
                let (tried, remaining) = rest.split_at(at.map_or(1, |at| at + 1));
                rest = remaining;
                let truncated = tried.last().copied().unwrap_or_default();
                if table.built_in_chains().contains(&truncated) {
                    listing.unprintable.get_or_insert(cause);
                }
                listing.truncated.push(truncated.to_owned());
            }
        }
    }
    Ok(Some(listing))
}
