//! What happens to one packet, and which rules it met.
//!
//! Apart because it is netfilter's half of the story: hooks in their order, chains, jumps. What a
//! single rule makes of a packet is in [`decide`](super::decide).
//!
//! The packet is the first of a connection. Where rules choose at random every choice is
//! followed, each with its share. `mangle`, `raw` and nat `INPUT` are not walked: nothing of ours
//! is there.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/iptables/proxier_test.go`, `iptablesTracer` has the idea (v1.36)

use super::chain::{Chain, Policy};
use super::decide::{self, Answer, Incoming, Seen};
use super::outcome::{Outcome, Step, Unclear, Verdict};
use super::packet::{Locality, Packet};
use super::rule::Rule;
use super::ruleset::RuleSet;
use super::share::Share;
use super::table::Table;
use super::target::Target;

/// Follows the packet through the rules. Outcomes come in the order of the rules that made them.
/// A rule that cannot be decided is the end of a way.
pub fn trace<'a>(rules: &'a RuleSet, packet: &Packet, locality: &Locality) -> Vec<Outcome<'a>> {
    follow(rules, Traveller::new(packet, locality, Doubt::Stop))
}

/// The same, but rules that cannot be decided are passed by as if they did not match, and named in
/// [`Outcome::doubts`]. Most of these are exceptions that other programs make for some packets.
pub fn trace_past_doubts<'a>(
    rules: &'a RuleSet,
    packet: &Packet,
    locality: &Locality,
) -> Vec<Outcome<'a>> {
    follow(rules, Traveller::new(packet, locality, Doubt::PassBy))
}

fn follow<'a>(rules: &'a RuleSet, first: Traveller<'a, '_>) -> Vec<Outcome<'a>> {
    let mut outcomes = Vec::new();
    let mut travellers = vec![first];
    while let Some(mut traveller) = travellers.pop() {
        let verdict = loop {
            if let Some(verdict) = traveller.step(rules, &mut travellers) {
                break verdict;
            }
        };
        outcomes.push(Outcome {
            share: traveller.share,
            verdict,
            at: traveller.hook.chain(),
            steps: traveller.steps,
            doubts: traveller.doubts,
        });
    }
    outcomes
}

/// What to do about a rule that cannot be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    Stop,
    PassBy,
}

/// A place where rules are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hook {
    NatPrerouting,
    NatOutput,
    FilterInput,
    FilterForward,
    FilterOutput,
    NatPostrouting,
}

impl Hook {
    const fn chain(self) -> (Table, &'static str) {
        match self {
            Self::NatPrerouting => (Table::Nat, "PREROUTING"),
            Self::NatOutput => (Table::Nat, "OUTPUT"),
            Self::FilterInput => (Table::Filter, "INPUT"),
            Self::FilterForward => (Table::Filter, "FORWARD"),
            Self::FilterOutput => (Table::Filter, "OUTPUT"),
            Self::NatPostrouting => (Table::Nat, "POSTROUTING"),
        }
    }

    /// Where the packet goes next; `to_node`: as routed after translation.
    const fn next(self, from_node: bool, to_node: bool) -> Option<Self> {
        match (self, from_node, to_node) {
            (Self::NatPrerouting, _, false) => Some(Self::FilterForward),
            (Self::NatOutput, ..) => Some(Self::FilterOutput),
            (Self::FilterForward | Self::FilterOutput, ..) => Some(Self::NatPostrouting),
            // What the node sends to itself leaves through `lo` and comes in again.
            (Self::NatPrerouting, _, true) | (Self::NatPostrouting, true, true) => {
                Some(Self::FilterInput)
            }
            (Self::FilterInput | Self::NatPostrouting, ..) => None,
        }
    }

    const fn has_incoming(self) -> bool {
        !matches!(
            self,
            Self::NatOutput | Self::FilterOutput | Self::NatPostrouting
        )
    }
}

/// A packet on its way, or that part of all packets that took the same way so far.
#[derive(Debug, Clone)]
struct Traveller<'a, 'q> {
    seen: Seen<'q>,
    hook: Hook,
    /// The chains it is in, the innermost last. Empty before the first rule of a hook.
    stack: Vec<Frame<'a>>,
    masqueraded: bool,
    share: Share,
    steps: Vec<Step<'a>>,
    doubt: Doubt,
    doubts: Vec<Step<'a>>,
}

/// A chain that is being walked.
#[derive(Debug, Clone, Copy)]
struct Frame<'a> {
    name: &'a str,
    chain: &'a Chain,
    next: usize,
}

impl<'a, 'q> Traveller<'a, 'q> {
    fn new(packet: &'q Packet, locality: &'q Locality, doubt: Doubt) -> Self {
        let from_node = locality.is_local(packet.source);
        let mut traveller = Self {
            seen: Seen {
                packet,
                locality,
                destination: packet.destination,
                port: packet.port.get(),
                is_translated: false,
                mark: 0,
                incoming: Incoming::None,
            },
            hook: Hook::NatOutput,
            stack: Vec::new(),
            masqueraded: false,
            share: Share::ALL,
            steps: Vec::new(),
            doubt,
            doubts: Vec::new(),
        };
        traveller.arrive(if from_node {
            Hook::NatOutput
        } else {
            Hook::NatPrerouting
        });
        traveller
    }

    fn arrive(&mut self, hook: Hook) {
        self.hook = hook;
        self.stack.clear();
        self.seen.incoming = match &self.seen.packet.in_interface {
            _ if !hook.has_incoming() => Incoming::None,
            _ if self.is_from_node() => Incoming::Named("lo"),
            Some(name) => Incoming::Named(name),
            None => Incoming::Unnamed,
        };
    }

    fn is_from_node(&self) -> bool {
        self.seen.locality.is_local(self.seen.packet.source)
    }

    /// Meets the next rule, or the end of a chain. `Some`: the way ends here.
    fn step(&mut self, rules: &'a RuleSet, others: &mut Vec<Self>) -> Option<Verdict> {
        let (table, hook_chain) = self.hook.chain();
        let Some(frame) = self.stack.last_mut() else {
            return self.call(rules, hook_chain);
        };
        let chain = frame.name;
        let Some(rule) = frame.chain.rules.get(frame.next) else {
            return self.end_of_chain();
        };
        frame.next += 1;
        let step = Step { table, chain, rule };
        match decide::matches(rule, &self.seen) {
            Answer::No => return None,
            Answer::Unknown => return self.doubt(step),
            Answer::Yes => {}
            Answer::Sometimes(share) => others.push(self.part(share)),
        }
        self.steps.push(step);
        self.obey(rules, step)
    }

    fn doubt(&mut self, step: Step<'a>) -> Option<Verdict> {
        match self.doubt {
            Doubt::Stop => Some(unknown(step.table, step.chain, step.rule)),
            // Whether or not it matches, nothing comes of it.
            Doubt::PassBy if step.rule.target.as_ref().is_none_or(looks_only) => None,
            Doubt::PassBy => {
                self.doubts.push(step);
                None
            }
        }
    }

    /// Keeps that share; the rest goes on behind the rule.
    fn part(&mut self, share: Share) -> Self {
        let mut rest = self.clone();
        rest.share = self.share.of(share.complement());
        self.share = self.share.of(share);
        rest
    }

    fn obey(&mut self, rules: &'a RuleSet, step: Step<'a>) -> Option<Verdict> {
        match step.rule.target.as_ref()? {
            Target::Accept => self.leave_hook(),
            Target::Drop => Some(Verdict::Dropped),
            Target::Reject(_) => Some(Verdict::Rejected),
            Target::Return => self.end_of_chain(),
            Target::Jump(chain) => self.call(rules, chain),
            Target::Goto(chain) => {
                // Whoever returns from there finds this chain at its end.
                if let Some(frame) = self.stack.last_mut() {
                    frame.next = usize::MAX;
                }
                self.call(rules, chain)
            }
            Target::Mark(bits) => {
                self.seen.mark = bits.apply(self.seen.mark);
                None
            }
            Target::Dnat { address, port } => {
                self.seen.destination = *address;
                self.seen.port = port.unwrap_or(self.seen.port);
                self.seen.is_translated = true;
                self.leave_hook()
            }
            Target::Masquerade { .. } => {
                self.masqueraded = true;
                self.leave_hook()
            }
            target @ Target::Other(_) if looks_only(target) => None,
            Target::Other(_) => self.doubt(step),
        }
    }

    fn call(&mut self, rules: &'a RuleSet, name: &str) -> Option<Verdict> {
        let (table, _) = self.hook.chain();
        let Some((name, chain)) = rules.find(table, name) else {
            return Some(Verdict::Unclear(Unclear::Missing(name.to_owned())));
        };
        if self.stack.iter().any(|frame| frame.name == name) {
            return Some(Verdict::Unclear(Unclear::Loop(name.to_owned())));
        }
        self.stack.push(Frame {
            name,
            chain,
            next: 0,
        });
        None
    }

    fn end_of_chain(&mut self) -> Option<Verdict> {
        match self.stack.pop()?.chain.policy {
            None => None,
            Some(Policy::Drop) => Some(Verdict::Dropped),
            Some(Policy::Accept) => self.leave_hook(),
        }
    }

    fn leave_hook(&mut self) -> Option<Verdict> {
        let to_node = self.seen.locality.is_local(self.seen.destination);
        if let Some(hook) = self.hook.next(self.is_from_node(), to_node) {
            self.arrive(hook);
            return None;
        }
        let masqueraded = self.masqueraded;
        Some(if self.seen.is_translated {
            Verdict::Delivered {
                to: self.seen.destination,
                port: self.seen.port,
                masqueraded,
            }
        } else {
            Verdict::Passed { masqueraded }
        })
    }
}

/// Targets that let the packet go on unchanged, as far as is modelled here.
const LOOKS_ONLY: &[&str] = &["LOG", "NFLOG", "AUDIT", "TRACE"];

fn looks_only(target: &Target) -> bool {
    matches!(target, Target::Other(extension) if LOOKS_ONLY.contains(&&*extension.name))
}

fn unknown(table: Table, chain: &str, rule: &Rule) -> Verdict {
    Verdict::Unclear(Unclear::Unknown {
        table,
        chain: chain.to_owned(),
        rule: rule.to_string(),
    })
}
