//! Endpoints whose replies are lost, and packets that are exempted from connection tracking.

use super::{SAVED, assert_contains, explained, rendered};
use crate::inspect::explain::{json, tree};

/// Lets new connections pass, and no packet back.
const ONE_WAY: &str = "*filter\n:FORWARD DROP [0:0]\n\
                       -A FORWARD -m conntrack --ctstate NEW -j ACCEPT\nCOMMIT\n";

#[test]
fn lost_replies_are_reported_in_every_format() {
    let saved = format!("{ONE_WAY}{SAVED}");
    let cause = "no rule accepts it, and the policy of filter FORWARD is DROP";
    let text = explained(&saved, "10.96.0.10:80");
    let expected = format!(
        "3 endpoints receive it and see the client's own address, but their replies are dropped: \
         {cause}"
    );
    assert_contains(&text, &[&expected]);
    // Replies to the node itself enter INPUT.
    let of_node = text.split("the node (assumed").nth(1).unwrap();
    assert_contains(of_node, &["3 endpoints answer, 1/3 each"]);
    let document = rendered(&saved, "10.96.0.10:80", |all| json(all).to_string());
    assert_contains(
        &document,
        &[
            "\"result\":\"unanswered\"",
            "\"to\":\"10.4.0.1:8080\"",
            &format!("\"reason\":\"its reply is dropped: {cause}\""),
            "\"result\":\"served\"",
        ],
    );
    let drawn = rendered(&saved, "10.96.0.10:80", tree);
    assert_contains(&drawn, &["unanswered", "its reply is dropped", cause]);
}

#[test]
fn the_rule_that_loses_a_reply_is_named() {
    let rule = "-s 10.4.0.2/32 -m conntrack --ctdir REPLY -j REJECT";
    let saved = format!("*filter\n-A FORWARD {rule}\nCOMMIT\n{SAVED}");
    let text = explained(&saved, "10.96.0.10:80");
    let expected = format!(
        "2 endpoints answer, 1/3 each, and see the client's own address; 1/3: 10.4.0.2:8080 \
         receives it and sees the client's own address, but its reply is rejected: by a \
         third-party rule in filter FORWARD: {rule}"
    );
    assert_contains(&text, &[&expected, "KUBE-SEP-WEB2  reply rejected"]);
    let document = rendered(&saved, "10.96.0.10:80", |all| json(all).to_string());
    let rules = format!(
        "\"replyRules\":[{{\"chain\":\"FORWARD\",\"comment\":null,\"rule\":\"{rule}\",\"table\":\"filter\"}}]"
    );
    assert_contains(&document, &[&rules]);
    let limited = rule.replace("-j REJECT", "-m limit --limit 1/s -j ACCEPT");
    let saved = format!("{ONE_WAY}{SAVED}").replace(
        "COMMIT\n*nat",
        &format!("-A FORWARD {limited}\nCOMMIT\n*nat"),
    );
    let text = explained(&saved, "10.96.0.10:80");
    assert_contains(
        &text,
        &["unclear: depends on a rule that cannot be evaluated"],
    );
}

#[test]
fn an_exemption_from_tracking_is_named() {
    let raw = |rule: &str| format!("*raw\n-A PREROUTING {rule} -j CT --notrack\nCOMMIT\n{SAVED}");
    let request = raw("-d 10.96.0.10/32");
    let cause = "not translated, because a third-party rule in raw PREROUTING exempts it from \
                 connection tracking: -d 10.96.0.10/32 -j CT --notrack";
    assert_contains(
        &explained(&request, "10.96.0.10:80"),
        &[&format!("{cause}: routed normally"), "3 endpoints answer"],
    );
    assert_contains(&rendered(&request, "10.96.0.10:80", tree), &[cause]);
    let reply = explained(&raw("-s 10.4.0.0/16"), "10.96.0.10:80");
    let cause = "but their replies are not translated back: exempted from connection tracking by a \
                 third-party rule in raw PREROUTING: -s 10.4.0.0/16 -j CT --notrack";
    assert_contains(&reply, &[cause]);
}

/// Undecided rules behind each other that double the paths, before rules that decide.
#[test]
fn a_search_that_is_cut_off_is_reported() {
    let chains: Vec<_> = (0..=40).map(|n| format!(":C{n} - [0:0]\n")).collect();
    let chains = chains.concat();
    let jump = |n, set| format!("-A C{n} -m set --match-set {set}{n} src -j C{}\n", n + 1);
    let jumps = (0..40).flat_map(|n| ["a", "b"].map(|set| jump(n, set)));
    let jumps: String = jumps.collect();
    let drop = "-A C40 -j DROP\nCOMMIT\n";
    let saved = format!("*filter\n{chains}-A FORWARD -j C0\n{jumps}{drop}{SAVED}");
    let note = "unclear: the rules have too many paths: not every combination of undecided rules \
                was tried";
    assert_contains(&explained(&saved, "10.96.0.10:80"), &[note]);
    let document = rendered(&saved, "10.96.0.10:80", |all| json(all).to_string());
    assert_contains(&document, &["\"cutOff\":true"]);
    assert!(!explained(SAVED, "10.96.0.10:80").contains("too many paths"));
}
