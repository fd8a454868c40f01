//! Rules with so many paths that a trace gives up.

use super::trace::{assert_shares_are_all, packet, rules, traced_node};
use crate::rules::trace::trace_counted;
use crate::rules::{TraceOutcome, Verdict};

/// Traces a packet through a hundred rules in front of all chains, and returns how much was
/// evaluated, and whether the outcomes are clear.
#[track_caller]
fn evaluated(rule: &dyn Fn(usize) -> String) -> (usize, bool) {
    let own = (0..100).map(|number| format!("-A MANY {}\n", rule(number)));
    let own = own.collect::<Vec<_>>().concat();
    let table = |name, hooks: &[&str]| {
        let jumps = hooks.iter().map(|hook| format!("-I {hook} -j MANY\n"));
        let jumps: String = jumps.collect();
        format!("*{name}\n:MANY - [0:0]\n{own}{jumps}COMMIT\n")
    };
    let mangle = table("mangle", &["PREROUTING", "FORWARD", "POSTROUTING"]);
    let nat = table("nat", &["PREROUTING", "POSTROUTING"]);
    let rules = rules(&format!("{mangle}{nat}{}", table("filter", &["FORWARD"])));
    let packet = packet("198.51.100.1", "172.30.0.41", 80);
    let (found, evaluated) = trace_counted(&rules, &packet, &traced_node());
    assert_shares_are_all(&found);
    let unclear = |one: &TraceOutcome<'_>| {
        !one.undecided.is_empty() || matches!(one.verdict, Verdict::Unclear(_))
    };
    (evaluated, !found.iter().any(unclear))
}

/// Thousands of evaluated rules take milliseconds, even in a debug build.
#[test]
fn hostile_rules_are_given_up_early() {
    let chance = "-m statistic --mode random --probability 0.5";
    let bit = |number: usize, bits: usize| 1_u32 << (number % bits);
    for bits in [1, 3, 4, 5, 8, 30] {
        let mark = |n| format!("-m limit --limit 1/s -j MARK --or-mark {}", bit(n, bits));
        let (count, is_clear) = evaluated(&mark);
        assert!(count < MOST_EVALUATED, "{bits} bits: {count}");
        // No rule reads these marks.
        assert_eq!(is_clear, bits <= 4, "{bits} bits");
        let both = |n| match n % 2 {
            0 => mark(n / 2),
            _ => format!("{chance} -j MARK --or-mark {}", 1 << (30 - n % 4)),
        };
        let (count, _) = evaluated(&both);
        assert!(count < MOST_EVALUATED, "{bits} bits, random: {count}");
    }
    let recent = |n| format!("-m limit --limit 1/s -m recent --set --name L{n}");
    let (count, is_clear) = evaluated(&recent);
    assert!(count < MOST_EVALUATED && !is_clear, "recent --set: {count}");
    let update = |n| match n % 2 {
        0 => recent(n),
        _ => format!(
            "-m recent --update --name L{} -j MARK --or-mark {}",
            n - 1,
            bit(n, 8)
        ),
    };
    let (count, is_clear) = evaluated(&update);
    assert!(count < MOST_EVALUATED, "recent --update: {count}");
    assert!(!is_clear, "recent --update");
}

/// Under two undecided rules each, chains jump to the next, so that the paths double with each.
#[test]
fn undecided_jumps_behind_each_other_are_cut_off() {
    let chains: Vec<_> = (0..=60).map(|n| format!(":C{n} - [0:0]\n")).collect();
    let chains = chains.concat();
    let jump = |n, set| format!("-A C{n} -m set --match-set {set}{n} src -j C{}\n", n + 1);
    let jumps = (0..60).flat_map(|n| ["a", "b"].map(|set| jump(n, set)));
    let jumps: String = jumps.collect();
    let text = format!("*filter\n{chains}-I FORWARD -j C0\n{jumps}-A C60 -j DROP\nCOMMIT\n");
    let (rules, packet) = (rules(&text), packet("10.0.0.9", "172.30.0.1", 80));
    let (found, evaluated) = trace_counted(&rules, &packet, &traced_node());
    assert!(evaluated < 3 * MOST_EVALUATED, "{evaluated}");
    let delivered = |one: &TraceOutcome<'_>| matches!(one.verdict, Verdict::Delivered { .. });
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(delivered), "{found:?}");
    let is_cut_off = |one: &TraceOutcome<'_>| one.is_cut_off && !one.undecided.is_empty();
    assert!(found.iter().all(is_cut_off));
}

const MOST_EVALUATED: usize = 100_000;
