//! Compares small rulesets in the format of `iptables-save`. Each case replaces some text of the
//! same rules, and checks the whole output.

mod cosmetic;
mod effects;
mod fixed;
mod masquerade;
mod policy;
mod releases;

use super::{ManifestFacts, Review, RulesetText, compare, summary, text, unified};
use crate::net::IpFamily;
use crate::rules::RuleSet;

/// A Service with a cluster IP, a NodePort and two endpoints, and one without endpoints.
const SAVED: &str = "\
*filter
:INPUT ACCEPT [7:700]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-SERVICES - [0:0]
-A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-SERVICES -d 10.96.0.9/32 -p tcp -m comment --comment \"shop/empty has no endpoints\" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
COMMIT
*nat
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-EXT-WEB - [0:0]
:KUBE-SVC-WEB - [0:0]
:KUBE-SEP-ONE - [0:0]
:KUBE-SEP-TWO - [0:0]
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-NODEPORTS -p tcp -m comment --comment \"shop/web:http\" -m tcp --dport 30080 -j KUBE-EXT-WEB
-A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE --random-fully
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-WEB
-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in this chain\" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-EXT-WEB -m comment --comment \"masquerade traffic for shop/web:http external destinations\" -j KUBE-MARK-MASQ
-A KUBE-EXT-WEB -j KUBE-SVC-WEB
-A KUBE-SVC-WEB ! -s 10.4.0.0/14 -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SVC-WEB -m comment --comment \"shop/web:http -> 10.4.0.1:8080\" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-ONE
-A KUBE-SVC-WEB -m comment --comment \"shop/web:http -> 10.4.0.2:8080\" -j KUBE-SEP-TWO
-A KUBE-SEP-ONE -s 10.4.0.1/32 -m comment --comment \"shop/web:http\" -j KUBE-MARK-MASQ
-A KUBE-SEP-ONE -p tcp -m comment --comment \"shop/web:http\" -m tcp -j DNAT --to-destination 10.4.0.1:8080
-A KUBE-SEP-TWO -s 10.4.0.2/32 -m comment --comment \"shop/web:http\" -j KUBE-MARK-MASQ
-A KUBE-SEP-TWO -p tcp -m comment --comment \"shop/web:http\" -m tcp -j DNAT --to-destination 10.4.0.2:8080
COMMIT
";

/// Returns the saved rules with texts replaced, each of which has to occur.
#[track_caller]
fn with(edits: &[(&str, &str)]) -> RuleSet {
    let mut saved = SAVED.to_owned();
    for (old, new) in edits {
        assert!(saved.contains(old), "{old}");
        saved = saved.replace(old, new);
    }
    RuleSet::parse(&saved).unwrap()
}

/// Returns the text output for two rulesets and the summary, without colors.
fn output(live: &RuleSet, desired: &RuleSet) -> String {
    shown(&[compare(IpFamily::V4, live, desired)])
}

fn shown(reviews: &[Review<'_>]) -> String {
    let mut output = String::new();
    let facts = ManifestFacts::default();
    text(&mut output, reviews, &facts).unwrap();
    output.push_str(&summary(reviews, &facts));
    anstream::adapter::strip_str(&output).to_string()
}

/// Checks the text output after edits of the desired rules.
#[track_caller]
fn check(edits: &[(&str, &str)], expected: &str) {
    assert_eq!(output(&with(&[]), &with(edits)), expected);
}

fn unified_output(live: &RuleSet, desired: &RuleSet) -> String {
    let old = RulesetText::of(live, desired, desired);
    let new = RulesetText::of(desired, live, desired);
    let mut output = String::new();
    unified(&mut output, ("live", "desired"), &old, &new).unwrap();
    anstream::adapter::strip_str(&output).to_string()
}

/// `tests/golden/diff` has one between two sides with rules.
#[test]
fn a_unified_diff_has_a_range_of_nothing_for_a_side_without_rules() {
    let (empty, rules) = (RuleSet::default(), with(&[]));
    let all = unified_output(&empty, &rules);
    assert!(
        all.starts_with("--- live\n+++ desired\n@@ -0,0 +1,"),
        "{all}"
    );
    let none = unified_output(&rules, &empty);
    assert!(none.contains(" +0,0 @@ "), "{none}");
}
