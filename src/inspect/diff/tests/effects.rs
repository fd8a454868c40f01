//! Effects on the traffic of a service port.

use super::{check, output, with};

const HALF: &str = "0.50000000000";

#[test]
fn an_added_endpoint_is_listed_for_all_of_its_frontends() {
    let one = "-m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-ONE";
    let third = "-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-ONE\n\
                 -A KUBE-SVC-WEB -m statistic --mode random --probability 0.5 -j KUBE-SEP-TRI";
    let chain = ":KUBE-SEP-TWO - [0:0]\n:KUBE-SEP-TRI - [0:0]\n\
                 -A KUBE-SEP-TRI -p tcp -m tcp -j DNAT --to-destination 10.4.0.3:8080";
    check(
        &[(one, third), (":KUBE-SEP-TWO - [0:0]", chain)],
        "\
shop/web:http/tcp changes (IPv4)
  10.96.0.10:80/tcp, *:30080/tcp: 2 -> 3 endpoints, +10.4.0.3:8080
  nat KUBE-SEP-TRI new +1
  nat KUBE-SVC-WEB -1 +2

1 service port differs, 1 affects packets: 1 changed, 0 added, 0 removed; 2 chains
",
    );
}

#[test]
fn a_changed_dnat_address_is_an_added_and_a_removed_endpoint() {
    check(
        &[(
            "--to-destination 10.4.0.2:8080",
            "--to-destination 10.4.0.9:8080",
        )],
        "\
shop/web:http/tcp changes (IPv4)
  10.96.0.10:80/tcp, *:30080/tcp: 2 -> 2 endpoints, +10.4.0.9:8080, -10.4.0.2:8080
  nat KUBE-SEP-TWO -1 +1

1 service port differs, 1 affects packets: 1 changed, 0 added, 0 removed; 1 chain
",
    );
}

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
    let desired = with(&[
        (
            ":KUBE-FORWARD",
            ":KUBE-EXTERNAL-SERVICES - [0:0]\n:KUBE-FORWARD",
        ),
        (
            "-A KUBE-SERVICES -d 10.96.0.9/32",
            "-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http has no endpoints\" -m tcp --dport 80 -j REJECT\n\
             -A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"shop/web:http has no endpoints\" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j REJECT\n\
             -A KUBE-SERVICES -d 10.96.0.9/32",
        ),
        (
            "-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-WEB\n",
            "",
        ),
        (
            "-A KUBE-NODEPORTS -p tcp -m comment --comment \"shop/web:http\" -m tcp --dport 30080 -j KUBE-EXT-WEB\n",
            "",
        ),
    ]);
    let text = output(&with(&[]), &desired);
    let expected = "\
shop/web:http/tcp changes (IPv4)
  *:30080/tcp: now rejected: no endpoints
  10.96.0.10:80/tcp: now rejected: no endpoints
  10.96.0.10:80/tcp, *:30080/tcp: 2 -> 0 endpoints, -10.4.0.1:8080, -10.4.0.2:8080
";
    assert!(text.starts_with(expected), "{text}");
    let back = output(&desired, &with(&[]));
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

#[test]
fn differences_without_another_effect_show_their_rules() {
    check(
        &[("-s 10.4.0.2/32 ", "-s 10.4.0.3/32 ")],
        "\
shop/web:http/tcp changes (IPv4)
  rules differ; frontends and endpoints are the same
  nat KUBE-SEP-TWO -1 +1
    - -s 10.4.0.2/32 -m comment --comment \"shop/web:http\" -j KUBE-MARK-MASQ
    + -s 10.4.0.3/32 -m comment --comment \"shop/web:http\" -j KUBE-MARK-MASQ

1 service port differs, 1 affects packets: 1 changed, 0 added, 0 removed; 1 chain
",
    );
}

#[test]
fn a_replaced_service_disappears_and_appears() {
    check(
        &[("shop/empty", "shop/void"), ("10.96.0.9", "10.96.0.8")],
        "\
shop/empty/tcp disappears (IPv4)
  - cluster IP 10.96.0.9:80/tcp
  filter KUBE-SERVICES -1

shop/void/tcp appears (IPv4)
  + cluster IP 10.96.0.8:80/tcp, rejected: no endpoints
  filter KUBE-SERVICES +1

2 service ports differ, 2 affect packets: 0 changed, 1 added, 1 removed; 1 chain
",
    );
}

#[test]
fn changes_of_policy_affinity_and_source_ranges_are_effects() {
    let local = "-A KUBE-EXT-WEB -m comment --comment \"masquerade LOCAL traffic for shop/web:http external destinations\" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ\n\
                 -A KUBE-EXT-WEB -m comment --comment \"route LOCAL traffic for shop/web:http external destinations\" -m addrtype --src-type LOCAL -j KUBE-SVC-WEB\n\
                 -A KUBE-EXT-WEB -j KUBE-SVL-WEB\n\
                 -A KUBE-SVL-WEB -j KUBE-SEP-TWO\n";
    let cluster = "-A KUBE-EXT-WEB -m comment --comment \"masquerade traffic for shop/web:http external destinations\" -j KUBE-MARK-MASQ\n-A KUBE-EXT-WEB -j KUBE-SVC-WEB\n";
    let recent = "-A KUBE-SVC-WEB -m recent --rcheck --seconds 60 --reap --name KUBE-SEP-ONE --rsource -j KUBE-SEP-ONE\n";
    let svc = "-A KUBE-SVC-WEB -m comment --comment \"shop/web:http -> 10.4.0.1:8080\"";
    let desired = with(&[
        (cluster, local),
        (svc, &format!("{recent}{svc}")),
        (":KUBE-SVC-WEB", ":KUBE-SVL-WEB - [0:0]\n:KUBE-SVC-WEB"),
    ]);
    let text = output(&with(&[]), &desired);
    let expected = "\
shop/web:http/tcp changes (IPv4)
  external policy Cluster -> Local
  *:30080/tcp: 2 -> 1 local endpoint, -10.4.0.1:8080
  affinity none -> 60 s
  nat KUBE-EXT-WEB -2 +3
  nat KUBE-SVC-WEB +1
  nat KUBE-SVL-WEB new +1

1 service port differs, 1 affects packets: 1 changed, 0 added, 0 removed; 3 chains
";
    assert_eq!(text, expected);

    let balanced = |range: &str| {
        let enter = "-A KUBE-SERVICES -d 10.96.0.10/32";
        let firewall = format!(
            "-A KUBE-FW-WEB -s {range} -j KUBE-EXT-WEB\n\
             -A KUBE-SERVICES -d 203.0.113.1/32 -p tcp -m comment --comment \"shop/web:http loadbalancer IP\" -m tcp --dport 80 -j KUBE-FW-WEB\n{enter}"
        );
        with(&[
            (enter, &firewall),
            (":KUBE-SVC-WEB", ":KUBE-FW-WEB - [0:0]\n:KUBE-SVC-WEB"),
        ])
    };
    let text = output(&balanced("192.0.2.0/24"), &balanced("198.51.100.0/24"));
    let expected = "  source ranges, +198.51.100.0/24, -192.0.2.0/24\n  nat KUBE-FW-WEB -1 +1\n";
    assert!(text.contains(expected), "{text}");
    let text = output(&with(&[]), &balanced("192.0.2.0/24"));
    assert!(
        text.contains("  + load balancer 203.0.113.1:80/tcp\n"),
        "{text}"
    );
}
