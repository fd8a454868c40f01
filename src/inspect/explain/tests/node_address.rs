//! Addresses of the node that are inferred, assumed, or possible.

use super::{SAVED, assert_contains, explained, rendered};
use crate::inspect::explain::{json, svg, tree};

#[test]
fn an_endpoint_that_may_be_the_node_is_a_doubt() {
    // Packets to an endpoint on the node itself are not masqueraded.
    let saved = SAVED.replace(
        "-j KUBE-SVC-API\n-A KUBE-SERVICES -m",
        "-j KUBE-EXT-API\n-A KUBE-SERVICES -m",
    );
    let saved = saved.replace(
        ":KUBE-EXT-WEB - [0:0]\n",
        ":KUBE-EXT-WEB - [0:0]\n:KUBE-EXT-API - [0:0]\n",
    );
    let saved = saved.replace(
        "-A KUBE-EXT-WEB -j KUBE-MARK-MASQ\n",
        "-A KUBE-EXT-WEB -j KUBE-MARK-MASQ\n-A KUBE-EXT-API -j KUBE-MARK-MASQ\n-A KUBE-EXT-API -j KUBE-SVC-API\n",
    );
    let doubt =
        "unsure: the result may differ if this node has the address 192.168.0.7; set --node-ip";
    let text = explained(&saved, "192.168.0.9:443");
    assert_contains(&text, &[doubt]);
    let document = rendered(&saved, "192.168.0.9:443", |all| json(all).to_string());
    assert_contains(&document, &["\"possibleNodeAddresses\":[\"192.168.0.7\"]"]);
    for draw in [tree, svg] {
        assert_contains(&rendered(&saved, "192.168.0.9:443", draw), &[doubt]);
    }
    // Endpoints within the pods' network are none of the node's.
    assert!(!explained(&saved, "10.96.0.10:80").contains("unsure: the result"));
}

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
    assert_contains(&drawn, &["(assumed address of the node)"]);
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

#[test]
fn rules_show_addresses_of_the_node() {
    // SNAT sets an address to which replies return.
    let snat = "-A POSTROUTING -d 192.0.2.0/24 -j SNAT --to-source 192.168.0.5\nCOMMIT\n";
    let text = explained(&SAVED.replace("COMMIT\n", snat), ":30080");
    let note = "the node's addresses are inferred from its rules: 192.168.0.5";
    assert_contains(
        &text,
        &[
            note,
            "192.168.0.5:30080/tcp, node port",
            "the node (192.168.0.5)",
        ],
    );
    // An endpoint on this node outside of the pods' network has the node's address.
    let local = SAVED
        .replace(
            ":KUBE-SVC-API - [0:0]\n",
            ":KUBE-SVC-API - [0:0]\n:KUBE-SVL-API - [0:0]\n",
        )
        .replace("COMMIT\n", "-A KUBE-SVL-API -j KUBE-SEP-API\nCOMMIT\n")
        .replace(
            "external IP\" -m tcp --dport 443 -j KUBE-SVC-API",
            "external IP\" -m tcp --dport 443 -j KUBE-SVL-API",
        );
    let text = explained(&local, ":30080");
    assert_contains(
        &text,
        &["192.168.0.7:30080/tcp, node port of shop/web:http"],
    );
}
