//! What the look at the kernel notices, and that it notices nothing else.

use std::collections::BTreeMap;

use super::live::{Nobody, payload};
use crate::net::IpFamily;
use crate::render::{
    Counters, InvalidPackets, Live, LocalhostNodePorts, Options, guarded_chains, is_intact,
};
use crate::rules::{RuleSet, Table};

/// Every kind of fixed chains there is.
fn variants() -> Vec<Options> {
    let mut variants = Vec::new();
    for family in IpFamily::ALL {
        let plain = Options::defaults(family);
        let (mut counted, mut liberal, mut refused, mut masked) =
            (plain.clone(), plain.clone(), plain.clone(), plain.clone());
        counted.counters = Counters::ALL;
        liberal.invalid_packets = InvalidPackets::Forwarded;
        refused.localhost_node_ports = LocalhostNodePorts::Refused;
        masked.masquerade.bit = 31;
        masked.masquerade.is_random_fully = false;
        variants.extend([plain, counted, liberal, refused, masked]);
    }
    variants
}

/// What a full restore leaves in an empty kernel.
fn kernel(options: &Options) -> RuleSet {
    let nobody = Nobody(BTreeMap::new());
    let mut kernel = RuleSet::default();
    kernel
        .apply(&payload(&nobody, options, &Live::default()))
        .unwrap();
    kernel
}

/// As the programs list the chains that are looked at.
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

#[test]
fn what_was_written_is_intact_and_nothing_less_or_more_is() {
    for options in variants() {
        for table in Table::ALL {
            let lines = listing(&kernel(&options), table, &options);
            let is_intact = |lines: &[String]| is_intact(table, &lines.join("\n"), &options);
            assert!(is_intact(&lines), "{options:?}: {lines:#?}");
            for (place, line) in lines.iter().enumerate() {
                let mut damaged = lines.clone();
                damaged.remove(place);
                let matters = line.starts_with("-A ") || line.ends_with("-CANARY");
                assert_eq!(is_intact(&damaged), !matters, "without {line}");
                let Some((chain, _)) = line.strip_prefix("-A ").and_then(|l| l.split_once(' '))
                else {
                    continue;
                };
                let is_ours = chain.starts_with("KUBE-");
                for foreign in ["-s 10.9.9.9/32 -j ACCEPT", "-m what --not \"ever"] {
                    let mut damaged = lines.clone();
                    damaged.insert(place, format!("-A {chain} {foreign}"));
                    assert_eq!(is_intact(&damaged), !is_ours, "{foreign} before {line}");
                }
            }
        }
    }
}

#[test]
fn kubelet_may_add_to_the_chain_that_it_shares() {
    for options in variants()
        .into_iter()
        .filter(crate::render::base::fills_firewall)
    {
        let mut lines = listing(&kernel(&options), Table::Filter, &options);
        lines.push("-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP".to_owned());
        assert!(is_intact(Table::Filter, &lines.join("\n"), &options));
        lines.push("-A KUBE-FORWARD -m mark --mark 0x8000/0x8000 -j DROP".to_owned());
        assert!(!is_intact(Table::Filter, &lines.join("\n"), &options));
    }
}
