//! Fixed chains, jumps, and third-party rules.

use super::{output, unified_output, with};

#[test]
fn differences_of_fixed_chains_and_missing_jumps_are_shown() {
    let live = with(&[
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
        output(&live, &with(&[])),
        "\
fixed chains and jumps (IPv4)
  filter FORWARD +1
    + -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD
  nat KUBE-MARK-MASQ -1 +1
    - -j MARK --set-xmark 0x80/0x80
    + -j MARK --set-xmark 0x4000/0x4000
  nat KUBE-POSTROUTING new +1

no service port differs; 3 fixed chains differ; 3 chains
"
    );
}

#[test]
fn a_third_party_rule_in_a_dispatch_chain_is_a_difference() {
    let live = with(&[(
        "-A KUBE-SERVICES -d 10.96.0.10/32",
        "-A KUBE-SERVICES -j LOG\n-A KUBE-SERVICES -d 10.96.0.10/32",
    )]);
    let text = output(&live, &with(&[]));
    assert!(
        text.contains("  nat KUBE-SERVICES -1\n    - -j LOG\n"),
        "{text}"
    );
}

#[test]
fn the_jump_to_node_ports_has_to_be_last() {
    let jump = "-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in this chain\" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n";
    let first = "-A KUBE-SERVICES -d 10.96.0.10/32";
    let live = with(&[(jump, ""), (first, &format!("{jump}{first}"))]);
    let text = output(&live, &with(&[]));
    let rule = jump.trim_start_matches("-A KUBE-SERVICES ").trim_end();
    // Matches are printed in a canonical order.
    let rule: String = rule.parse::<crate::rules::Rule>().unwrap().to_string();
    let expected = format!("  nat KUBE-SERVICES -1 +1\n    - {rule}\n    + {rule}\n");
    assert!(text.contains(&expected), "{text}");
    assert_ne!(unified_output(&live, &with(&[])), "");
}

#[test]
fn rules_of_kubelet_are_third_party_rules() {
    let drop = "! -s 127.0.0.0/8 -d 127.0.0.0/8 -j DROP\n";
    let chain = |rules: &str| {
        let rules = format!(":KUBE-FIREWALL - [0:0]\n{rules}:KUBE-FORWARD - [0:0]");
        with(&[(":KUBE-FORWARD - [0:0]", &rules)])
    };
    let own = format!("-A KUBE-FIREWALL {drop}");
    let both = format!("-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP\n{own}");
    let same = "no differences; 1 third-party rule ignored\n";
    assert_eq!(output(&chain(&both), &chain(&own)), same);
    let text = output(&chain(""), &chain(&own));
    assert!(text.contains("  filter KUBE-FIREWALL +1\n"), "{text}");
    let text = output(&with(&[]), &chain(&own));
    assert!(text.contains("  filter KUBE-FIREWALL new +1\n"), "{text}");
}
