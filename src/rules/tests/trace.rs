//! Tests of traces through the rules of a small cluster: Pods in 10.0.0.0/8, the node 192.168.0.2,
//! one Service with three endpoints and session affinity, one without endpoints.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/iptables/proxier_test.go`, `TestTracePacket` has the idea (v1.37)

use std::collections::BTreeSet;

use crate::net::Protocol;
use crate::rules::{
    BridgePort, Packet, RuleSet, Share, TraceOutcome, TracedNode, Unclear, Verdict, trace,
};

pub(super) fn packet(source: &str, destination: &str, port: u16) -> Packet {
    Packet {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol: Protocol::Tcp,
        port: port.try_into().unwrap(),
        in_interface: None,
        bridge_port: BridgePort::None,
    }
}

pub(super) fn traced_node() -> TracedNode {
    TracedNode {
        addresses: ["192.168.0.2", "fd00::2"]
            .map(|ip| ip.parse().unwrap())
            .into(),
        recent_lists: BTreeSet::new(),
        host: None,
    }
}

/// Traces a packet, and returns the outcomes with their shares, `(unclear)` if rules are undecided.
pub(super) fn traced(rules: &RuleSet, packet: &Packet) -> String {
    let outcomes = trace(rules, packet, &traced_node());
    let shown = outcomes.iter().map(|one| {
        let is_clear = one.undecided.is_empty();
        let unless = if is_clear { "" } else { " (unclear)" };
        format!("{}: {}{unless}", one.share, one.verdict)
    });
    shown.collect::<Vec<_>>().join("; ")
}

pub(super) fn rules(extra: &str) -> RuleSet {
    let mut rules = RuleSet::default();
    rules.apply(include_str!("saves/v4.payload")).unwrap();
    rules.apply(extra).unwrap();
    rules
}

#[track_caller]
fn outcomes(rules: &RuleSet, packet: &Packet, expected: &[&str]) {
    let traced_node = traced_node();
    let outcomes = trace(rules, packet, &traced_node);
    let shown: Vec<String> = outcomes.iter().map(show).collect();
    assert_eq!(shown, expected);
    assert_shares_are_all(&outcomes);
}

#[track_caller]
pub(super) fn assert_shares_are_all(outcomes: &[TraceOutcome<'_>]) {
    let shares = outcomes.iter().map(|one| one.share);
    assert_eq!(shares.fold(Share::NONE, Share::plus), Share::ALL);
}

/// Renders an outcome, and the undecided rules that could change it.
fn show(outcome: &TraceOutcome<'_>) -> String {
    let unless = outcome.undecided.iter();
    let unless: Vec<String> = unless.map(|step| format!(", unless {step}")).collect();
    format!("{}: {}{}", outcome.share, outcome.verdict, unless.concat())
}

const PASSED: &str = "1: passed, source kept";

/// Traces a packet from outside to 203.0.113.9:80, with the rules of `payload` before all others.
#[track_caller]
fn first(payload: &str, in_interface: Option<&str>, expected: &[&str]) {
    let mut packet = packet("198.51.100.1", "203.0.113.9", 80);
    packet.in_interface = in_interface.map(Box::from);
    outcomes(&rules(payload), &packet, expected);
}

/// Traces a packet from outside through rules of a filter chain, one a line.
#[track_caller]
fn forward(lines: &[&str], expected: &[&str]) {
    let rules = lines.iter().map(|line| format!("{line}\n"));
    let payload = format!("*filter\n{}COMMIT\n", rules.collect::<String>());
    first(&payload, None, expected);
}

#[test]
fn an_undecided_rule_makes_the_outcome_unclear() {
    let limit = "-I FORWARD -p tcp -m limit --limit 5/min -j DROP";
    let unless = "filter FORWARD: -p tcp -m limit --limit 5/min -j DROP";
    forward(&[limit], &[&format!("{PASSED}, unless {unless}")]);
    forward(&[&limit.replace("tcp", "udp")], &[PASSED]);
    forward(&["-I FORWARD -j LOG"], &[PASSED]);
    let set = "-m set ! --match-set friends src -j REJECT";
    let unless = format!("{PASSED}, unless filter FORWARD: {set}");
    forward(&[&format!("-I FORWARD {set}")], &[&unless]);
    let time = "-m time --timestart 01:00:00 -j ACCEPT";
    let accept = format!("-A FORWARD {time}");
    let rules = [accept.as_str(), "-A FORWARD -j REJECT"];
    let unless = format!("1: rejected, unless filter FORWARD: {time}");
    forward(&rules, &[&unless]);
}

#[test]
fn an_undecided_rule_without_effect_leaves_the_outcome_clear() {
    // The mark is cleared before a rule reads it.
    for target in [
        "-j LOG",
        "",
        "-j RETURN",
        "-j ACCEPT",
        "-j MARK --set-xmark 0x1/0x1",
    ] {
        let limit = format!("-A FORWARD -m limit --limit 5/min {target}");
        let clear = "-A FORWARD -j MARK --set-xmark 0x0/0xffffffff";
        forward(&[&limit, clear], &[PASSED]);
    }
    let both = [
        "-A FORWARD -m limit --limit 5/min -j DROP",
        "-A FORWARD -j DROP",
    ];
    forward(&both, &["1: dropped"]);
    let chains = [
        ":A - [0:0]",
        "-A A -m set --match-set one src -j REJECT",
        "-A FORWARD -m set --match-set two src -j A",
        "-A FORWARD -j REJECT",
    ];
    forward(&chains, &["1: rejected"]);
}

#[test]
fn undecided_rules_count_in_every_combination() {
    // Neither rule alone has an effect.
    let both = [
        "-A FORWARD -m limit --limit 5/min -j MARK --set-xmark 0x1/0x1",
        "-A FORWARD -m mark --mark 0x1/0x1 -m set --match-set one src -j DROP",
    ];
    let second = "filter FORWARD: -m mark --mark 0x1/0x1 -m set --match-set one src -j DROP";
    forward(&both, &[&format!("{PASSED}, unless {second}")]);
    let half = [
        "-A FORWARD -m limit --limit 5/min -j MARK --set-xmark 0x1/0x1",
        "-A FORWARD -m statistic --mode random --probability 0.5 -j DROP",
        "-A FORWARD -m mark --mark 0x1/0x1 -j DROP",
    ];
    let unless = "unless filter FORWARD: -m limit --limit 5/min -j MARK --set-xmark 0x1/0x1";
    let [dropped, passed] =
        ["dropped", "passed, source kept"].map(|verdict| format!("1/2: {verdict}, {unless}"));
    forward(&half, &[&dropped, &passed]);
}

#[test]
fn incoming_interfaces_are_matched() {
    let unclear = format!("{PASSED}, unless filter FORWARD: -i cali+ -j DROP");
    for (interface, packet, expected) in [
        ("-i cali+", Some("cali12"), "1: dropped"),
        ("-i cali+", Some("eth0"), PASSED),
        ("-i cali+", None, &unclear),
        ("-i lo", None, PASSED),
        ("! -i lo", None, "1: dropped"),
    ] {
        let drop = format!("*filter\n-I FORWARD {interface} -j DROP\nCOMMIT\n");
        first(&drop, packet, &[expected]);
    }
}

#[test]
fn returns_gotos_and_policies_are_followed() {
    let chains = "*filter\n:A - [0:0]\n:B - [0:0]\n-A B -j RETURN\n-A B -j REJECT\n";
    let call = format!("{chains}-A A -j B\n-A A -j DROP\n-I FORWARD -j A\nCOMMIT\n");
    first(&call, None, &["1: dropped"]);
    let go = format!("{chains}-A A -g B\n-A A -j DROP\n-I FORWARD -j A\nCOMMIT\n");
    first(&go, None, &[PASSED]);
    first("*filter\n-P FORWARD DROP\nCOMMIT\n", None, &["1: dropped"]);
    let accepted = "*filter\n-P FORWARD DROP\n-I FORWARD -j ACCEPT\nCOMMIT\n";
    first(accepted, None, &[PASSED]);
    let state = "*filter\n-I FORWARD -m conntrack --ctstate DNAT -j DROP\nCOMMIT\n";
    first(state, None, &[PASSED]);
    let translated = "*nat\n-I PREROUTING -j DNAT --to-destination 10.0.0.7\nCOMMIT\n";
    first(translated, None, &["1: to 10.0.0.7:80, source kept"]);
    first(&format!("{translated}{state}"), None, &["1: dropped"]);
}

/// Both leave the chain at its end, and are at the first rule of another one.
#[test]
fn gotos_to_two_chains_are_two_paths() {
    let chains = "*filter\n:A - [0:0]\n:B - [0:0]\n:C - [0:0]\n-A B -j DROP\n-A C -j ACCEPT\n";
    let random = "-A A -m statistic --mode random --probability 0.5 -g";
    // In the order in which they end.
    let outcomes = ["1/2: dropped", "1/2: passed, source kept"];
    for (first_target, second) in [("B", "C"), ("C", "B")] {
        let gotos = format!("{random} {first_target}\n-A A -g {second}\n-I FORWARD -j A\nCOMMIT\n");
        first(&(chains.to_owned() + &gotos), None, &outcomes);
    }
}

/// Every chain jumps to the next one twice, so that the steps double with each.
#[test]
fn the_steps_of_a_trace_are_limited() {
    let chains: Vec<String> = (0..60).map(|n| format!(":C{n} - [0:0]\n")).collect();
    let jump = |n: usize| format!("-A C{n} -j C{0}\n-A C{n} -j C{0}\n", n + 1);
    let jumps: Vec<String> = (0..59).map(jump).collect();
    let (chains, jumps) = (chains.concat(), jumps.concat());
    let text = format!("*filter\n{chains}{jumps}-I FORWARD -j C0\nCOMMIT\n");
    let expected = ["1: unclear: the rules have too many paths"];
    first(&text, None, &expected);
}

#[test]
fn loops_and_missing_chains_end_the_trace() {
    let loops = "*filter\n:A - [0:0]\n:B - [0:0]\n-A A -j B\n-A B -j A\n-I FORWARD -j A\nCOMMIT\n";
    first(loops, None, &["1: unclear: jump loop through chain `A`"]);
    let rules = RuleSet::parse("*nat\n-A PREROUTING -j GONE\nCOMMIT\n").unwrap();
    let packet = packet("198.51.100.1", "203.0.113.9", 80);
    let expected = ["1: unclear: chain `GONE` does not exist"];
    outcomes(&rules, &packet, &expected);
}

#[test]
fn an_unparsed_rule_makes_the_outcome_unclear() {
    let rules = RuleSet::parse("*nat\n-A PREROUTING -m new [x y] -j A\nCOMMIT\n").unwrap();
    let packet = packet("198.51.100.1", "203.0.113.9", 80);
    let expected = ["1: passed, source kept, unless nat PREROUTING: -m new [x y] -j A"];
    outcomes(&rules, &packet, &expected);
    assert!(rules.unparsed_rules().count() == 1);
}

#[test]
fn paths_that_meet_are_merged() {
    let chance = "-m statistic --mode random --probability 0.5";
    let many = |rule: &dyn Fn(usize) -> String| -> String { (0..64).map(rule).collect() };
    let empty = many(&|number| format!(":E{number} - [0:0]\n"));
    let calls = many(&|number| format!("-A FORWARD {chance} -j E{number}\n"));
    let calls = format!("*filter\n{empty}{calls}COMMIT\n");
    first(&calls, None, &[PASSED]);
    let logs = many(&|_| format!("-A FORWARD {chance} -j LOG\n"));
    first(&format!("*filter\n{logs}COMMIT\n"), None, &[PASSED]);
    let marks = many(&|_| format!("-A FORWARD {chance} -j MARK --set-xmark 0x1/0x1\n"));
    let dropped = "-A FORWARD -m mark --mark 0x1/0x1 -j DROP\n-P FORWARD ACCEPT\n";
    let two = format!("*filter\n{}{dropped}COMMIT\n", &marks[..marks.len() / 32]);
    let expected = ["3/4: dropped", "1/4: passed, source kept"];
    first(&two, None, &expected);
}

#[test]
fn too_many_paths_are_not_followed() {
    let chance = "-m statistic --mode random --probability 0.5";
    let marks = (0..32).map(|bit| 1_u32 << bit);
    let marks = marks.map(|mark| format!("-A PREROUTING {chance} -j MARK --or-mark {mark}\n"));
    let marks = marks.collect::<Vec<_>>().concat();
    let rules = rules(&format!("*mangle\n{marks}COMMIT\n"));
    let packet = packet("198.51.100.1", "203.0.113.9", 80);
    let found = trace(&rules, &packet, &traced_node());
    let unclear = |verdict: &Verdict| matches!(verdict, Verdict::Unclear(Unclear::TooManyPaths));
    assert!(found.iter().any(|outcome| unclear(&outcome.verdict)));
    assert_shares_are_all(&found);
}

#[test]
fn nesting_of_chains_is_limited() {
    let header = |number| format!(":C{number} - [0:0]\n");
    let jump = |number| format!("-A C{number} -j C{}\n", number + 1);
    let chains = (0..300).map(header).collect::<Vec<_>>().concat();
    let jumps = (0..299).map(jump).collect::<Vec<_>>().concat();
    let deep = format!("*filter\n{chains}{jumps}-I FORWARD -j C0\nCOMMIT\n");
    let expected = "1: unclear: chain `C255` is nested too deeply";
    first(&deep, None, &[expected]);
}

#[test]
fn mangle_is_evaluated_before_the_other_tables() {
    for chain in ["PREROUTING", "FORWARD", "POSTROUTING"] {
        let drop = format!("*mangle\n-A {chain} -p tcp -j DROP\nCOMMIT\n");
        first(&drop, None, &["1: dropped"]);
        let accept = format!("*mangle\n-A {chain} -j ACCEPT\n-A {chain} -j DROP\nCOMMIT\n");
        first(&accept, None, &[PASSED]);
    }
    for chain in ["INPUT", "OUTPUT"] {
        let drop = format!("*mangle\n-A {chain} -j DROP\nCOMMIT\n");
        first(&drop, None, &[PASSED]);
    }
    let marked = "*mangle\n-A PREROUTING -j MARK --set-xmark 0x4000/0x4000\nCOMMIT\n";
    first(marked, None, &["1: passed, masqueraded"]);
    let own = |chain: &str| rules(&format!("*mangle\n-A {chain} -j DROP\nCOMMIT\n"));
    let to_itself = packet("192.168.0.2", "192.168.0.2", 81);
    for chain in ["OUTPUT", "POSTROUTING", "PREROUTING", "INPUT"] {
        outcomes(&own(chain), &to_itself, &["1: dropped"]);
    }
}

#[test]
fn recent_set_is_visible_to_the_following_rules() {
    let set = "-A FORWARD -m recent --set --name seen\n";
    let check = "-A FORWARD -m recent --rcheck --name seen -j DROP\n";
    let both = format!("*filter\n{set}{check}COMMIT\n");
    first(&both, None, &["1: dropped"]);
    let turned = format!("*filter\n{check}{set}COMMIT\n");
    let unless = "filter FORWARD: -m recent --rcheck --name seen -j DROP";
    first(&turned, None, &[&format!("{PASSED}, unless {unless}")]);
}

#[test]
fn outgoing_interfaces_are_matched() {
    let masquerade = |option: &str| {
        let rule = format!("-I POSTROUTING {option} -j MASQUERADE");
        rules(&format!("*nat\n{rule}\nCOMMIT\n"))
    };
    let changed = "1: passed, masqueraded";
    let unclear = "1: passed, source kept, unless nat POSTROUTING: -o eth0 -j MASQUERADE";
    let (own, other) = ("192.168.0.2", "203.0.113.9");
    for (destination, option, expected) in [
        (own, "-o lo", changed),
        (own, "! -o lo", PASSED),
        (own, "-o eth0", PASSED),
        (other, "-o lo", PASSED),
        (other, "! -o lo", changed),
        (other, "-o eth0", unclear),
    ] {
        let packet = packet(own, destination, 81);
        outcomes(&masquerade(option), &packet, &[expected]);
    }
    let input = "*filter\n:A - [0:0]\n-A A -o eth0 -j DROP\n-I FORWARD -i lo -j A\nCOMMIT\n";
    first(input, None, &[PASSED]);
}
