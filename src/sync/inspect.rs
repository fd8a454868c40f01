//! Reads what a full restore has to know of the kernel.
//!
//! Apart because tables hold other people's rules too, and some of those the programs cannot show:
//! one such rule must neither stop us nor make us take a full table for an empty one.

use crate::host::{Iptables, RunError};
use crate::render::{FIREWALL, JUMPS, Live};
use crate::rules::Table;

/// A table that could not be read, and why.
pub(super) type Unread = (Table, RunError);

/// Reads the tables; of those that cannot be read, only what must not be written twice. Stale
/// chains stay in these.
///
/// # Errors
///
/// Nothing can be told at the moment; later, perhaps.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Failed to execute iptables-save:
/// stale chains will not be deleted" (v1.36)
pub(super) async fn inspect(iptables: &impl Iptables) -> Result<(Live, Vec<Unread>), RunError> {
    let (mut live, mut unread) = (Live::default(), Vec::new());
    for table in [Table::Filter, Table::Nat] {
        match iptables.save(table).await {
            Ok(save) => live.read(table, &save),
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                ask(iptables, table, &mut live).await?;
                unread.push((table, error));
            }
        }
    }
    Ok((live, unread))
}

/// Asks for each jump by itself, and for the one chain that may be somebody else's to fill.
async fn ask(iptables: &impl Iptables, table: Table, live: &mut Live) -> Result<(), RunError> {
    for jump in JUMPS.iter().filter(|jump| jump.table == table) {
        if iptables.has(table, jump.from, jump.rule).await? {
            live.saw(jump);
        }
    }
    if table == Table::Filter && iptables.list(table, &[FIREWALL]).await?.is_some() {
        live.saw_firewall();
    }
    Ok(())
}
