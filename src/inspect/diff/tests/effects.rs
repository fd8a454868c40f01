//! Effects on the traffic of a service port that the recorded reviews in `tests/golden/diff` do not
//! have.

use super::policy::rejected;
use super::{check, output, with};

const HALF: &str = "0.50000000000";

#[test]
fn changed_probabilities_are_shown_as_shares() {
    check(
        &[(HALF, "0.25")],
        "\
shop/web:http/tcp changes (IPv4)
  10.4.0.1:8080: 1/2 -> 1/4 of new connections
  10.4.0.2:8080: 1/2 -> 3/4 of new connections
  nat KUBE-SVC-WEB -1 +1

1 service port differs, 1 affects packets: 1 changed, 0 added, 0 removed; 1 chain
",
    );
}

#[test]
fn removing_the_last_endpoint_rejects_traffic() {
    let text = output(&with(&[]), &rejected());
    let expected = "\
shop/web:http/tcp changes (IPv4)
  *:30080/tcp: now rejected: no endpoints
  10.96.0.10:80/tcp: now rejected: no endpoints
  10.96.0.10:80/tcp, *:30080/tcp: 2 -> 0 endpoints, -10.4.0.1:8080, -10.4.0.2:8080
";
    assert!(text.starts_with(expected), "{text}");
    let back = output(&rejected(), &with(&[]));
    assert!(back.contains("  *:30080/tcp: now served\n"), "{back}");
}

#[test]
fn a_reordered_chain_is_an_effect() {
    // The endpoints change places, and the probabilities do not.
    check(
        &[
            ("-j KUBE-SEP-ONE", "-j KUBE-SEP-NEW"),
            ("-j KUBE-SEP-TWO", "-j KUBE-SEP-ONE"),
            ("-j KUBE-SEP-NEW", "-j KUBE-SEP-TWO"),
        ],
        "\
shop/web:http/tcp changes (IPv4)
  rules differ; frontends and endpoints are the same
  nat KUBE-SVC-WEB -2 +2
    - -m comment --comment \"shop/web:http -> 10.4.0.1:8080\" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-ONE
    - -m comment --comment \"shop/web:http -> 10.4.0.2:8080\" -j KUBE-SEP-TWO
    + -m comment --comment \"shop/web:http -> 10.4.0.1:8080\" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-TWO
    + -m comment --comment \"shop/web:http -> 10.4.0.2:8080\" -j KUBE-SEP-ONE

1 service port differs, 1 affects packets: 1 changed, 0 added, 0 removed; 1 chain
",
    );
}
