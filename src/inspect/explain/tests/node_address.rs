//! Addresses of the node that are assumed.

use super::{SAVED, assert_contains, explained, rendered};
use crate::inspect::explain::{json, tree};

#[test]
fn invented_addresses_are_marked() {
    let text = explained(SAVED, ":30080");
    let title = "198.18.0.1:30080/tcp (assumed address of the node), node port of shop/web:http";
    let clients = [
        "a pod (such as 10.4.0.3)",
        "the node (assumed 198.18.0.1)",
        "outside (such as 203.0.113.1)",
    ];
    assert_contains(&text, &[title]);
    let drawn = rendered(SAVED, ":30080", tree);
    let note = "the node's addresses are unknown: 198.18.0.1 is assumed; set --node-ip";
    assert_contains(&text, &[note]);
    assert_contains(&drawn, &["(assumed address of the node)", note]);
    assert_contains(&drawn, &clients);
    assert_contains(&text, &clients);
    let document = rendered(SAVED, ":30080", |all| json(all).to_string());
    assert_contains(&document, &["\"addressAssumed\":true"]);
    assert_eq!(
        document.matches("\"assumed\":true").count(),
        3,
        "{document}"
    );
}
