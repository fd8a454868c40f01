//! Loads the rules that flags select; those of this node are the ones that the daemon wrote, from
//! its page `/rules`, or else those of the kernel.

use std::io::ErrorKind;
use std::mem;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender};
use std::thread;

use super::rules::{RuleOrigin, RuleSnapshot};
use super::rules_page::DaemonRules;
use super::{desired, nodes, proxy_report, recorded};
use crate::cli::arguments::{self, RuleSettings};
use crate::cli::daemon::{self, NoPage};
use crate::cli::exit::{ErrorReport, NotANode};
use crate::cli::status::StatusPage;
use crate::config::{DaemonArgs, OriginArgs};
use crate::host::{BackendChoice, RunError, local_addresses};
use crate::rules::RuleSet;
use crate::status::FamilyStatus;

impl RuleSnapshot {
    /// Loads the rules that the flags select; `settings` are those of the same flags.
    pub(in crate::cli) fn load(
        args: &OriginArgs,
        settings: &RuleSettings<'_>,
        report: &ErrorReport,
    ) -> anyhow::Result<Self> {
        let OriginArgs {
            from_save, desired, ..
        } = args;
        if let (Some(at), Some(folder)) = (args.at, &args.state_dir) {
            return Self::past(folder, arguments::moment(at));
        }
        if let Some(node) = &args.node.name {
            return nodes::of_node(settings.api_options()?, node);
        }
        if desired.names_objects() {
            let config = settings.rendering()?;
            return desired::snapshot(&config.read_once(&desired.request), report);
        }
        let daemon = (!args.kernel).then_some(&args.daemon);
        let snapshot = Self::of_host(from_save, daemon, settings);
        let mut snapshot = snapshot.map_err(not_readable)?;
        if !args.kernel && snapshot.is_of_no_node() {
            return Err(NotANode::Rules.into());
        }
        if let RuleOrigin::Live(_) = snapshot.origin
            && let Some(address) = settings.daemon(&args.daemon)?
            && let Ok(page) = StatusPage::get(address)
        {
            let families = page.document.families.iter();
            (snapshot.conflicts, snapshot.quarantined) = proxy_report::of_daemon(families);
        }
        Ok(snapshot)
    }

    /// Loads the rules of a host: those of dumps, or without any, those of this node. They are the
    /// ones of its daemon, if there is one to ask, or else those of the kernel.
    pub(in crate::cli) fn of_host(
        from_save: &[PathBuf],
        daemon: Option<&DaemonArgs>,
        settings: &RuleSettings<'_>,
    ) -> anyhow::Result<Self> {
        if !from_save.is_empty() {
            return recorded::saved(from_save);
        }
        let address = daemon.map(|args| settings.daemon(args)).transpose()?;
        let backend = settings.rendering()?.backend;
        match address.flatten().map(|address| of_daemon(address, backend)) {
            Some(Ok(snapshot)) => return Ok(snapshot),
            Some(Err(busy @ NoPage::Busy)) => tracing::warn!("{busy}; reading the kernel"),
            Some(Err(NoPage::Absent(_))) | None => {}
        }
        recorded::live(backend)
    }
}

/// Converts an error of reading the kernel, for commands that read other nodes as well.
fn not_readable(error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        Ok(RunError::Spawn { program, cause }) if cause.kind() == ErrorKind::NotFound => {
            NotANode::Programs { program, cause }.into()
        }
        Ok(error) => anyhow::anyhow!(
            "{error}\n\
             hint: use --from-save FILE to read a dump without root, or --node NAME to read a node \
             from another machine"
        ),
        Err(error) => error,
    }
}

/// Bytes that are parsed at a time.
const PIECE: usize = 64 * 1024;

/// Pieces that wait to be parsed.
const MAX_PIECES: usize = 8;

/// Reads the rules of the daemon at an address, which are parsed while they arrive.
///
/// # Errors
///
/// The daemon does not serve the page, or the page lacks rules that are in the kernel: those of a
/// family are unknown to the daemon, a proxy has rules in the other backend, or the backend is not
/// the chosen one.
fn of_daemon(address: SocketAddr, choice: BackendChoice) -> Result<RuleSnapshot, NoPage> {
    let addresses = local_addresses().map_err(|error| NoPage::Absent(error.to_string()))?;
    let (sender, pieces) = mpsc::sync_channel(MAX_PIECES);
    let page = thread::scope(|scope| {
        let arrival = scope.spawn(move || send_pieces(address, &sender));
        let page = parsed(pieces.into_iter(), choice);
        let arrived = arrival.join();
        arrived.unwrap_or_else(|_| Err(NoPage::Absent("the reader failed".to_owned())))?;
        Ok(page)
    })?;
    let mut snapshot = page.ok_or_else(|| NoPage::Absent("no rules".to_owned()))?;
    snapshot.node_addresses = addresses;
    Ok(snapshot)
}

/// Gets the page, and sends pieces of whole lines.
fn send_pieces(address: SocketAddr, pieces: &SyncSender<String>) -> Result<(), NoPage> {
    let send = |lines: Vec<u8>| anyhow::Ok(pieces.send(String::from_utf8(lines)?)?);
    let mut text = Vec::new();
    daemon::get_pieces(address, "/rules", &mut |bytes| {
        text.extend_from_slice(bytes);
        if text.len() < PIECE {
            return Ok(());
        }
        let end = text.iter().rposition(|byte| *byte == b'\n');
        let rest = text.split_off(end.map_or(0, |at| at + 1));
        send(mem::replace(&mut text, rest))
    })?;
    send(text).map_err(|error| NoPage::Absent(error.to_string()))
}

/// Parses the rules on a page of this node; `None` as for [`DaemonRules::read`], or if a proxy has
/// rules in the other backend.
fn parsed(
    pieces: impl Iterator<Item = String> + Send,
    choice: BackendChoice,
) -> Option<RuleSnapshot> {
    let parse = |status: &FamilyStatus, rules: &mut (dyn Iterator<Item = String> + Send)| {
        let is_alone = status.other_backend.is_empty();
        RuleSet::parse_pieces(rules).ok().filter(|_| is_alone)
    };
    DaemonRules::read(pieces, choice, parse)?.snapshot(RuleOrigin::Daemon, Some)
}

#[cfg(test)]
#[path = "tests/load.rs"]
mod tests;
