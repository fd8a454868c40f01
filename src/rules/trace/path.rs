//! One path of a packet through the hooks, and the effects of the rules on it.

use std::cmp::Ordering;
use std::net::IpAddr;

use super::decide;
use super::fork::{Forks, ShareShifts};
use super::hook::{CallStack, Hook, Next};
use super::outcome::{Locality, Packet, Step, TraceOutcome, Unclear, Verdict};
use super::packet::{Interface, MatchResult, PacketState};
use super::target::{self, TargetEffect};
use crate::rules::chain::ChainPolicy;
use crate::rules::grammar::{Match, RecentAction, Rule, Share, Target};
use crate::rules::ruleset::RuleSet;

/// Path of a packet: of all packets, or of the share for which random rules had the same results.
#[derive(Debug, Clone)]
pub(super) struct TracePath<'a, 'q> {
    packet: PacketState<'q>,
    hook: Hook,
    stack: CallStack<'a>,
    /// Share of the packets if no undecided rule matches. `NONE`: the path exists only if one does.
    share: Share,
    /// Changes of the share if undecided rules match.
    shifts: ShareShifts,
    steps: Vec<Step<'a>>,
    /// Index of the branch that this path took at each hook, for the order of outcomes.
    branches: Vec<usize>,
}

/// All state of a path that decides its future at a given position.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MergeKey {
    destination: IpAddr,
    port: u16,
    is_translated: bool,
    is_masqueraded: bool,
    mark: u32,
    connection_mark: u32,
    added_to: Vec<Box<str>>,
}

impl<'a, 'q> TracePath<'a, 'q> {
    /// Returns the path of all packets at their first hook.
    pub(super) fn new(packet: &'q Packet, locality: &'q Locality) -> Self {
        let mut path = Self {
            packet: PacketState {
                original: packet,
                locality,
                destination: packet.destination,
                port: packet.port.get(),
                is_translated: false,
                is_masqueraded: false,
                mark: 0,
                connection_mark: 0,
                incoming: Interface::None,
                outgoing: Interface::None,
                added_to: Vec::new(),
            },
            hook: Hook::MangleOutput,
            stack: CallStack::default(),
            share: Share::ALL,
            shifts: ShareShifts::default(),
            steps: Vec::new(),
            branches: Vec::new(),
        };
        path.enter_hook(if path.packet.is_from_node() {
            Hook::MangleOutput
        } else {
            Hook::ManglePrerouting
        });
        path
    }

    /// Ends the path with a verdict.
    pub(super) fn end(self, verdict: Verdict, undecided: Vec<Step<'a>>) -> TraceOutcome<'a> {
        TraceOutcome {
            share: self.share,
            verdict,
            at: self.hook.chain(),
            steps: self.steps,
            undecided,
        }
    }

    /// Reports whether packets take this path only if an undecided rule matches them.
    pub(super) fn is_hypothetical(&self) -> bool {
        self.share == Share::NONE
    }

    /// Reports whether no packets take this path, whichever rules match.
    pub(super) fn is_unreached(&self) -> bool {
        self.is_hypothetical() && self.shifts.is_empty()
    }

    pub(super) const fn shifts(&self) -> &ShareShifts {
        &self.shifts
    }

    pub(super) const fn hook(&self) -> Hook {
        self.hook
    }

    /// Compares the positions of two paths in one hook: the lesser may still reach the greater.
    pub(super) fn progress(&self, other: &Self) -> Ordering {
        self.stack.progress(&other.stack)
    }

    /// Paths at one position with equal keys have the same future.
    pub(super) fn merge_key(&self) -> MergeKey {
        MergeKey {
            destination: self.packet.destination,
            port: self.packet.port,
            is_translated: self.packet.is_translated,
            is_masqueraded: self.packet.is_masqueraded,
            mark: self.packet.mark,
            connection_mark: self.packet.connection_mark,
            added_to: self.packet.added_to.clone(),
        }
    }

    /// Reports whether the merge keys are equal. Compares the mark first, which costs nothing.
    pub(super) fn can_merge(&self, other: &Self) -> bool {
        self.packet.mark == other.packet.mark && self.merge_key() == other.merge_key()
    }

    /// Merges another path into this one. Only the steps of one are kept: those of packets that no
    /// undecided rule matches, and of these the shorter list.
    pub(super) fn merge(&mut self, other: Self) {
        let is_first_real = self.is_hypothetical() && !other.is_hypothetical();
        let is_shorter = other.steps.len() < self.steps.len() && !other.is_hypothetical();
        if is_first_real {
            self.branches = other.branches;
        }
        if is_first_real || is_shorter {
            self.steps = other.steps;
        }
        self.share = self.share.plus(other.share);
        self.shifts.add(other.shifts);
    }

    /// Records the index of the branch that this path took at the hook that it left.
    pub(super) fn push_branch(&mut self, index: usize) {
        self.branches.push(index);
    }

    /// Returns the indexes of the branches, by which outcomes are sorted.
    pub(super) fn branches(&self) -> &[usize] {
        &self.branches
    }

    /// Evaluates the next rule, or the end of a chain. Returns the verdict if the path ends. A
    /// random or undecided rule forks the path: the part that does not match is added to `forks`.
    pub(super) fn step(
        &mut self,
        rules: &'a RuleSet,
        forks: &mut Forks<'a, Self>,
    ) -> Option<Verdict> {
        let (table, hook_chain) = self.hook.chain();
        let (chain, rule) = match self.stack.next() {
            Next::Start => return self.call(rules, hook_chain),
            Next::End => return self.end_of_chain(),
            Next::Rule(chain, rule) => (chain, rule),
        };
        let step = Step { table, chain, rule };
        match decide::matches(rule, &self.packet) {
            MatchResult::No => return None,
            MatchResult::Yes => {}
            MatchResult::Undecided => {
                let skipping = self.fork(forks.add_undecided(step));
                forks.paths.push(skipping);
                if forks.is_exhausted() {
                    return Some(Verdict::Unclear(Unclear::TooManyPaths));
                }
            }
            MatchResult::Sometimes(share) => {
                let skipping = self.split(share);
                forks.paths.push(skipping);
            }
        }
        self.steps.push(step);
        self.update_recent_lists(rule);
        self.apply_target(rules, step)
    }

    /// Adds the source to the lists of `recent --set`, which the following rules can match.
    fn update_recent_lists(&mut self, rule: &Rule) {
        let added_to = &mut self.packet.added_to;
        for one in &rule.matches {
            if let Match::Recent(recent) = one
                && recent.action == RecentAction::Set
                && let Err(place) = added_to.binary_search(&recent.name)
            {
                added_to.insert(place, recent.name.clone());
            }
        }
    }

    /// Keeps that share of the path, and returns the rest, which continues after the rule.
    fn split(&mut self, share: Share) -> Self {
        let mut rest = self.clone();
        (self.share, rest.share) = self.share.split(share);
        rest.shifts = self.shifts.split(share);
        rest
    }

    /// Continues as the path that exists only if an undecided rule matches, and returns the path
    /// on which it does not.
    fn fork(&mut self, rule: usize) -> Self {
        let mut skipping = self.clone();
        skipping.shifts.add(ShareShifts::lost(rule));
        self.share = Share::NONE;
        self.shifts = ShareShifts::gained(rule);
        self.steps.clear();
        skipping
    }

    fn apply_target(&mut self, rules: &'a RuleSet, step: Step<'a>) -> Option<Verdict> {
        match step.rule.target.as_ref()? {
            Target::Accept => self.leave_hook(),
            Target::Drop => Some(Verdict::Dropped),
            Target::Reject(_) => Some(Verdict::Rejected),
            Target::Return => self.end_of_chain(),
            Target::Jump(chain) => self.call(rules, chain),
            Target::Goto(chain) => {
                self.stack.skip_rest();
                self.call(rules, chain)
            }
            Target::Mark(bits) => {
                self.packet.mark = bits.apply(self.packet.mark);
                None
            }
            Target::Dnat { address, port } => {
                self.translate(*address, port.unwrap_or(self.packet.port))
            }
            Target::Masquerade { .. } => self.masquerade(),
            Target::Other(target) => match target::effect(target, self.hook, &self.packet) {
                TargetEffect::Continue {
                    mark,
                    connection_mark,
                } => {
                    self.packet.mark = mark;
                    self.packet.connection_mark = connection_mark;
                    None
                }
                TargetEffect::NewDestination { address, port } => self.translate(address, port),
                TargetEffect::NewSource => self.masquerade(),
                TargetEffect::Unsupported => Some(Verdict::Unclear(Unclear::UnsupportedTarget {
                    table: step.table,
                    chain: step.chain.to_owned(),
                    rule: step.rule.to_string(),
                })),
            },
        }
    }

    fn translate(&mut self, address: IpAddr, port: u16) -> Option<Verdict> {
        self.packet.destination = address;
        self.packet.port = port;
        self.packet.is_translated = true;
        self.leave_hook()
    }

    fn masquerade(&mut self) -> Option<Verdict> {
        self.packet.is_masqueraded = true;
        self.leave_hook()
    }

    fn call(&mut self, rules: &'a RuleSet, name: &str) -> Option<Verdict> {
        let (table, _) = self.hook.chain();
        let called = self.stack.call(rules, table, name);
        called.err().map(Verdict::Unclear)
    }

    fn end_of_chain(&mut self) -> Option<Verdict> {
        match self.stack.leave()? {
            ChainPolicy::Drop => Some(Verdict::Dropped),
            ChainPolicy::Accept => self.leave_hook(),
        }
    }

    fn enter_hook(&mut self, hook: Hook) {
        self.hook = hook;
        self.stack.clear();
        self.packet.incoming = match &self.packet.original.in_interface {
            _ if !hook.has_incoming() => Interface::None,
            _ if self.packet.is_from_node() => Interface::Named("lo"),
            Some(name) => Interface::Named(name),
            None => Interface::NotLoopback,
        };
        // Packets of the node are routed again after translation, but the rules of these hooks see
        // the interface of the first route.
        let routed_to = match hook {
            Hook::FilterOutput => self.packet.original.destination,
            _ => self.packet.destination,
        };
        self.packet.outgoing = match () {
            () if !hook.has_outgoing() => Interface::None,
            () if self.packet.locality.is_local(routed_to) => Interface::Named("lo"),
            () => Interface::NotLoopback,
        };
    }

    /// Enters the next hook, or returns the verdict after the last one.
    fn leave_hook(&mut self) -> Option<Verdict> {
        let to_node = self.packet.locality.is_local(self.packet.destination);
        if let Some(hook) = self.hook.next(self.packet.is_from_node(), to_node) {
            self.enter_hook(hook);
            return None;
        }
        let masqueraded = self.packet.is_masqueraded;
        Some(if self.packet.is_translated {
            Verdict::Delivered {
                to: self.packet.destination,
                port: self.packet.port,
                masqueraded,
            }
        } else {
            Verdict::Passed { masqueraded }
        })
    }
}
