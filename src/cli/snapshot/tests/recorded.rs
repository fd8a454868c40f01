//! Tests of `recorded`.

use super::*;

#[test]
fn rules_that_cannot_be_read_are_counted() {
    let text = "*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -d x.x.x.x/32 -j X\nCOMMIT\n";
    let warning = warning(&RuleSet::parse(text).unwrap()).unwrap();
    assert!(warning.contains("rules that cannot be parsed: 1, the first in"));
    assert!(warning.contains("unreferenced chains are not determined"));
}

#[test]
fn readable_rules_need_no_warning() {
    let text = "*nat\n-A OUTPUT -m comment --comment \"don\u{2019}t\" -j ACCEPT\nCOMMIT\n";
    assert_eq!(warning(&RuleSet::parse(text).unwrap()), None);
}
