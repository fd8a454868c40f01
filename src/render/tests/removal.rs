//! Removal of the rules of every kube-proxy, next to third-party rules.

use crate::render::Removal;
use crate::rules::{RuleSet, Table};

const KUBE_PROXY: [&str; 3] = [
    include_str!("../../../tests/dumps/kube-proxy-1.20-v4.save"),
    include_str!("../../../tests/dumps/kube-proxy-1.23-v6.save"),
    include_str!("../../../tests/dumps/kube-proxy-1.29-v4.save"),
];

/// Removes the rules of a proxy; the kernel has to accept the payloads.
#[track_caller]
fn left(save: &str) -> (RuleSet, Vec<Removal>) {
    let mut rules = RuleSet::parse(save).unwrap();
    let removals = Removal::of(save);
    for removal in &removals {
        rules.apply(&removal.payload).unwrap();
    }
    (rules, removals)
}

#[test]
fn all_rules_of_every_kube_proxy_are_removed() {
    for save in KUBE_PROXY {
        let (rules, removals) = left(save);
        assert!(removals.iter().any(|removal| removal.chains > 4));
        assert_eq!(removals.iter().flat_map(|one| &one.kept).count(), 0);
        for table in Table::ALL {
            for (name, chain) in rules.chains(table) {
                assert!(
                    !name.starts_with("KUBE-S") && !name.starts_with("KUBE-NODE"),
                    "{table} {name}"
                );
                for rule in &chain.rules {
                    let target = rule.target_chain().unwrap_or_default();
                    assert!(!target.starts_with("KUBE-S"), "{name} {rule}");
                }
            }
        }
        // Nothing is left to do.
        assert_eq!(Removal::of(&rules.to_save_text()), []);
    }
}

const OURS_AND_OTHERS: &str = "\
*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-PROXY-CANARY - [0:0]
COMMIT
*raw
:KUBE-SERVICES - [0:0]
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD
-A FORWARD -s 192.0.2.1/32 -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD
-A FORWARD -i eth7 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:CNI-1 - [0:0]
:KUBE-MARK-DROP - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-XLB-AAAAAAAAAAAAAAAA - [0:0]
-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-A PREROUTING -p tcp -m comment --comment \"mine, now -j KUBE-SERVICES\" -j CNI-1
-A CNI-1 -m comment --comment \"open -j KUBE-XLB-AAAAAAAAAAAAAAAA
-A CNI-1 -j KUBE-MARK-MASQ
-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-SERVICES -d 10.0.0.1/32 -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-XLB-AAAAAAAAAAAAAAAA
COMMIT
";

#[test]
fn third_party_rules_stay() {
    let (rules, removals) = left(OURS_AND_OTHERS);
    let numbers: Vec<_> = removals
        .iter()
        .map(|one| (one.table, one.jumps, one.chains))
        .collect();
    assert_eq!(
        numbers,
        [
            (Table::Filter, 2, 1),
            (Table::Nat, 2, 2),
            (Table::Mangle, 0, 1)
        ]
    );
    assert_eq!(
        removals[1].kept,
        ["KUBE-MARK-MASQ", "KUBE-XLB-AAAAAAAAAAAAAAAA"]
    );
    let names = |table| {
        rules
            .chains(table)
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(Table::Filter),
        ["FORWARD", "INPUT", "KUBE-FIREWALL", "OUTPUT"]
    );
    let nat = names(Table::Nat);
    assert!(nat.contains(&"KUBE-MARK-DROP") && !nat.contains(&"KUBE-SERVICES"));
    assert_eq!(rules.rule_count(Table::Filter), 2);
    // The CNI's three, and kubelet's one.
    assert_eq!(rules.rule_count(Table::Nat), 4);
}

#[test]
fn without_a_proxy_nothing_is_removed() {
    assert_eq!(Removal::of(""), []);
    assert_eq!(Removal::of("*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n"), []);
}
