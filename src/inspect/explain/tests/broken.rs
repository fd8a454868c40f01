//! Rules with gaps: dead ends, missing jumps and masquerading that has no effect.

use super::{SAVED, assert_contains, explained, rendered};

fn without(line: &str) -> String {
    let part = format!("{line}\n");
    assert!(SAVED.contains(&part), "{line}");
    SAVED.replace(&part, "")
}

#[test]
fn a_chain_without_its_last_rule_is_named() {
    let text = explained(&without("-A KUBE-EXT-WEB -j KUBE-SVC-WEB"), ":30080");
    let end = "jumps to `KUBE-EXT-WEB`, where no rule applies: delivered to this node";
    assert_contains(&text, &[end]);
    // Its mark is set all the same, and the packet is masqueraded on the way out.
    let saved = without("-A KUBE-EXT-WEB -j KUBE-SVC-WEB").replace(
        "-A KUBE-SERVICES -d 192.168.0.9/32",
        "-A KUBE-SERVICES -d 192.0.2.9/32 -p tcp -m comment --comment \"shop/web:http external IP\" -m tcp --dport 80 -j KUBE-EXT-WEB\n-A KUBE-SERVICES -d 192.168.0.9/32",
    );
    let text = explained(&saved, "192.0.2.9:80");
    let end = "jumps to `KUBE-EXT-WEB`, where no rule applies: routed normally; the receiver sees \
               the node's address";
    assert_contains(&text, &[end]);
}

#[test]
fn an_allowed_source_without_endpoints_is_in_the_source_ranges() {
    let [chains, rules] = [
        ":KUBE-FW-WEB - [0:0]\n",
        "-A KUBE-SERVICES -d 192.0.2.9/32 -p tcp -m comment --comment \"shop/web:http loadbalancer \
         IP\" -m tcp --dport 80 -j KUBE-FW-WEB\n-A KUBE-FW-WEB -s 198.51.100.0/24 -j KUBE-EXT-WEB\n",
    ];
    let saved = without("-A KUBE-EXT-WEB -j KUBE-SVC-WEB");
    let saved = saved.replace(":KUBE-MARK-MASQ", &format!("{chains}:KUBE-MARK-MASQ"));
    let first = "-A KUBE-SERVICES -d 192.168.0.9/32";
    let saved = saved.replace(first, &format!("{rules}{first}"));
    let filter = |external: &str| {
        format!(
            "*filter\n:FORWARD ACCEPT [0:0]\n:KUBE-EXTERNAL-SERVICES - [0:0]\n\
             :KUBE-PROXY-FIREWALL - [0:0]\n-A FORWARD -j KUBE-PROXY-FIREWALL\n\
             -A FORWARD -j KUBE-EXTERNAL-SERVICES\n{external}-A KUBE-PROXY-FIREWALL -d 192.0.2.9/32 \
             -p tcp -m comment --comment \"shop/web:http traffic not accepted by KUBE-FW-WEB\" -m tcp \
             --dport 80 -j DROP\nCOMMIT\n{saved}"
        )
    };
    let text = explained(&filter(""), "192.0.2.9:80");
    let admitted = "an allowed source (such as 198.51.100.1): dropped: ";
    let end = format!("{admitted}jumps to `KUBE-EXT-WEB`, where no rule applies");
    assert_contains(&text, &[&end, "not in loadBalancerSourceRanges (198.51"]);
    let tree = rendered(&filter(""), "192.0.2.9:80", super::super::tree);
    assert_contains(&tree, &["dropped  jumps to `KUBE-EXT-WEB`, where no rule"]);
    // A proxy writes these rules, if no endpoint is on the node under policy Local.
    let external = "-A KUBE-EXTERNAL-SERVICES -d 192.0.2.9/32 -p tcp -m comment --comment \
                    \"shop/web:http has no local endpoints\" -m tcp --dport 80 -j DROP\n";
    let text = explained(&filter(external), "192.0.2.9:80");
    let end = format!("{admitted}externalTrafficPolicy is Local and no endpoint is on this node");
    assert_contains(&text, &[&end]);
}

#[test]
fn a_missing_jump_is_named() {
    let text = explained(&without("-A PREROUTING -j KUBE-SERVICES"), "10.96.0.10:80");
    let summary = "no jump from `PREROUTING` to `KUBE-SERVICES` (nat): routed normally";
    assert_contains(&text, &[summary, "the node (assumed"]);
    assert!(!text.contains("no jump from `OUTPUT`"), "{text}");
    assert!(!text.contains("not a Service address"), "{text}");
    let text = explained(&without("-A OUTPUT -j KUBE-SERVICES"), "10.96.0.10:80");
    assert_contains(
        &text,
        &["no jump from `OUTPUT` to `KUBE-SERVICES` (nat): routed normally"],
    );
    assert!(!text.contains("no jump from `PREROUTING`"), "{text}");
    let jump = "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS";
    let text = explained(&without(jump), ":30080");
    assert_contains(
        &text,
        &["no jump from `KUBE-SERVICES` to `KUBE-NODEPORTS` (nat): delivered"],
    );
}

#[test]
fn masquerading_without_effect_is_told_where_a_packet_needs_it() {
    for (line, gap) in [
        (
            "-A KUBE-POSTROUTING -j MASQUERADE",
            "no rule in `KUBE-POSTROUTING` masquerades",
        ),
        (
            "-A POSTROUTING -j KUBE-POSTROUTING",
            "no jump from `POSTROUTING`",
        ),
        (
            "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
            "no rule in `KUBE-MARK-MASQ` sets the mark",
        ),
    ] {
        let text = explained(&without(line), "10.96.0.10:80");
        let (pod, others) = text.split_once("the node (assumed").unwrap();
        assert!(!pod.contains("broken"), "{line}: {text}");
        assert_contains(others, &["broken: ", gap, "keep their source address"]);
    }
    assert!(!explained(SAVED, "10.96.0.10:80").contains("broken"));
}

#[test]
fn a_jump_to_a_missing_chain_is_named() {
    let saved = without("-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000");
    let saved = saved.replace(":KUBE-MARK-MASQ - [0:0]\n", "");
    let text = explained(&saved, "10.96.0.10:80");
    let line = "broken: no chain `KUBE-MARK-MASQ` (nat)";
    assert_contains(
        &text,
        &[line, "unclear: chain `KUBE-MARK-MASQ` does not exist"],
    );
}

#[test]
fn the_owner_of_a_frontend_and_the_shadowed_one_are_named() {
    let saved = SAVED.replace(
        "-A KUBE-SERVICES -m addrtype",
        "-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/copy external IP\" -m tcp --dport 80 -j KUBE-SVC-API\n-A KUBE-SERVICES -m addrtype",
    );
    let text = explained(&saved, "10.96.0.10:80");
    let conflict = "conflict: `shop/copy` has rules for it as external IP that no packet reaches: \
                    Service `shop/web` comes first";
    assert_contains(&text, &[conflict, "3 endpoints answer"]);
    // Affinity of a Service that no packet reaches has no effect.
    let sticky =
        "-A KUBE-SVC-API -m recent --rcheck --seconds 10800 --name KUBE-SEP-API -j KUBE-SEP-API";
    let last = "-A KUBE-SVC-API -j KUBE-SEP-API";
    let saved = saved.replace(last, &format!("{sticky}\n{last}"));
    let text = explained(&saved, "10.96.0.10:80");
    assert!(!text.contains("sessionAffinity"), "{text}");
    assert_contains(&explained(&saved, "10.96.0.1:443"), &["sessionAffinity"]);
}

/// The rule may be the jump, or the last one of a chain.
#[test]
fn nothing_is_missed_where_a_rule_cannot_be_read() {
    for (readable, cut) in [
        ("-A PREROUTING -j KUBE-SERVICES", "-A PREROUTING"),
        ("-A KUBE-SVC-API -j KUBE-SEP-API", "-A KUBE-SVC-API"),
    ] {
        let cut = format!("{cut} -m comment --comment \"kub");
        let text = explained(&SAVED.replace(readable, &cut), "10.96.0.1:443");
        let unclear = "unclear: cannot evaluate these rules";
        assert_contains(&text, &["unclear: depends on a rule", unclear]);
        assert!(!text.contains("no jump"), "{text}");
    }
}

#[test]
fn a_missing_jump_is_named_in_every_format() {
    let saved = without("-A PREROUTING -j KUBE-SERVICES");
    let cause = "no jump from `PREROUTING` to `KUBE-SERVICES` (nat)";
    let json = rendered(&saved, "10.96.0.10:80", |all| {
        super::super::json(all).to_string()
    });
    assert_contains(&json, &[&format!("\"reason\":\"{cause}\"")]);
    assert_contains(
        &rendered(&saved, "10.96.0.10:80", super::super::tree),
        &[cause],
    );
    let saved = without("-A KUBE-POSTROUTING -j MASQUERADE");
    let tree = rendered(&saved, "10.96.0.10:80", super::super::tree);
    assert_contains(
        &tree,
        &["broken: no rule in `KUBE-POSTROUTING` masquerades (nat)"],
    );
}
