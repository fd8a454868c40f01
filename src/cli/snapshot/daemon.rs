//! Reads the rules of this node: those that the daemon wrote, from its page `/rules`, or else those
//! of the kernel.

use std::borrow::Cow;
use std::mem;
use std::net::SocketAddr;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, Scope, ScopedJoinHandle};

use anyhow::Context as _;

use super::recorded;
use super::rules::{RuleOrigin, RuleSnapshot, WrittenRules};
use super::rules_page::{PageFacts, PagePart, PageReader};
use crate::cli::daemon::{self, NoPage};
use crate::cli::terminal::escaped;
use crate::host::{BackendChoice, local_addresses};
use crate::net::IpFamily;
use crate::rules::{Backend, ParseError, RuleSet};

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
    let addresses = local_addresses().map_err(|error| NoPage::Absent(error.to_string()))?;
    let snapshot = thread::scope(|scope| {
        let mut page = ArrivingRules::new(scope);
        daemon::get_pieces(address, "/rules", &mut |piece| page.add(piece))?;
        Ok(page.finish(choice))
    })?;
    let mut snapshot = snapshot.ok_or_else(|| NoPage::Absent("no rules".to_owned()))?;
    snapshot.node_addresses = addresses;
    Ok(snapshot)
}

/// Page of a daemon that knows all of its rules. They are not parsed yet.
pub(super) struct UnparsedRules<'p> {
    facts: PageFacts,
    backend: Backend,
    texts: Vec<(IpFamily, &'p str)>,
}

impl<'p> UnparsedRules<'p> {
    /// Reads the page; `None` if it has another form, or lacks rules, or their backend is not the
    /// chosen one.
    pub(super) fn read(page: &'p str, choice: BackendChoice) -> Option<Self> {
        let mut facts = PageFacts::default();
        let mut texts = Vec::new();
        PageReader::default().read(page, |part| {
            match part {
                PagePart::Rules(text) => texts.push((facts.last_family()?, text)),
                part => facts.add(part)?,
            }
            Some(())
        })?;
        Some(Self {
            backend: facts.backend(choice)?,
            facts,
            texts,
        })
    }

    /// Returns the backends with rules of a proxy that are not on the page, each with its family:
    /// packets traverse both.
    pub(super) fn other_backends(&self) -> impl Iterator<Item = (&str, &str)> {
        self.facts.other_backends()
    }

    pub(super) fn texts(&self) -> &[(IpFamily, &'p str)] {
        &self.texts
    }

    /// Parses the rules, which have an origin on this node or on another one; `None` if they are
    /// invalid.
    pub(super) fn parse(self, origin: fn(WrittenRules) -> RuleOrigin) -> Option<RuleSnapshot> {
        let texts = self.texts.into_iter();
        let parsed = texts.map(|(family, text)| {
            let rules = RuleSet::parse(&escaped(text)).ok()?;
            Some((family, rules))
        });
        let parsed: Option<Vec<_>> = parsed.collect();
        Some(self.facts.snapshot(self.backend, parsed?, origin))
    }
}

/// Page that is parsed while it arrives.
struct ArrivingRules<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    /// Lines that are not parsed yet; the last one may be incomplete.
    text: Vec<u8>,
    reader: PageReader,
    facts: PageFacts,
    /// Rules of the last family.
    pieces: Option<SyncSender<String>>,
    families: Vec<(
        IpFamily,
        ScopedJoinHandle<'scope, Result<RuleSet, ParseError>>,
    )>,
}

/// Bytes that are parsed at a time.
const PIECE: usize = 64 * 1024;

/// Pieces that wait to be parsed.
const MAX_PIECES: usize = 8;

impl<'scope, 'env> ArrivingRules<'scope, 'env> {
    /// Returns a page whose rules are parsed by threads of this scope.
    fn new(scope: &'scope Scope<'scope, 'env>) -> Self {
        Self {
            scope,
            text: Vec::new(),
            reader: PageReader::default(),
            facts: PageFacts::default(),
            pieces: None,
            families: Vec::new(),
        }
    }

    /// Takes the next bytes of the page.
    fn add(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.text.extend_from_slice(bytes);
        if self.text.len() < PIECE {
            return Ok(());
        }
        let end = self.text.iter().rposition(|byte| *byte == b'\n');
        let rest = self.text.split_off(end.map_or(0, |at| at + 1));
        let piece = mem::replace(&mut self.text, rest);
        self.parse(piece).context("not the rules of the kernel")
    }

    /// Parses whole lines; `None` if they are not those of a page with the rules of the kernel.
    fn parse(&mut self, piece: Vec<u8>) -> Option<()> {
        let piece = String::from_utf8(piece).ok()?;
        let piece = match escaped(&piece) {
            Cow::Owned(escaped) => escaped,
            Cow::Borrowed(_) => piece,
        };
        let mut is_all_rules = false;
        let (facts, pieces) = (&mut self.facts, &mut self.pieces);
        self.reader.read(&piece, |part| match part {
            PagePart::Rules(rules) if rules.len() == piece.len() => {
                is_all_rules = true;
                Some(())
            }
            PagePart::Rules(rules) => pieces.as_ref()?.send(rules.to_owned()).ok(),
            part => {
                facts.add(part)?;
                let Some(family) = facts.last_family() else {
                    return Some(());
                };
                let (sender, receiver) = mpsc::sync_channel::<String>(MAX_PIECES);
                *pieces = Some(sender);
                let rules = || RuleSet::parse_pieces(receiver.into_iter());
                self.families.push((family, self.scope.spawn(rules)));
                facts.other_backends().next().is_none().then_some(())
            }
        })?;
        if is_all_rules {
            self.pieces.as_ref()?.send(piece).ok()?;
        }
        Some(())
    }

    /// Returns the rules at the end of the page; `None` as for [`UnparsedRules::read`], or if a
    /// proxy has rules in the other backend.
    fn finish(mut self, choice: BackendChoice) -> Option<RuleSnapshot> {
        let rest = mem::take(&mut self.text);
        self.parse(rest)?;
        drop(self.pieces);
        let backend = self.facts.backend(choice)?;
        let families = self.families.into_iter();
        let parsed = families.map(|(family, rules)| {
            let rules = rules.join().ok()?.ok()?;
            Some((family, rules))
        });
        let parsed: Option<Vec<_>> = parsed.collect();
        Some(self.facts.snapshot(backend, parsed?, RuleOrigin::Daemon))
    }
}

#[cfg(test)]
#[path = "tests/daemon.rs"]
mod tests;
