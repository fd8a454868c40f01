//! Lines of nodes, the worst first.

use super::*;

type Answer = Result<Option<String>, NodeProblem>;

#[expect(
    clippy::unnecessary_wraps,
    reason = "the answer of a node is one of several"
)]
fn page(document: &str) -> Answer {
    Ok(Some(document.to_owned()))
}

const WELL: &str = r#"{"version": "0.1.0, in place of kube-proxy v1.37.2",
    "families": [{"backend": "nft"}, {"backend": "nft"}]}"#;

fn lines() -> Vec<NodeLine> {
    let gone = NodeProblem {
        problem: "no answer within 10 s".to_owned(),
        hint: "check that the node is ready: kubectl get node node3".to_owned(),
    };
    let quarantine =
        r#"{"version": "0.1.0", "problems": [{"summary": "IPv4: 1 in quarantine: shop/web"}]}"#;
    let failing = r#"{"version": "0.1.0", "problems": [
        {"summary": "IPv4: 3 syncs in a row failed", "isFailure": true}, {"summary": "other"}]}"#;
    let legacy =
        r#"{"version": "0.0.9", "families": [{"backend": "legacy", "new": [1]}], "new": {}}"#;
    let mut lines = vec![
        NodeLine::new("node1", page(WELL)),
        NodeLine::new("node2", page(WELL)),
        NodeLine::new("node3", Err(gone)),
        NodeLine::new("node4", Ok(None)),
        NodeLine::new("node5", page(quarantine)),
        NodeLine::new("node60", page(failing)),
        NodeLine::new("node7", page("{}")),
        NodeLine::new("node8", page(legacy)),
    ];
    sort(&mut lines);
    lines
}

#[test]
fn the_worst_are_first_and_the_rest_is_one_line() {
    assert_eq!(
        text(&lines()),
        "NODE     STATE     PROBLEM
node60   FAILURE   IPv4: 3 syncs in a row failed (and 1 more)
node3    unknown   no answer within 10 s
node7    unknown   the page is not of deltaproxy
node5    finding   IPv4: 1 in quarantine: shop/web
node4    other     kube-proxy, which has no status
3 of 8 nodes are well: 2 with deltaproxy 0.1.0, nft, 1 with deltaproxy 0.0.9, legacy
"
    );
}

#[test]
fn nodes_that_are_all_well_are_one_line() {
    let line = NodeLine::new("node1", page(WELL));
    assert_eq!(
        text(&[line]),
        "1 of 1 nodes are well: 1 with deltaproxy 0.1.0, nft\n"
    );
}
