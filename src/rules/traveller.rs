//! A packet that meets one rule after the other, from hook to hook and from chain to chain.
//!
//! Apart from [`trace`](super::trace), which keeps count of the ways, because this is one of them:
//! where it is, what it carries, what became of it.

use std::cmp::Ordering;
use std::net::IpAddr;

use super::chain::Policy;
use super::decide::{self, Answer, Interface, Seen};
use super::hook::Hook;
use super::matches::{Match, RecentAction};
use super::outcome::{Outcome, Step, Unclear, Verdict};
use super::packet::{Locality, Packet};
use super::rule::Rule;
use super::ruleset::RuleSet;
use super::share::Share;
use super::stack::{Next, Stack};
use super::table::Table;
use super::target::Target;

/// What to do about a rule that cannot be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Stop there.
    Stop,
    /// Go on as if it did not match, and remember it.
    PassBy,
}

/// A packet on its way, or that part of all packets that took the same way so far.
#[derive(Debug, Clone)]
pub(super) struct Traveller<'a, 'q> {
    seen: Seen<'q>,
    hook: Hook,
    stack: Stack<'a>,
    masqueraded: bool,
    share: Share,
    steps: Vec<Step<'a>>,
    doubt: Doubt,
    doubts: Vec<Step<'a>>,
    /// Where its outcome comes among those of others: which of the ways out of each hook it took.
    order: Vec<usize>,
}

/// All that decides what becomes of travellers at the same place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State {
    destination: IpAddr,
    port: u16,
    is_translated: bool,
    masqueraded: bool,
    mark: u32,
    written: Vec<Box<str>>,
}

impl<'a, 'q> Traveller<'a, 'q> {
    pub(super) fn new(packet: &'q Packet, locality: &'q Locality, doubt: Doubt) -> Self {
        let from_node = locality.is_local(packet.source);
        let mut traveller = Self {
            seen: Seen {
                packet,
                locality,
                destination: packet.destination,
                port: packet.port.get(),
                is_translated: false,
                mark: 0,
                incoming: Interface::None,
                outgoing: Interface::None,
                written: Vec::new(),
            },
            hook: Hook::MangleOutput,
            stack: Stack::default(),
            masqueraded: false,
            share: Share::ALL,
            steps: Vec::new(),
            doubt,
            doubts: Vec::new(),
            order: Vec::new(),
        };
        traveller.arrive(if from_node {
            Hook::MangleOutput
        } else {
            Hook::ManglePrerouting
        });
        traveller
    }

    /// What is to be told, now that it ended so.
    pub(super) fn end(self, verdict: Verdict) -> Outcome<'a> {
        Outcome {
            share: self.share,
            verdict,
            at: self.hook.chain(),
            steps: self.steps,
            doubts: self.doubts,
        }
    }

    pub(super) const fn hook(&self) -> Hook {
        self.hook
    }

    /// Whether it is before the other in one hook, or at the same place.
    pub(super) fn progress(&self, other: &Self) -> Ordering {
        self.stack.progress(&other.stack)
    }

    /// Two of equal state at one place meet the same from there on.
    pub(super) fn state(&self) -> State {
        State {
            destination: self.seen.destination,
            port: self.seen.port,
            is_translated: self.seen.is_translated,
            masqueraded: self.masqueraded,
            mark: self.seen.mark,
            written: self.seen.written.clone(),
        }
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.seen.mark == other.seen.mark && self.state() == other.state()
    }

    /// Goes on for both. Only the rules of one are told: of who met the fewer.
    pub(super) fn join(&mut self, other: Self) {
        self.share = self.share.plus(other.share);
        if other.steps.len() < self.steps.len() {
            self.steps = other.steps;
        }
        for doubt in other.doubts {
            if !self.doubts.contains(&doubt) {
                self.doubts.push(doubt);
            }
        }
    }

    /// Remembers that it was the way of that number out of a hook.
    pub(super) fn number(&mut self, number: usize) {
        self.order.push(number);
    }

    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    fn arrive(&mut self, hook: Hook) {
        self.hook = hook;
        self.stack.clear();
        self.seen.incoming = match &self.seen.packet.in_interface {
            _ if !hook.has_incoming() => Interface::None,
            _ if self.is_from_node() => Interface::Named("lo"),
            Some(name) => Interface::Named(name),
            None => Interface::Unnamed,
        };
        // What programs of the node send is routed once more after translation, but the rules of
        // these hooks are not told.
        let routed_to = match hook {
            Hook::FilterOutput => self.seen.packet.destination,
            _ => self.seen.destination,
        };
        self.seen.outgoing = match () {
            () if !hook.has_outgoing() => Interface::None,
            () if self.seen.locality.is_local(routed_to) => Interface::Named("lo"),
            () => Interface::Unnamed,
        };
    }

    fn is_from_node(&self) -> bool {
        self.seen.locality.is_local(self.seen.packet.source)
    }

    /// Meets the next rule, or the end of a chain. `Some`: the way ends here.
    pub(super) fn step(&mut self, rules: &'a RuleSet, others: &mut Vec<Self>) -> Option<Verdict> {
        let (table, hook_chain) = self.hook.chain();
        let (chain, rule) = match self.stack.next() {
            Next::Nothing => return self.call(rules, hook_chain),
            Next::End => return self.end_of_chain(),
            Next::Rule(chain, rule) => (chain, rule),
        };
        let step = Step { table, chain, rule };
        match decide::matches(rule, &self.seen) {
            Answer::No => return None,
            Answer::Unknown => return self.doubt(step),
            Answer::Yes => {}
            Answer::Sometimes(share) => others.push(self.part(share)),
        }
        self.steps.push(step);
        self.write_down(rule);
        self.obey(rules, step)
    }

    /// What `recent` sets is there for the rules that follow.
    fn write_down(&mut self, rule: &Rule) {
        for one in &rule.matches {
            if let Match::Recent(recent) = one
                && recent.action == RecentAction::Set
                && let Err(place) = self.seen.written.binary_search(&recent.name)
            {
                self.seen.written.insert(place, recent.name.clone());
            }
        }
    }

    fn doubt(&mut self, step: Step<'a>) -> Option<Verdict> {
        match self.doubt {
            Doubt::Stop => Some(unknown(step.table, step.chain, step.rule)),
            // Whether or not it matches, nothing comes of it.
            Doubt::PassBy if step.rule.target.as_ref().is_none_or(goes_on) => None,
            Doubt::PassBy => {
                self.doubts.push(step);
                None
            }
        }
    }

    /// Keeps that share; the rest goes on behind the rule.
    fn part(&mut self, share: Share) -> Self {
        let mut rest = self.clone();
        (self.share, rest.share) = self.share.split(share);
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
                self.stack.skip_rest();
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
            Target::Other(_) if step.rule.is_opaque() => self.doubt(step),
            Target::Other(target) => match &*target.name {
                name if GOES_ON.contains(&name) => None,
                // However its source port is chosen, and whichever address it is.
                "MASQUERADE" | "SNAT" => {
                    self.masqueraded = true;
                    self.leave_hook()
                }
                _ => Some(Verdict::Unclear(Unclear::Target {
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
            Policy::Drop => Some(Verdict::Dropped),
            Policy::Accept => self.leave_hook(),
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
const GOES_ON: &[&str] = &[
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

fn goes_on(target: &Target) -> bool {
    matches!(target, Target::Other(extension) if GOES_ON.contains(&&*extension.name))
}

fn unknown(table: Table, chain: &str, rule: &Rule) -> Verdict {
    Verdict::Unclear(Unclear::Unknown {
        table,
        chain: chain.to_owned(),
        rule: rule.to_string(),
    })
}
