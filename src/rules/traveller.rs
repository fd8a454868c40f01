//! A packet that meets one rule after the other, from hook to hook and from chain to chain.
//!
//! Apart from [`trace`](super::trace), which keeps count of the ways, because this is one of them:
//! where it is and what it carries. What rules do to it is in [`obey`](super::obey).

use std::cmp::Ordering;
use std::net::IpAddr;

use super::decide::{Interface, Seen};
use super::hook::Hook;
use super::outcome::{Outcome, Step, Verdict};
use super::packet::{Locality, Packet};
use super::share::Share;
use super::stack::Stack;

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
    pub(super) seen: Seen<'q>,
    pub(super) hook: Hook,
    pub(super) stack: Stack<'a>,
    pub(super) masqueraded: bool,
    pub(super) share: Share,
    pub(super) steps: Vec<Step<'a>>,
    pub(super) doubt: Doubt,
    pub(super) doubts: Vec<Step<'a>>,
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

    pub(super) fn arrive(&mut self, hook: Hook) {
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

    pub(super) fn is_from_node(&self) -> bool {
        self.seen.locality.is_local(self.seen.packet.source)
    }
}
