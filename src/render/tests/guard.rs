//! Damage of guarded chains that a check finds, and changes that it ignores.

use std::collections::BTreeSet;

use super::live::{KnownServices, payload};
use crate::net::IpFamily;
use crate::render::{
    Counter, GuardedChainState, LiveChains, Options, guarded_chains, has_desired_rules,
    repair_payload,
};
use crate::rules::{RuleSet, Table};

/// Returns options for every variant of the fixed chains.
fn variants() -> Vec<Options> {
    let mut variants = Vec::new();
    for family in IpFamily::ALL {
        let plain = Options::defaults(family);
        let (mut counted, mut liberal, mut excluded, mut masked) =
            (plain.clone(), plain.clone(), plain.clone(), plain.clone());
        counted.counters = Counter::ALL.into();
        liberal.drops_invalid_packets = false;
        excluded.has_localhost_node_ports = false;
        masked.masquerade.bit = 31;
        variants.extend([plain, counted, liberal, excluded, masked]);
    }
    variants
}

/// Returns the rules that a full restore leaves in an empty kernel.
fn kernel(options: &Options) -> RuleSet {
    let services = KnownServices::new();
    let mut kernel = RuleSet::default();
    kernel
        .apply(&payload(&services, options, &LiveChains::default()))
        .unwrap();
    kernel
}

/// Lists the guarded chains as the iptables binaries do.
fn listing(kernel: &RuleSet, table: Table, options: &Options) -> Vec<String> {
    let mut lines = Vec::new();
    for name in guarded_chains(table, options) {
        let chain = kernel.chain(table, name).unwrap();
        lines.push(match chain.policy {
            Some(policy) => format!("-P {name} {policy}"),
            None => format!("-N {name}"),
        });
        lines.extend(chain.rules.iter().map(|rule| format!("-A {name} {rule}")));
    }
    lines
}

/// A third-party rule next to all of the proxy's is not the same as the loss of one.
#[test]
fn every_lost_rule_and_every_added_one_is_found() {
    let whole = GuardedChainState::default();
    for options in variants() {
        for table in Table::ALL {
            let lines = listing(&kernel(&options), table, &options);
            let state = |lines: &[String], cut: &[&str]| {
                let cut: Vec<String> = cut.iter().map(|chain| (*chain).to_owned()).collect();
                GuardedChainState::of(table, &lines.join("\n"), &cut, &options)
            };
            assert_eq!(state(&lines, &[]), whole);
            for (place, line) in lines.iter().enumerate() {
                let mut less = lines.clone();
                less.remove(place);
                let lost = state(&less, &[]);
                let Some((chain, _)) = line.strip_prefix("-A ").and_then(|l| l.split_once(' '))
                else {
                    // Of the declarations, only those of canaries matter.
                    assert_eq!(lost == whole, !line.ends_with("-CANARY"), "without {line}");
                    continue;
                };
                let missing = lost.missing_jumps.len() + lost.incomplete_chains.len();
                assert_eq!(missing, 1, "without {line}");
                // Unless a rule that cannot be printed may stand before it.
                let hidden = state(&less, &[chain]);
                assert!(hidden.missing_jumps.is_empty() && hidden.incomplete_chains.is_empty());
                let uncertain = hidden.edited_chains.len() + hidden.unlisted_jumps.len();
                assert_eq!(uncertain, 1, "{hidden:?}");
                let is_ours = chain.starts_with("KUBE-");
                let expected: Vec<&str> = is_ours.then_some(chain).into_iter().collect();
                for foreign in ["-s 10.9.9.9/32 -j ACCEPT", "-m what --not \"ever"] {
                    let mut more = lines.clone();
                    more.insert(place, format!("-A {chain} {foreign}"));
                    let mut found = state(&more, &[]);
                    let edited = std::mem::take(&mut found.edited_chains);
                    assert_eq!(edited, expected, "{foreign} before {line}");
                    assert_eq!(found, whole, "{foreign} before {line}");
                }
            }
        }
    }
}

#[test]
fn a_repair_writes_the_rules_of_a_full_restore() {
    for options in variants() {
        let whole = kernel(&options);
        for table in Table::ALL {
            for chain in guarded_chains(table, &options) {
                if !chain.starts_with("KUBE-") || chain == "KUBE-PROXY-CANARY" {
                    continue;
                }
                let mut damaged = whole.clone();
                let edit = format!("*{table}\n-F {chain}\n-A {chain} -j RETURN\nCOMMIT\n");
                damaged.apply(&edit).unwrap();
                let payload = repair_payload(&[(table, chain)].into(), &[], &options);
                damaged.apply(str::from_utf8(&payload).unwrap()).unwrap();
                assert_eq!(damaged, whole, "{chain}");
            }
        }
    }
    assert!(repair_payload(&BTreeSet::new(), &[], &Options::defaults(IpFamily::V4)).is_empty());
}

#[test]
fn rules_of_kubelet_in_its_firewall_chain_are_tolerated() {
    let mut variants = variants();
    variants.retain(crate::render::fixed_chains::fills_kube_firewall);
    for options in variants {
        let mut lines = listing(&kernel(&options), Table::Filter, &options);
        for (chain, is_tolerated) in [("KUBE-FIREWALL", true), ("KUBE-FORWARD", false)] {
            lines.push(format!("-A {chain} -m mark --mark 0x8000/0x8000 -j DROP"));
            let has_rules = has_desired_rules(Table::Filter, &lines.join("\n"), &options);
            assert_eq!(has_rules, is_tolerated, "{chain}");
        }
    }
}
