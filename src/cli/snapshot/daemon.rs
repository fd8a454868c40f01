//! Reads the rules of this node: those that the daemon wrote, from its page `/rules`, or else those
//! of the kernel.

use std::net::SocketAddr;

use super::recorded;
use super::rules::{RuleOrigin, RuleSnapshot};
use super::written::{Verified, WrittenRules};
use crate::cli::daemon::{self, NoPage};
use crate::cli::terminal::escaped;
use crate::host::{BackendChoice, local_addresses};
use crate::inspect::catalog::RulesetSource;
use crate::net::IpFamily;
use crate::rules::{Backend, RuleSet};
use crate::status::{FamilyStatus, HEAD, RulesHead};

/// Sources of the rules of this node.
pub(in crate::cli) struct HostSources {
    /// Address at which the daemon is asked first; `None` to read the kernel at once.
    pub(in crate::cli) daemon: Option<SocketAddr>,
    /// Programs that read the kernel.
    pub(in crate::cli) backend: BackendChoice,
}

impl HostSources {
    /// Reads the rules of the daemon, or without its page those of the kernel.
    pub(super) fn read(self) -> anyhow::Result<RuleSnapshot> {
        let asked = self.daemon.map(|address| snapshot(address, self.backend));
        match asked {
            Some(Ok(snapshot)) => return Ok(snapshot),
            Some(Err(busy @ NoPage::Busy)) => tracing::warn!("{busy}; reading the kernel"),
            Some(Err(NoPage::Absent(_))) | None => {}
        }
        recorded::live(self.backend)
    }
}

/// Reads the rules of the daemon at an address.
///
/// # Errors
///
/// There is no such page, or it does not have the rules that the kernel would show: those of a
/// family are unknown to the daemon, a proxy has rules in the other backend, or the backend is not
/// the chosen one.
fn snapshot(address: SocketAddr, choice: BackendChoice) -> Result<RuleSnapshot, NoPage> {
    let text = daemon::get(address, "/rules")?;
    let addresses = local_addresses().map_err(|error| NoPage::Absent(error.to_string()))?;
    let page = UnparsedRules::read(&text, choice);
    let page = page.filter(|page| page.other_backends().next().is_none());
    let snapshot = page.and_then(|page| page.parse(RuleOrigin::Daemon));
    let mut snapshot = snapshot.ok_or_else(|| NoPage::Absent("no rules".to_owned()))?;
    snapshot.node_addresses = addresses;
    Ok(snapshot)
}

/// Page of a daemon that knows all of its rules. They are not parsed yet.
pub(super) struct UnparsedRules<'p> {
    head: RulesHead,
    families: Vec<FamilyStatus>,
    backend: Backend,
    texts: Vec<(IpFamily, &'p str)>,
}

impl<'p> UnparsedRules<'p> {
    /// Reads the page; `None` if it has another form, or lacks rules, or their backend is not the
    /// chosen one.
    pub(super) fn read(page: &'p str, choice: BackendChoice) -> Option<Self> {
        let (head, mut rest) = page.split_once('\n')?;
        let head: RulesHead = document(head)?;
        let mut texts: Vec<(IpFamily, &str)> = Vec::new();
        let mut families: Vec<FamilyStatus> = Vec::new();
        while !rest.is_empty() {
            let (title, after) = rest.split_once('\n')?;
            let family = family_of(title)?;
            let end = after.find(TITLE).map_or(after.len(), |at| at + 1);
            let (section, after) = after.split_at_checked(end)?;
            let (status, text) = section.split_once('\n')?;
            let status: FamilyStatus = document(status)?;
            let is_first = texts.iter().all(|(known, _)| *known != family);
            if !is_first || !status.unknown.is_empty() {
                return None;
            }
            texts.push((family, text));
            families.push(status);
            rest = after;
        }
        let backend = common_backend(&families).filter(|backend| fits(choice, *backend))?;
        Some(Self {
            head,
            families,
            backend,
            texts,
        })
    }

    /// Returns the backends with rules of a proxy that are not on the page, each with its family:
    /// packets traverse both.
    pub(super) fn other_backends(&self) -> impl Iterator<Item = (&str, &str)> {
        let others = self
            .families
            .iter()
            .filter(|family| !family.other_backend.is_empty());
        others.map(|family| (&*family.family, &*family.other_backend))
    }

    /// Returns the rules of each family.
    pub(super) fn texts(&self) -> &[(IpFamily, &'p str)] {
        &self.texts
    }

    /// Parses the rules, which have an origin on this node or on another one; `None` if they are
    /// invalid.
    pub(super) fn parse(self, origin: fn(WrittenRules) -> RuleOrigin) -> Option<RuleSnapshot> {
        let mut snapshot = RuleSnapshot {
            observed_at: Some(self.head.observed_at),
            ..RuleSnapshot::default()
        };
        for (family, text) in self.texts {
            snapshot.families.insert(family);
            *snapshot.rules.get_mut(family) = RuleSet::parse(&escaped(text)).ok()?;
            *snapshot.sources.get_mut(family) = RulesetSource::Kernel;
        }
        snapshot.origin = origin(WrittenRules {
            node: self.head.node,
            version: self.head.version,
            backend: self.backend,
            verified: Verified::of(&self.families, self.head.observed_at),
        });
        Some(snapshot)
    }
}

/// Beginning of the line before the rules of a family, after a line end.
const TITLE: &str = "\n# Generated by ";

fn family_of(title: &str) -> Option<IpFamily> {
    let program = title.strip_prefix(TITLE.trim_start())?.split(',').next()?;
    match program {
        "iptables-save" => Some(IpFamily::V4),
        "ip6tables-save" => Some(IpFamily::V6),
        _ => None,
    }
}

fn document<T: serde::de::DeserializeOwned>(line: &str) -> Option<T> {
    daemon::document(line.strip_prefix(HEAD)?).ok()
}

/// Returns the backend of all families; `None` if they have different ones.
fn common_backend(families: &[FamilyStatus]) -> Option<Backend> {
    let mut backends = families.iter().map(|family| family.backend.as_str());
    let first = backends.next()?;
    let mut all = [Backend::Nft, Backend::Legacy].into_iter();
    let backend = all.find(|backend| backend.as_str() == first)?;
    backends.all(|other| other == first).then_some(backend)
}

/// Reports whether a choice of programs may be that of this backend.
fn fits(choice: BackendChoice, backend: Backend) -> bool {
    match choice {
        BackendChoice::Auto | BackendChoice::Path => true,
        BackendChoice::Nft => backend == Backend::Nft,
        BackendChoice::Legacy => backend == Backend::Legacy,
    }
}

#[cfg(test)]
#[path = "tests/daemon.rs"]
mod tests;
