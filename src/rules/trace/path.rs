//! One path of a packet through the hooks, and the effects of the rules on it.

use std::cmp::Ordering;
use std::net::IpAddr;

use super::decide::{self, Interface, MatchResult, PacketState};
use super::hook::{CallStack, Hook, Next};
use super::outcome::{Locality, Packet, Step, TraceOutcome, Unclear, Verdict};
use crate::rules::chain::ChainPolicy;
use crate::rules::grammar::{Match, RecentAction, Rule, Share, Target};
use crate::rules::ruleset::RuleSet;

/// Treatment of a rule that cannot be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnUndecided {
    /// The trace ends there.
    Stop,
    /// The trace continues as if the rule did not match, and reports the rule.
    Skip,
}

/// Path of a packet: of all packets, or of the share for which random rules had the same results.
#[derive(Debug, Clone)]
pub(super) struct TracePath<'a, 'q> {
    packet: PacketState<'q>,
    hook: Hook,
    stack: CallStack<'a>,
    masqueraded: bool,
    share: Share,
    steps: Vec<Step<'a>>,
    on_undecided: OnUndecided,
    undecided: Vec<Step<'a>>,
    /// Index of the branch that this path took at each hook, for the order of outcomes.
    branches: Vec<usize>,
}

/// All state of a path that decides its future at a given position.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MergeKey {
    destination: IpAddr,
    port: u16,
    is_translated: bool,
    masqueraded: bool,
    mark: u32,
    added_to: Vec<Box<str>>,
}

impl<'a, 'q> TracePath<'a, 'q> {
    /// Returns the path of all packets at their first hook.
    pub(super) fn new(
        packet: &'q Packet,
        locality: &'q Locality,
        on_undecided: OnUndecided,
    ) -> Self {
        let from_node = locality.is_local(packet.source);
        let mut path = Self {
            packet: PacketState {
                original: packet,
                locality,
                destination: packet.destination,
                port: packet.port.get(),
                is_translated: false,
                mark: 0,
                incoming: Interface::None,
                outgoing: Interface::None,
                added_to: Vec::new(),
            },
            hook: Hook::MangleOutput,
            stack: CallStack::default(),
            masqueraded: false,
            share: Share::ALL,
            steps: Vec::new(),
            on_undecided,
            undecided: Vec::new(),
            branches: Vec::new(),
        };
        path.enter_hook(if from_node {
            Hook::MangleOutput
        } else {
            Hook::ManglePrerouting
        });
        path
    }

    /// Ends the path with a verdict.
    pub(super) fn end(self, verdict: Verdict) -> TraceOutcome<'a> {
        TraceOutcome {
            share: self.share,
            verdict,
            at: self.hook.chain(),
            steps: self.steps,
            undecided: self.undecided,
        }
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
            masqueraded: self.masqueraded,
            mark: self.packet.mark,
            added_to: self.packet.added_to.clone(),
        }
    }

    /// Reports whether the merge keys are equal. Compares the mark first, which costs nothing.
    pub(super) fn can_merge(&self, other: &Self) -> bool {
        self.packet.mark == other.packet.mark && self.merge_key() == other.merge_key()
    }

    /// Merges another path into this one. Only the steps of one are kept: the shorter list.
    pub(super) fn merge(&mut self, other: Self) {
        self.share = self.share.plus(other.share);
        if other.steps.len() < self.steps.len() {
            self.steps = other.steps;
        }
        for step in other.undecided {
            if !self.undecided.contains(&step) {
                self.undecided.push(step);
            }
        }
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
    /// random rule splits the path: the part that does not match is pushed to `branches`.
    pub(super) fn step(&mut self, rules: &'a RuleSet, branches: &mut Vec<Self>) -> Option<Verdict> {
        let (table, hook_chain) = self.hook.chain();
        let (chain, rule) = match self.stack.next() {
            Next::Start => return self.call(rules, hook_chain),
            Next::End => return self.end_of_chain(),
            Next::Rule(chain, rule) => (chain, rule),
        };
        let step = Step { table, chain, rule };
        match decide::matches(rule, &self.packet) {
            MatchResult::No => return None,
            MatchResult::Undecided => return self.undecided_rule(step),
            MatchResult::Yes => {}
            MatchResult::Sometimes(share) => branches.push(self.split(share)),
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

    fn undecided_rule(&mut self, step: Step<'a>) -> Option<Verdict> {
        match self.on_undecided {
            OnUndecided::Stop => Some(Verdict::Unclear(Unclear::UndecidedRule {
                table: step.table,
                chain: step.chain.to_owned(),
                rule: step.rule.to_string(),
            })),
            // Such a rule has no effect on the packet, whether or not it matches.
            OnUndecided::Skip if step.rule.target.as_ref().is_none_or(is_without_effect) => None,
            OnUndecided::Skip => {
                self.undecided.push(step);
                None
            }
        }
    }

    /// Keeps that share of the path, and returns the rest, which continues after the rule.
    fn split(&mut self, share: Share) -> Self {
        let mut rest = self.clone();
        (self.share, rest.share) = self.share.split(share);
        rest
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
                self.packet.destination = *address;
                self.packet.port = port.unwrap_or(self.packet.port);
                self.packet.is_translated = true;
                self.leave_hook()
            }
            Target::Masquerade { .. } => {
                self.masqueraded = true;
                self.leave_hook()
            }
            Target::Other(_) if step.rule.is_unparsed() => self.undecided_rule(step),
            Target::Other(target) => match &*target.name {
                name if WITHOUT_EFFECT.contains(&name) => None,
                // Neither the new address nor the choice of the source port changes the verdict.
                "MASQUERADE" | "SNAT" => {
                    self.masqueraded = true;
                    self.leave_hook()
                }
                _ => Some(Verdict::Unclear(Unclear::UnsupportedTarget {
                    table: step.table,
                    chain: step.chain.to_owned(),
                    rule: step.rule.to_string(),
                })),
            },
        }
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
            _ if self.is_from_node() => Interface::Named("lo"),
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
        if let Some(hook) = self.hook.next(self.is_from_node(), to_node) {
            self.enter_hook(hook);
            return None;
        }
        let masqueraded = self.masqueraded;
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

    fn is_from_node(&self) -> bool {
        self.packet.locality.is_local(self.packet.original.source)
    }
}

/// Targets after which the packet continues unchanged, as far as it is modeled here.
const WITHOUT_EFFECT: &[&str] = &[
    "AUDIT",
    "CHECKSUM",
    "CLASSIFY",
    "CONNMARK",
    "CONNSECMARK",
    "DSCP",
    "ECN",
    "HL",
    "IDLETIMER",
    "LED",
    "LOG",
    "NFLOG",
    "RATEEST",
    "SECMARK",
    "SET",
    "TCPMSS",
    "TCPOPTSTRIP",
    "TEE",
    "TOS",
    "TRACE",
    "TTL",
    "ULOG",
];

fn is_without_effect(target: &Target) -> bool {
    matches!(target, Target::Other(extension) if WITHOUT_EFFECT.contains(&&*extension.name))
}
