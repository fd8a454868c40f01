//! Lines about packets with different outcomes.

use std::net::SocketAddr;

use super::*;

fn outcome(summary: &str, last: &[u8]) -> ClientOutcome {
    let address = |last: &u8| SocketAddr::from(([10, 0, 0, *last], 80));
    ClientOutcome {
        summary: summary.to_owned(),
        endpoints: last.iter().map(address).collect(),
    }
}

/// Returns the lines for nodes that have these outcomes for some kinds of clients.
fn lines_of(nodes: &[(&str, Vec<(ClientKind, ClientOutcome)>)]) -> Vec<String> {
    let mut agreement = Agreement::default();
    for (node, outcomes) in nodes {
        let outcomes = outcomes.iter().map(|(from, outcome)| {
            let to = "10.96.0.10:80/tcp".to_owned();
            (TracedPackets { to, from: *from }, outcome.clone())
        });
        agreement.add(node, outcomes);
    }
    lines(&agreement)
}

#[test]
fn endpoints_tell_equal_words_apart() {
    let pod = |last: &[u8]| vec![(ClientKind::Pod, outcome("2 endpoints answer", last))];
    assert_eq!(
        lines_of(&[
            ("a", pod(&[1, 2])),
            ("b", pod(&[1, 2])),
            ("c", pod(&[1, 9])),
            ("d", Vec::new()),
        ]),
        [
            "10.96.0.10:80/tcp from a pod: 2 nodes: 2 endpoints answer; c: 2 endpoints answer, with \
          10.0.0.9:80; d: no rules for it"
        ]
    );
}
