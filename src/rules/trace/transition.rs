//! Moves a path from hook to hook, and from the first packet of a connection to the reply to it.

use super::hook::Hook;
use super::outcome::{ReplyLoss, Verdict};
use super::packet::{Direction, Interface, Tracking};
use super::path::TracePath;
use crate::rules::table::{Table, TracedTable};

impl TracePath<'_, '_> {
    pub(super) fn enter_hook(&mut self, hook: Hook) {
        self.hook = hook;
        self.stack.clear();
        let packet = &mut self.packet;
        // Replies come in where the request went out, and the other way round.
        let (incoming, outgoing) = match (&packet.original.in_interface, packet.direction) {
            (None, _) => (Interface::NotLoopback, Interface::NotLoopback),
            (Some(name), Direction::Original) => (Interface::Named(name), Interface::NotLoopback),
            (Some(name), Direction::Reply) => (Interface::NotLoopback, Interface::Named(name)),
        };
        packet.incoming = match () {
            () if !hook.has_incoming() => Interface::None,
            () if packet.is_from_node() => Interface::Named("lo"),
            () => incoming,
        };
        packet.outgoing = match packet.is_routed_to_node(hook) {
            _ if !hook.has_outgoing() => Interface::None,
            Some(true) => Interface::Named("lo"),
            Some(false) => outgoing,
            None => Interface::Any,
        };
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
