//! What is wrong beside the service ports: chains that nothing leads to, and jumps that are
//! missing.
//!
//! Apart because it is of no row: documents list it, and under tables stderr tells of it.

use std::fmt::Write as _;

use super::filter::Filter;
use crate::cli::snapshot::Conflicts;
use crate::config::ServicesOutput;
use crate::inspect::catalog::{FrontendConflict, RequiredJump};
use crate::net::{IpFamily, PerFamily};

/// What each family has of it.
#[derive(Debug, Default)]
pub(super) struct Beside {
    stale: PerFamily<Vec<Box<str>>>,
    gaps: PerFamily<Vec<RequiredJump>>,
    conflicts: PerFamily<Conflicts>,
}

/// More names would not be read.
const MOST: usize = 3;

/// More conflicts of a family are counted only.
const MOST_CONFLICTS: usize = 10;

impl Beside {
    pub(super) fn add(&mut self, family: IpFamily, stale: Vec<Box<str>>, gaps: Vec<RequiredJump>) {
        *self.stale.get_mut(family) = stale;
        *self.gaps.get_mut(family) = gaps;
    }

    pub(super) fn add_conflicts(&mut self, conflicts: PerFamily<Conflicts>) {
        self.conflicts = conflicts;
    }

    /// Frontends that several Services ask for, as far as the filter lets them pass.
    pub(super) fn conflicts(
        &self,
        filter: &Filter,
    ) -> impl Iterator<Item = (IpFamily, &FrontendConflict)> {
        let pairs = self.conflicts.as_ref().into_pairs().into_iter();
        let all = pairs.flat_map(|(family, conflicts)| {
            let lost = conflicts.lost.iter();
            lost.map(move |conflict| (family, conflict))
        });
        all.filter(|(_, conflict)| filter.concerns(conflict))
    }

    /// Chains that no service port has.
    pub(super) fn stale(&self) -> impl Iterator<Item = (IpFamily, &str)> {
        let pairs = self.stale.as_ref().into_pairs().into_iter();
        pairs.flat_map(|(family, chains)| chains.iter().map(move |chain| (family, &**chain)))
    }

    /// Jumps for want of which service ports are not reached.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (IpFamily, RequiredJump)> {
        let pairs = self.gaps.as_ref().into_pairs().into_iter();
        pairs.flat_map(|(family, gaps)| gaps.iter().map(move |gap| (family, *gap)))
    }

    /// What readers should know: missing jumps whatever they asked for, stale chains if it was all.
    pub(super) fn note(&self, filter: &Filter, output: ServicesOutput) -> String {
        let mut text = String::new();
        for (family, gap) in self.gaps() {
            let _ = writeln!(
                text,
                "note: nothing leads from `{}` to `{}` (nat, {family}): {}",
                gap.from(),
                gap.to(),
                consequence(gap)
            );
        }
        if self.gaps().next().is_some() {
            text.push_str("hint: a full sync puts it back; the proxy makes one when it starts\n");
        }
        if filter.is_all() && matches!(output, ServicesOutput::Table | ServicesOutput::Wide) {
            for (family, chains) in self.stale.as_ref().into_pairs() {
                text.push_str(&stale_note(family, chains));
            }
        }
        if matches!(output, ServicesOutput::Table | ServicesOutput::Wide) {
            self.note_conflicts(&mut text, filter);
        }
        text
    }

    fn note_conflicts(&self, text: &mut String, filter: &Filter) {
        for (family, conflicts) in self.conflicts.as_ref().into_pairs() {
            let all = self.conflicts(filter).filter(|(of, _)| *of == family);
            let mut named = 0;
            for (_, conflict) in all.take(MOST_CONFLICTS) {
                let FrontendConflict {
                    loser, kind, owner, ..
                } = conflict;
                let _ = writeln!(
                    text,
                    "note: service port `{loser}` has no rules for its {kind} {conflict} \
                     ({family}): Service `{owner}` comes first",
                    loser = loser.name
                );
                named += 1;
            }
            if filter.is_all() && named == MOST_CONFLICTS {
                let count = conflicts.count;
                let _ = writeln!(
                    text,
                    "note: frontends that several Services ask for ({family}): {count}"
                );
            }
        }
    }
}

const fn consequence(gap: RequiredJump) -> &'static str {
    match gap {
        RequiredJump::Prerouting => "no Service is reached by Pods and from outside",
        RequiredJump::Output => "no Service is reached by programs of this node",
        RequiredJump::NodePorts => {
            "no NodePort is reached; with --nodeport-addresses, perhaps the node has none of them"
        }
    }
}

/// One line, or nothing.
fn stale_note(family: IpFamily, chains: &[Box<str>]) -> String {
    let names: Vec<&str> = chains.iter().take(MOST).map(|name| &**name).collect();
    let more = if chains.len() > MOST { ", ..." } else { "" };
    match chains.len() {
        0 => String::new(),
        count => format!(
            "note: chains that nothing leads to (nat, {family}): {count}: {}{more}; a full sync \
             deletes them\n",
            names.join(", ")
        ),
    }
}
