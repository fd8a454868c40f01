//! The partial payload: only the chains that differ from what the kernel holds.
//!
//! Apart from full payloads because it starts from the [`Ledger`] instead of from nothing: its size
//! follows the change, not the cluster.
//!
//! # Shape
//!
//! In nat, in this order: changed Service chains, each header beside its rules; what changed in the
//! dispatch chains, rule by rule or the whole chain; then the chains nobody wants any more, all
//! emptied before the first is deleted. Of very many chains all headers come first, and of a
//! payload that is large beside the table `-S` before them: [`cost`](super::cost) decides. A table
//! with nothing to say is not named, and a payload without tables is empty: no process need be
//! started for it.
//!
//! KEP: kep.k8s.io/3453

use super::base;
use super::changes::{Before, Changes};
use super::ledger::Ledger;
use super::options::{Comments, PartialRestore};
use super::service::{self, Setting};
use super::sheet::Sheet;
use super::stats::PayloadStats;
use crate::model::{ServiceName, Services};

/// A partial payload; it is small, so it is simply text.
#[derive(Debug, Default)]
pub struct Partial {
    /// For `iptables-restore --noflush`; empty if the kernel has everything already.
    pub text: Vec<u8>,
    /// Its size.
    pub stats: PayloadStats,
}

/// What the Services named by `dirty` need, and the ledger of the kernel once it has that.
pub fn partial<'n>(
    ledger: &mut Ledger,
    services: &dyn Services,
    dirty: impl Iterator<Item = &'n ServiceName> + Clone,
    setting: Setting<'_>,
    shape: PartialRestore,
) -> Partial {
    let comments = comments_after(ledger, services, dirty.clone(), setting);
    let held = ledger.rules().nat;
    let mut changes = Changes::default();
    let mut sheet = Sheet::default();
    for name in dirty {
        match services.get(name) {
            Some(state) => service::write(&mut sheet, name, state, setting, comments),
            None => sheet.clear(),
        }
        let before = ledger.record(name, &sheet);
        changes.add(&before, &sheet, shape);
    }
    let tail = base::tail_rules(setting.options);
    let tail = std::mem::replace(&mut ledger.tail, tail);
    let rewrite = std::mem::take(&mut ledger.rewrite);
    let before = Before {
        tail,
        held,
        rewrite,
    };
    changes.finish(ledger, &before, shape, setting.options)
}

/// Whether endpoints get comments, once the dirty Services have the endpoints they have now.
///
/// Crossing the threshold rewrites nothing by itself, as upstream: rules do the same with and
/// without comments, and those that are in the kernel change with their Service or with the next
/// full restore.
fn comments_after<'n>(
    ledger: &Ledger,
    services: &dyn Services,
    dirty: impl Iterator<Item = &'n ServiceName>,
    setting: Setting<'_>,
) -> Comments {
    let mut endpoints = ledger.tally().endpoints;
    for name in dirty {
        endpoints += services.get(name).map_or(0, service::count_endpoints);
        endpoints -= ledger.endpoints_of(name);
    }
    Comments::for_cluster(endpoints, setting.options)
}
