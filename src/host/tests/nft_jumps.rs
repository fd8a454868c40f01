//! The bytes of rules, and jumps found in them.

use super::super::netlink::{attribute, message, nested, text};
use super::*;

/// A rule whose expressions are a counter and one of that name, which leads to `chain`.
fn rule(expression: &str, chain: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    message(&mut bytes, 6, 0, 2, |bytes| {
        text(bytes, NFTA_RULE_TABLE, "filter");
        nested(bytes, NFTA_RULE_EXPRESSIONS, |bytes| {
            element(bytes, "counter", |bytes| attribute(bytes, 1, &[0; 8]));
            element(bytes, expression, |bytes| {
                attribute(bytes, 1, &[0, 0, 0, 0]);
                nested(bytes, NFTA_IMMEDIATE_DATA, |bytes| verdict(bytes, chain));
            });
        });
    });
    bytes
}

fn element(bytes: &mut Vec<u8>, name: &str, data: impl FnOnce(&mut Vec<u8>)) {
    nested(bytes, NFTA_LIST_ELEM, |bytes| {
        text(bytes, NFTA_EXPR_NAME, name);
        nested(bytes, NFTA_EXPR_DATA, data);
    });
}

fn verdict(bytes: &mut Vec<u8>, chain: &str) {
    nested(bytes, NFTA_DATA_VERDICT, |bytes| {
        attribute(bytes, 1, &(-3_i32).to_be_bytes());
        text(bytes, NFTA_VERDICT_CHAIN, chain);
    });
}

fn leads_to(bytes: &[u8], chain: &str) -> bool {
    let mut rules = messages(bytes).map_while(|message| message);
    rules.any(|message| jumps_to(&message, chain))
}

#[test]
fn a_jump_is_found_by_the_chain_that_it_leads_to() {
    let jump = rule("immediate", "KUBE-FORWARD");
    assert!(leads_to(&jump, "KUBE-FORWARD"));
    for other in ["KUBE-FORWAR", "KUBE-FORWARD2", ""] {
        assert!(!leads_to(&jump, other), "{other}");
    }
    // Another expression may have such a text at the same place.
    assert!(!leads_to(&rule("log", "KUBE-FORWARD"), "KUBE-FORWARD"));
}

#[test]
fn what_is_cut_off_has_no_jump() {
    let whole = rule("immediate", "KUBE-FORWARD");
    for length in 0..whole.len() {
        assert!(!leads_to(&whole[..length], "KUBE-FORWARD"), "{length}");
    }
}
