//! Fixed chains, jumps, and other people's rules.

use super::{check, told, unified_text, with};
use crate::rules::RuleSet;

#[test]
fn what_is_missing_of_the_set_up_is_shown() {
    let left = with(&[
        (
            "-A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\n",
            "",
        ),
        ("0x4000/0x4000", "0x80/0x80"),
        (":KUBE-POSTROUTING - [0:0]\n", ""),
        (
            "-A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE --random-fully\n",
            "",
        ),
    ]);
    assert_eq!(
        told(&left, &with(&[])),
        "\
proxy set-up differs (IPv4)
  filter FORWARD +1
    + -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD
  nat KUBE-MARK-MASQ -1 +1
    - -j MARK --set-xmark 0x80/0x80
    + -j MARK --set-xmark 0x4000/0x4000
  nat KUBE-POSTROUTING new +1

0 service ports change, 0 added, 0 removed; set-up differs in 3 chains; 3 chains
"
    );
}

#[test]
fn rules_of_others_are_counted_and_left_alone() {
    let left = with(&[
        (
            "*nat\n",
            "*nat\n:CALI - [0:0]\n-A CALI -j RETURN\n-A PREROUTING -j CALI\n",
        ),
        (
            "*filter\n",
            "*raw\n-A PREROUTING -j NOTRACK\nCOMMIT\n*filter\n-A INPUT -m weird --option 1 -j KUBE-SERVICES\n",
        ),
    ]);
    assert_eq!(
        told(&left, &with(&[])),
        "no differences; 4 foreign rules ignored\n"
    );
    assert_eq!(unified_text(&left, &with(&[])), "");
}

#[test]
fn what_somebody_put_into_a_shared_chain_is_a_difference() {
    let left = with(&[(
        "-A KUBE-SERVICES -d 10.96.0.10/32",
        "-A KUBE-SERVICES -j LOG\n-A KUBE-SERVICES -d 10.96.0.10/32",
    )]);
    let said = told(&left, &with(&[]));
    assert!(
        said.contains("  nat KUBE-SERVICES -1\n    - -j LOG\n"),
        "{said}"
    );
}

#[test]
fn the_way_to_node_ports_has_to_come_last() {
    let tail = "-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in this chain\" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n";
    let first = "-A KUBE-SERVICES -d 10.96.0.10/32";
    let left = with(&[(tail, ""), (first, &format!("{tail}{first}"))]);
    let said = told(&left, &with(&[]));
    let rule = tail.trim_start_matches("-A KUBE-SERVICES ").trim_end();
    // The kernel prints matches in another order than ours.
    let rule: String = rule.parse::<crate::rules::Rule>().unwrap().to_string();
    let expected = format!("  nat KUBE-SERVICES -1 +1\n    - {rule}\n    + {rule}\n");
    assert!(said.contains(&expected), "{said}");
    assert_ne!(unified_text(&left, &with(&[])), "");
}

#[test]
fn kubelets_rules_are_not_ours() {
    let drop = "! -s 127.0.0.0/8 -d 127.0.0.0/8 -j DROP\n";
    let chain = |rules: &str| {
        let rules = format!(":KUBE-FIREWALL - [0:0]\n{rules}:KUBE-FORWARD - [0:0]");
        with(&[(":KUBE-FORWARD - [0:0]", &rules)])
    };
    let ours = format!("-A KUBE-FIREWALL {drop}");
    let both = format!("-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP\n{ours}");
    let same = "no differences; 1 foreign rule ignored\n";
    assert_eq!(told(&chain(&both), &chain(&ours)), same);
    let said = told(&chain(""), &chain(&ours));
    assert!(said.contains("  filter KUBE-FIREWALL +1\n"), "{said}");
    let said = told(&with(&[]), &chain(&ours));
    assert!(said.contains("  filter KUBE-FIREWALL new +1\n"), "{said}");
}

#[test]
fn an_empty_kernel_lacks_everything() {
    let said = told(&RuleSet::default(), &with(&[]));
    let summary =
        "0 service ports change, 2 added, 0 removed; set-up differs in 7 chains; 11 chains\n";
    assert!(said.ends_with(summary), "{said}");
    check(&[], "no differences\n");
}
