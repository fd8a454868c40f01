//! What a packet does about the rules that it meets.
//!
//! Apart from [`traveller`](super::traveller), which is who meets them: here a rule is obeyed,
//! passed by, or leads to the next chain or hook.

use super::chain::Policy;
use super::decide::{self, Answer};
use super::matches::{Match, RecentAction};
use super::outcome::{Step, Unclear, Verdict};
use super::rule::Rule;
use super::ruleset::RuleSet;
use super::share::Share;
use super::stack::Next;
use super::table::Table;
use super::target::Target;
use super::traveller::{Doubt, Traveller};

impl<'a> Traveller<'a, '_> {
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
