//! Reviews of small rulesets, written as the kernel prints them. Each case changes a few words of
//! the same rules, and the whole review is compared as text.

mod cosmetic;
mod effects;
mod machine;
mod masquerade;
mod policy;
mod releases;
mod set_up;

use super::{Sheet, compare, text, unified};
use crate::net::IpFamily;
use crate::rules::RuleSet;

/// A cluster IP with two endpoints, a NodePort of the same, and one Service without endpoints.
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

/// The saved rules with words replaced, each of which has to be there.
#[track_caller]
fn with(edits: &[(&str, &str)]) -> RuleSet {
    let mut saved = SAVED.to_owned();
    for (old, new) in edits {
        assert!(saved.contains(old), "{old}");
        saved = saved.replace(old, new);
    }
    RuleSet::parse(&saved).unwrap()
}

/// Everything that is said of two rulesets, without colors.
fn told(left: &RuleSet, right: &RuleSet) -> String {
    let mut said = String::new();
    text(&mut said, &[compare(IpFamily::V4, left, right)]).unwrap();
    anstream::adapter::strip_str(&said).to_string()
}

/// What is said when words of the desired rules are other ones.
#[track_caller]
fn check(edits: &[(&str, &str)], expected: &str) {
    assert_eq!(told(&with(&[]), &with(edits)), expected);
}

fn unified_text(left: &RuleSet, right: &RuleSet) -> String {
    let sheets = (Sheet::of(left, right, right), Sheet::of(right, left, right));
    let mut said = String::new();
    unified(&mut said, ("live", "desired"), &sheets.0, &sheets.1).unwrap();
    anstream::adapter::strip_str(&said).to_string()
}

#[test]
fn the_same_rules_have_no_difference() {
    check(&[], "no differences\n");
    assert_eq!(unified_text(&with(&[]), &with(&[])), "");
}

#[test]
fn a_unified_diff_has_three_lines_of_context() {
    let right = with(&[
        ("10.4.0.2", "10.4.0.7"),
        ("-A KUBE-EXT-WEB -j KUBE-SVC-WEB\n", ""),
    ]);
    let expected = "\
--- live
+++ desired
@@ -6,7 +6,6 @@ nat KUBE-EXT-WEB
 -A KUBE-SERVICES -d 10.96.0.9/32 -p tcp -m comment --comment \"shop/empty has no endpoints\" -m tcp --dport 80 -j REJECT
 :KUBE-EXT-WEB [nat]
 -A KUBE-EXT-WEB -m comment --comment \"masquerade traffic for shop/web:http external destinations\" -j KUBE-MARK-MASQ
--A KUBE-EXT-WEB -j KUBE-SVC-WEB
 :KUBE-MARK-MASQ [nat]
 -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
 :KUBE-NODEPORTS [nat]
@@ -17,12 +16,12 @@ nat KUBE-SEP-TWO
 -A KUBE-SEP-ONE -s 10.4.0.1/32 -m comment --comment \"shop/web:http\" -j KUBE-MARK-MASQ
 -A KUBE-SEP-ONE -p tcp -m comment --comment \"shop/web:http\" -m tcp -j DNAT --to-destination 10.4.0.1:8080
 :KUBE-SEP-TWO [nat]
--A KUBE-SEP-TWO -s 10.4.0.2/32 -m comment --comment \"shop/web:http\" -j KUBE-MARK-MASQ
--A KUBE-SEP-TWO -p tcp -m comment --comment \"shop/web:http\" -m tcp -j DNAT --to-destination 10.4.0.2:8080
+-A KUBE-SEP-TWO -s 10.4.0.7/32 -m comment --comment \"shop/web:http\" -j KUBE-MARK-MASQ
+-A KUBE-SEP-TWO -p tcp -m comment --comment \"shop/web:http\" -m tcp -j DNAT --to-destination 10.4.0.7:8080
 :KUBE-SERVICES [nat]
 -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-WEB
 -A KUBE-SERVICES -m addrtype --dst-type LOCAL -m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in this chain\" -j KUBE-NODEPORTS
 :KUBE-SVC-WEB [nat]
 -A KUBE-SVC-WEB ! -s 10.4.0.0/14 -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-MARK-MASQ
 -A KUBE-SVC-WEB -m comment --comment \"shop/web:http -> 10.4.0.1:8080\" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-ONE
--A KUBE-SVC-WEB -m comment --comment \"shop/web:http -> 10.4.0.2:8080\" -j KUBE-SEP-TWO
+-A KUBE-SVC-WEB -m comment --comment \"shop/web:http -> 10.4.0.7:8080\" -j KUBE-SEP-TWO
";
    assert_eq!(unified_text(&with(&[]), &right), expected);
    let nothing = RuleSet::default();
    let all = unified_text(&nothing, &right);
    assert!(
        all.starts_with("--- live\n+++ desired\n@@ -0,0 +1,"),
        "{all}"
    );
    let none = unified_text(&right, &nothing);
    assert!(none.contains(" +0,0 @@ "), "{none}");
}
