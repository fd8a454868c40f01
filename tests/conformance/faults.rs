//! Faults that hit deltaproxy's node in the middle of a history: other programs damage its rules,
//! and the daemon, its restores and the lock fail it. kube-proxy's node has none of them.
//!
//! Which rule is hit is a function of the rules and of a drawn number, so that a seed repeats it.

use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::compare::Rules;
use super::node::Node;
use super::support::daemon::Backend;
use super::support::rules::Family;

/// Comment of a rule of another program that is not in a chain of ours. It stays.
pub const NEIGHBOR: &str = "soak-neighbor";

/// How long the daemon is stopped, and the lock held, while changes arrive.
const PAUSE: Duration = Duration::from_secs(2);

/// How long a kube-proxy runs next to deltaproxy.
const VISIT: Duration = Duration::from_secs(5);

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    EmptiedChain,
    DeletedRule,
    DeletedJump,
    ReplacedRule,
    RuleInOurs,
    RuleNextToOurs,
    FlushedTable,
    FlushedTables,
    FlushedRuleset,
    StoppedDaemon,
    KilledDaemon,
    FailingRestores,
    KilledRestore,
    HeldLock,
    SecondProxy,
    /// Lasts longer than a step, so that no history has it beside others.
    UnreliableRestores,
}

impl Fault {
    pub const ALL: [Self; 15] = [
        Self::EmptiedChain,
        Self::DeletedRule,
        Self::DeletedJump,
        Self::ReplacedRule,
        Self::RuleInOurs,
        Self::RuleNextToOurs,
        Self::FlushedTable,
        Self::FlushedTables,
        Self::FlushedRuleset,
        Self::StoppedDaemon,
        Self::KilledDaemon,
        Self::FailingRestores,
        Self::KilledRestore,
        Self::HeldLock,
        Self::SecondProxy,
    ];

    /// Those that damage rules, and leave the daemon and its programs alone: the first ones.
    pub fn damages() -> &'static [Self] {
        let others = Self::ALL.iter().position(|one| *one == Self::StoppedDaemon);
        &Self::ALL[..others.unwrap_or(Self::ALL.len())]
    }
}

/// Causes it on a node; returns what was done, for reports.
pub fn cause(node: &mut Node, fault: Fault, number: usize) -> String {
    match fault {
        Fault::FlushedRuleset if node.variant().backend == Backend::Nft => {
            node.with_daemon_stopped(|| node.run("nft", &["flush", "ruleset"]));
            "nft flush ruleset".to_owned()
        }
        Fault::FlushedTables | Fault::FlushedRuleset => {
            node.with_daemon_stopped(|| node.flush());
            "all tables flushed".to_owned()
        }
        Fault::StoppedDaemon => {
            node.signal(Signal::SIGSTOP);
            "daemon stopped".to_owned()
        }
        Fault::KilledDaemon => {
            thread::sleep(Duration::from_millis(number as u64 % 60));
            node.kill();
            "daemon killed".to_owned()
        }
        Fault::FailingRestores => {
            node.spoil_restores(1 + number % 3, "exit 1");
            format!("the next {} restores of each family fail", 1 + number % 3)
        }
        Fault::KilledRestore => {
            node.spoil_restores(1, "kill -9 $$");
            "the next restore of each family is killed".to_owned()
        }
        Fault::UnreliableRestores => {
            // The trial of a match is not repeated before the next full sync.
            let script = "payload=$(mktemp); cat >$payload; exec <$payload\n\
                          if ! grep -q NFACCT-TEST $payload &&\n\
                          [ $(($(od -An -N1 -tu1 /dev/urandom) % 10)) -lt 3 ]\n\
                          then rm $payload; exit 1; fi; rm $payload";
            node.spoil_restores(1 << 10, script);
            "three of ten restores fail".to_owned()
        }
        Fault::HeldLock if node.variant().backend == Backend::Legacy => {
            let (lock, seconds) = (node.xtables_lock(), PAUSE.as_secs().to_string());
            let mut holder = Command::new("flock");
            holder.arg(lock).args(["sleep", &seconds]);
            let mut child = holder.spawn().expect("start flock");
            thread::spawn(move || child.wait());
            "xtables lock held".to_owned()
        }
        // It would need the configuration file.
        Fault::SecondProxy if node.variant().config.is_none() => {
            node.run_kube_proxy_for(VISIT);
            "a real kube-proxy ran next to the daemon".to_owned()
        }
        Fault::HeldLock | Fault::SecondProxy => damage(node, Fault::DeletedRule, number),
        _ => damage(node, fault, number),
    }
}

/// Ends what lasts, once changes were made meanwhile.
pub fn end(node: &mut Node, fault: Fault) {
    match fault {
        Fault::StoppedDaemon => {
            thread::sleep(PAUSE);
            node.signal(Signal::SIGCONT);
        }
        Fault::KilledDaemon => node.restart(),
        _ => {}
    }
}

/// Changes one thing in the rules of one family, and proves that it did.
fn damage(node: &Node, fault: Fault, number: usize) -> String {
    let family = Family::ALL[number % Family::ALL.len()];
    let mut done = String::new();
    node.with_daemon_stopped(|| {
        let before = node.saved(family);
        let Some((table, command)) = target(&before, fault, number / Family::ALL.len(), family)
        else {
            // A small cluster need not have such a rule.
            return;
        };
        node.restore(
            family,
            &["--noflush"],
            &format!("*{table}\n{command}\nCOMMIT\n"),
        );
        let differences = Rules::read(&before).differences(&Rules::read(&node.saved(family)));
        assert_ne!(
            differences, "",
            "{fault:?} changes nothing: {table} {command}"
        );
        done = format!("{family:?} {table} {command}");
    });
    done
}

/// A rule with its table, its chain and its number there.
struct Place<'a> {
    table: &'a str,
    chain: &'a str,
    number: usize,
    rule: &'a str,
}

impl Place<'_> {
    fn is_ours(&self) -> bool {
        self.chain.starts_with("KUBE-")
    }
}

fn places(saved: &str) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    let mut table = "";
    for line in saved.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        } else if let Some(rule) = line.strip_prefix("-A ") {
            let (chain, rule) = rule.split_once(' ').unwrap_or((rule, ""));
            let last = places.last();
            let last = last.filter(|last| last.table == table && last.chain == chain);
            let number = last.map_or(1, |last| last.number + 1);
            places.push(Place {
                table,
                chain,
                number,
                rule,
            });
        }
    }
    places
}

/// The table to damage, and a command of the restore program that does it.
fn target(saved: &str, fault: Fault, number: usize, family: Family) -> Option<(String, String)> {
    let (stranger, endpoint) = match family {
        Family::V4 => ("203.0.113.9/32", "10.4.255.254/32"),
        Family::V6 => ("2001:db8::9/128", "fd00:10:4::fffe/128"),
    };
    if fault == Fault::RuleNextToOurs {
        let rule = format!("-A FORWARD -s {stranger} -m comment --comment {NEIGHBOR} -j ACCEPT");
        return Some(("filter".to_owned(), rule));
    }
    let is_wanted = |place: &&Place<'_>| match fault {
        Fault::DeletedJump => !place.is_ours() && place.rule.contains("-j KUBE-"),
        Fault::ReplacedRule => {
            place.chain.starts_with("KUBE-SEP-") && place.rule.ends_with("-j KUBE-MARK-MASQ")
        }
        // Of kubelets before 1.28, which append a rule of their own.
        Fault::RuleInOurs => place.is_ours() && place.chain != "KUBE-FIREWALL",
        Fault::FlushedTable => true,
        _ => place.is_ours(),
    };
    let places = places(saved);
    let wanted: Vec<&Place<'_>> = places.iter().filter(is_wanted).collect();
    let place = wanted.get(number.checked_rem(wanted.len())?)?;
    let (chain, at) = (place.chain, place.number);
    let command = match fault {
        Fault::EmptiedChain => format!("-F {chain}"),
        Fault::ReplacedRule => {
            let source = place.rule.strip_prefix("-s ")?.split(' ').next()?;
            format!(
                "-R {chain} {at} {}",
                place.rule.replacen(source, endpoint, 1)
            )
        }
        Fault::RuleInOurs => format!("-I {chain} 1 -s {stranger} -j ACCEPT"),
        Fault::FlushedTable => "-F".to_owned(),
        _ => format!("-D {chain} {at}"),
    };
    Some((place.table.to_owned(), command))
}
