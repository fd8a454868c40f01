//! One path of a packet from hook to hook, from the first packet of a connection to the reply to
//! it, and the effects of the rules on it.

use std::cmp::Ordering;
use std::net::IpAddr;

use super::decide::{self, TargetEffect};
use super::fork::{Forks, ShareShifts};
use super::hook::{CallStack, Hook, Next};
use super::outcome::{
    Packet, ReplyLoss, Step, TraceOutcome, TracedNode, TraversedChain, Unclear, Verdict,
};
use super::packet::{Direction, Interface, MatchResult, PacketAddress, PacketState, Tracking};
use crate::rules::chain::ChainPolicy;
use crate::rules::grammar::{Match, RecentAction, Rule, Share, Target};
use crate::rules::ruleset::RuleSet;
use crate::rules::table::{Table, TracedTable};

/// Path of a packet: of all packets, or of the share for which random rules had the same results.
#[derive(Debug, Clone)]
pub(super) struct TracePath<'a, 'q> {
    pub(super) packet: PacketState<'q>,
    pub(super) hook: Hook,
    pub(super) stack: CallStack<'a>,
    /// Share of the packets if no undecided rule matches. `NONE`: the path exists only if one does.
    share: Share,
    /// Changes of the share if undecided rules match.
    shifts: ShareShifts,
    steps: Vec<Step<'a>>,
    reply_steps: Vec<Step<'a>>,
    /// Chains that the packet entered so far, each once.
    traversed: Vec<TraversedChain<'a>>,
    /// Index of the branch that this path took at each hook, for the order of outcomes.
    branches: Vec<usize>,
}

/// All state of a path that decides its future at a given position.
pub(super) type MergeKey<'q> = (
    (IpAddr, u16),
    (Tracking, bool),
    Option<PacketAddress>,
    (u32, u32),
    [Interface<'q>; 2],
    Vec<Box<str>>,
);

impl<'a, 'q> TracePath<'a, 'q> {
    /// Returns the path of all packets at their first hook.
    pub(super) fn new(packet: &'q Packet, traced_node: &'q TracedNode) -> Self {
        let packet = PacketState::new(packet, traced_node);
        let hook = Hook::first(packet.is_from_node());
        let mut path = Self {
            packet,
            hook,
            stack: CallStack::default(),
            share: Share::ALL,
            shifts: ShareShifts::default(),
            steps: Vec::new(),
            reply_steps: Vec::new(),
            traversed: Vec::new(),
            branches: Vec::new(),
        };
        path.enter_hook(hook);
        path
    }

    pub(super) fn end(
        self,
        verdict: Verdict,
        undecided: Vec<Step<'a>>,
        is_cut_off: bool,
    ) -> TraceOutcome<'a> {
        TraceOutcome {
            share: self.share,
            verdict,
            at: self.hook.chain(),
            steps: self.steps,
            reply_steps: self.reply_steps,
            undecided,
            is_cut_off,
            traversed: self.traversed,
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

    /// Returns the position among all hooks: those of a reply come after those of its request.
    pub(super) const fn hook(&self) -> (Direction, Hook) {
        (self.packet.direction, self.hook)
    }

    /// Compares the positions of two paths in one hook: the lesser may still reach the greater.
    pub(super) fn progress(&self, other: &Self) -> Ordering {
        self.stack.progress(&other.stack)
    }

    /// Paths at one position with equal keys have the same future.
    pub(super) fn merge_key(&self) -> MergeKey<'q> {
        let packet = &self.packet;
        (
            (packet.receiver, packet.receiver_port),
            (packet.tracking, packet.is_translated),
            packet.new_source,
            (packet.mark, packet.connection_mark),
            [packet.entrance, packet.route],
            packet.added_to.clone(),
        )
    }

    /// Reports whether the merge keys are equal. Compares the mark first, which costs nothing.
    pub(super) fn can_merge(&self, other: &Self) -> bool {
        self.packet.mark == other.packet.mark && self.merge_key() == other.merge_key()
    }

    /// Merges another path into this one. Only the steps of one are kept: those of packets that no
    /// undecided rule matches, and of these the shorter list; of the traversed chains, those with
    /// more rules.
    pub(super) fn merge(&mut self, other: Self) {
        let is_first_real = self.is_hypothetical() && !other.is_hypothetical();
        let is_shorter = other.step_count() < self.step_count() && !other.is_hypothetical();
        let rules = |path: &Self| path.traversed.iter().map(|one| one.rules).sum::<usize>();
        let is_longer = rules(&other) > rules(self);
        if is_first_real || (is_longer && !other.is_hypothetical()) {
            self.traversed = other.traversed.clone();
        }
        if is_first_real {
            self.branches = other.branches;
        }
        if is_first_real || is_shorter {
            self.steps = other.steps;
            self.reply_steps = other.reply_steps;
        }
        self.share = self.share.plus(other.share);
        self.shifts.add(other.shifts);
    }

    const fn step_count(&self) -> usize {
        self.steps.len() + self.reply_steps.len()
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
        if self.packet.direction == Direction::Original {
            // The name in the rule set, so that its address identifies the chain.
            let mut latest_first = self.traversed.iter_mut().rev();
            match latest_first.find(|known| std::ptr::eq(known.chain, chain)) {
                Some(known) => known.rules += 1,
                None => self.traversed.push(TraversedChain {
                    table,
                    chain,
                    rules: 1,
                }),
            }
        }
        let step = Step { table, chain, rule };
        match decide::matches(rule, &self.packet) {
            MatchResult::No => return None,
            MatchResult::Yes => {}
            // Both paths would meet at the next rule.
            MatchResult::Undecided | MatchResult::Sometimes(_) if self.is_unchanged_by(rule) => {
                return None;
            }
            MatchResult::Undecided if forks.is_exhausted() => {
                forks.add_unfollowed(step);
                return None;
            }
            MatchResult::Undecided => {
                if self.is_hypothetical() {
                    forks.count_nested();
                }
                let skipping = self.fork(forks.add_undecided(step));
                forks.paths.push(skipping);
            }
            MatchResult::Sometimes(share) => {
                forks.count_shifts(&mut self.shifts);
                let skipping = self.split(share);
                forks.paths.push(skipping);
            }
        }
        match self.packet.direction {
            Direction::Original => self.steps.push(step),
            Direction::Reply => self.reply_steps.push(step),
        }
        self.update_recent_lists(rule);
        self.apply_target(rules, step)
    }

    /// Reports whether the packet continues with the next rule and is the same, be it that the rule
    /// matches or not.
    fn is_unchanged_by(&self, rule: &Rule) -> bool {
        let mut matches = rule.matches.iter();
        let sets_list = matches
            .any(|one| matches!(one, Match::Recent(list) if list.action == RecentAction::Set));
        let is_unchanged = match &rule.target {
            None => true,
            Some(Target::Mark(bits)) => bits.apply(self.packet.mark) == self.packet.mark,
            Some(Target::Other(target)) => {
                let packet = &self.packet;
                let unchanged = TargetEffect::Continue {
                    mark: packet.mark,
                    connection_mark: packet.connection_mark,
                };
                decide::effect(target, self.hook, packet) == unchanged
            }
            Some(_) => false,
        };
        is_unchanged && !sets_list && !rule.is_unparsed()
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
        // Taken, because copies of all shifts would cost more than everything else.
        let mut shifts = std::mem::replace(&mut self.shifts, ShareShifts::gained(rule));
        let mut skipping = self.clone();
        shifts.add(ShareShifts::lost(rule));
        skipping.shifts = shifts;
        self.share = Share::NONE;
        self.steps.clear();
        self.reply_steps.clear();
        skipping
    }

    fn apply_target(&mut self, rules: &'a RuleSet, step: Step<'a>) -> Option<Verdict> {
        match step.rule.target.as_ref()? {
            Target::Accept => self.leave_hook(),
            Target::Drop => Some(self.blocked(ReplyLoss::Dropped)),
            Target::Reject(_) => Some(self.blocked(ReplyLoss::Rejected)),
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
                self.translate(*address, port.unwrap_or(self.packet.receiver_port))
            }
            Target::Masquerade { .. } => self.masquerade(decide::masquerade_address(&self.packet)),
            Target::Other(target) => match decide::effect(target, self.hook, &self.packet) {
                TargetEffect::Continue {
                    mark,
                    connection_mark,
                } => {
                    self.packet.mark = mark;
                    self.packet.connection_mark = connection_mark;
                    None
                }
                TargetEffect::NewDestination { address, port } => self.translate(address, port),
                TargetEffect::NewSource(address) => self.masquerade(address),
                TargetEffect::NoTracking => {
                    self.packet.tracking = Tracking::Untracked;
                    None
                }
                TargetEffect::Unsupported => Some(Verdict::Unclear(Unclear::UnsupportedTarget {
                    table: step.table,
                    chain: step.chain.to_owned(),
                    rule: step.rule.to_string(),
                })),
            },
        }
    }

    fn translate(&mut self, address: IpAddr, port: u16) -> Option<Verdict> {
        self.packet.translate(address, port);
        self.leave_hook()
    }

    fn masquerade(&mut self, address: PacketAddress) -> Option<Verdict> {
        self.packet.new_source = Some(address);
        self.leave_hook()
    }

    fn call(&mut self, rules: &'a RuleSet, name: &str) -> Option<Verdict> {
        let (table, _) = self.hook.chain();
        let called = self.stack.call(rules, table, name);
        called.err().map(Verdict::Unclear)
    }

    fn end_of_chain(&mut self) -> Option<Verdict> {
        match self.stack.leave()? {
            ChainPolicy::Drop => Some(self.blocked(ReplyLoss::Dropped)),
            ChainPolicy::Accept => self.leave_hook(),
        }
    }

    pub(super) fn enter_hook(&mut self, hook: Hook) {
        self.hook = hook;
        self.stack.clear();
        self.packet.enter_hook(hook);
    }

    /// Enters the next hook, or returns the verdict after the last one. The hooks of `nat` are left
    /// out for packets that its rules do not see.
    pub(super) fn leave_hook(&mut self) -> Option<Verdict> {
        let mut hook = self.hook;
        loop {
            match (hook.chain().0, self.packet.tracking, self.packet.direction) {
                (TracedTable::Raw, Tracking::Pending, _) => {
                    self.packet.tracking = Tracking::Tracked;
                }
                (TracedTable::Raw, Tracking::Untracked, Direction::Reply) => {
                    return Some(self.unanswered(ReplyLoss::Untracked));
                }
                _ => {}
            }
            let (from_node, to_node) = (self.packet.is_from_node(), self.packet.is_to_node());
            let Some(next) = hook.next(from_node, to_node) else {
                return self.end_of_hooks();
            };
            hook = next;
            if hook.chain().0 != Table::Nat {
                break;
            }
            match (self.packet.tracking, self.packet.direction) {
                (Tracking::Untracked, _) => {}
                (_, Direction::Reply) => self.packet.translate_back(hook),
                _ => break,
            }
        }
        self.enter_hook(hook);
        None
    }

    /// Continues with the reply to a packet that was translated, or returns the verdict.
    fn end_of_hooks(&mut self) -> Option<Verdict> {
        let masqueraded = self.packet.new_source.is_some();
        match self.packet.direction {
            Direction::Original if !self.packet.is_translated => {
                Some(Verdict::Passed { masqueraded })
            }
            Direction::Original => {
                self.packet.turn();
                self.enter_hook(Hook::first(self.packet.is_from_node()));
                None
            }
            Direction::Reply => Some(Verdict::Delivered {
                to: self.packet.receiver,
                port: self.packet.receiver_port,
                masqueraded,
            }),
        }
    }

    /// Returns the verdict on a packet that is dropped or rejected.
    pub(super) fn blocked(&self, by: ReplyLoss) -> Verdict {
        match (self.packet.direction, by) {
            (Direction::Reply, loss) => self.unanswered(loss),
            (Direction::Original, ReplyLoss::Rejected) => Verdict::Rejected,
            (Direction::Original, _) => Verdict::Dropped,
        }
    }

    fn unanswered(&self, loss: ReplyLoss) -> Verdict {
        Verdict::Unanswered {
            to: self.packet.receiver,
            port: self.packet.receiver_port,
            masqueraded: self.packet.new_source.is_some(),
            loss,
        }
    }
}
