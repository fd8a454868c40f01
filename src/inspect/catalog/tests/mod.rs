//! Reads catalogs from small rulesets in the format of `iptables-save`. `tests/dumps.rs` reads
//! whole ones, and `tests/explain` has the output of the command.

mod gap;
mod query;
mod reach;
mod shadow;

use super::{Catalog, NamePattern, NoMatch, PortName};
use crate::rules::RuleSet;

const SAVED: &str = "\
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SVL-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-EXT-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-FW-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SEP-1111111111111111 - [0:0]
:KUBE-SEP-2222222222222222 - [0:0]
:KUBE-SEP-3333333333333333 - [0:0]
:KUBE-SVC-STALESTALESTALES - [0:0]
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES -d 203.0.113.9/32 -p tcp -m comment --comment \"shop/web:http loadbalancer IP\" -m tcp --dport 80 -j KUBE-FW-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in this chain\" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -d 127.0.0.0/8 -p tcp -m comment --comment \"shop/web:http\" -m tcp --dport 30080 -m nfacct --nfacct-name  localhost_nps_accepted_pkts -j KUBE-EXT-AAAAAAAAAAAAAAAA
-A KUBE-NODEPORTS -p tcp -m comment --comment \"shop/web:http\" -m tcp --dport 30080 -j KUBE-EXT-AAAAAAAAAAAAAAAA
-A KUBE-EXT-AAAAAAAAAAAAAAAA -m comment --comment \"route LOCAL traffic for shop/web:http external destinations\" -m addrtype --src-type LOCAL -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-EXT-AAAAAAAAAAAAAAAA -j KUBE-SVL-AAAAAAAAAAAAAAAA
-A KUBE-FW-AAAAAAAAAAAAAAAA -s 198.51.100.0/24 -j KUBE-EXT-AAAAAAAAAAAAAAAA
-A KUBE-SVC-AAAAAAAAAAAAAAAA -m recent --rcheck --seconds 60 --reap --name KUBE-SEP-1111111111111111 --rsource -j KUBE-SEP-1111111111111111
-A KUBE-SVC-AAAAAAAAAAAAAAAA -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-1111111111111111
-A KUBE-SVC-AAAAAAAAAAAAAAAA -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-2222222222222222
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-3333333333333333
-A KUBE-SVL-AAAAAAAAAAAAAAAA -j KUBE-SEP-2222222222222222
-A KUBE-SEP-1111111111111111 -p tcp -m tcp -j DNAT --to-destination 10.4.0.1:8080
-A KUBE-SEP-2222222222222222 -p tcp -m tcp -j DNAT --to-destination 10.4.0.2:8080
-A KUBE-SEP-3333333333333333 -p tcp -m tcp -j DNAT --to-destination 10.4.0.3:8080
COMMIT
*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
-A KUBE-NODEPORTS -p tcp -m comment --comment \"shop/web:http health check node port\" -m tcp --dport 32000 -j ACCEPT
-A KUBE-SERVICES -d 10.96.0.11/32 -p udp -m comment --comment \"shop/empty has no endpoints\" -m udp --dport 53 -j REJECT --reject-with icmp-port-unreachable
-A KUBE-EXTERNAL-SERVICES -d 203.0.113.9/32 -p tcp -m comment --comment \"shop/web:http has no local endpoints\" -m tcp --dport 80 -j DROP
-A KUBE-EXTERNAL-SERVICES -p udp -m comment --comment \"shop/empty has no local endpoints\" -m addrtype --dst-type LOCAL -m udp --dport 30053 -j DROP
COMMIT
";

#[test]
fn without_the_nat_table_no_service_is_said_to_have_no_rules() {
    let (_, filter) = SAVED.split_once("COMMIT\n").unwrap();
    let catalog = Catalog::read(&RuleSet::parse(filter).unwrap());
    assert_eq!(catalog.unknown.families_without_nat, 1);
    let pattern: NamePattern = "shop/web".parse().unwrap();
    let none = std::iter::empty::<(&PortName, Vec<u16>)>();
    let error = NoMatch::of(&pattern, &none, catalog.unknown).unwrap();
    let expected = "no Service `shop/web` has rules in the tables that were read\nhint: ";
    assert!(error.to_string().starts_with(expected), "{error}");
}

/// Comments of a dump may be replaced, so that nothing tells the owner of a chain.
#[test]
fn a_chain_in_use_is_not_stale_without_a_name() {
    let lines = SAVED
        .lines()
        .map(|line| match line.split_once("--comment \"") {
            Some((before, rest)) => {
                let after = rest.split_once('"').unwrap().1;
                format!("{before}--comment \"x\"{after}\n")
            }
            None => format!("{line}\n"),
        });
    let catalog = Catalog::read(&RuleSet::parse(&lines.collect::<String>()).unwrap());
    assert!(catalog.ports.is_empty());
    assert_eq!(*catalog.stale, ["KUBE-SVC-STALESTALESTALES".into()]);
}

/// Only policy Local has health checks, even without endpoints.
#[test]
fn a_health_check_shows_the_policy() {
    let text = SAVED.replace("shop/web:http health", "shop/idle:http health");
    let catalog = Catalog::read(&RuleSet::parse(&text).unwrap());
    let mut ports = catalog.ports.iter();
    let (_, idle) = ports.find(|(name, _)| name.service() == "idle").unwrap();
    assert!(idle.endpoints.is_empty());
    assert_eq!(idle.internal_policy, None);
    assert_eq!(idle.external_policy, Some(super::Policy::Local));
}

/// Only dumps that were edited by hand have such jumps: the kernel rejects them.
#[test]
fn jumps_in_a_circle_between_external_chains_have_no_policy() {
    let text = "*nat\n:KUBE-EXT-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-EXT-BBBBBBBBBBBBBBBB - [0:0]\n\
        :KUBE-SERVICES - [0:0]\n\
        -A KUBE-SERVICES -d 10.0.0.9/32 -p tcp -m comment --comment \"shop/web:http external IP\" \
        -m tcp --dport 80 -j KUBE-EXT-AAAAAAAAAAAAAAAA\n\
        -A KUBE-EXT-AAAAAAAAAAAAAAAA -j KUBE-EXT-BBBBBBBBBBBBBBBB\n\
        -A KUBE-EXT-BBBBBBBBBBBBBBBB -j KUBE-EXT-AAAAAAAAAAAAAAAA\nCOMMIT\n";
    let rules = RuleSet::parse(text).unwrap();
    let catalog = Catalog::read(&rules);
    let view = catalog.ports.first_key_value().unwrap().1;
    assert_eq!(view.external_policy, None);
}

#[test]
fn rules_of_a_dispatch_tree_are_those_of_its_dispatch_chain() {
    let rule = |chain: &str, ip: &str, name: &str| {
        format!(
            "-A {chain} -d {ip}/32 -p tcp -m comment --comment \"shop/{name} cluster IP\" -m tcp \
             --dport 80 -j KUBE-SVC-{}\n",
            name.to_ascii_uppercase()
        )
    };
    let text = [
        "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-10.96.0.0/16 - [0:0]\n",
        ":KUBE-SVC-10.96.0.0/24 - [0:0]\n:KUBE-SVC-A - [0:0]\n:KUBE-SVC-B - [0:0]\n",
        "-A KUBE-SERVICES -d 10.96.0.0/16 -j KUBE-SVC-10.96.0.0/16\n",
        &rule("KUBE-SERVICES", "10.97.0.1", "b"),
        "-A KUBE-SVC-10.96.0.0/16 -d 10.96.0.0/24 -j KUBE-SVC-10.96.0.0/24\n",
        &rule("KUBE-SVC-10.96.0.0/24", "10.96.0.1", "a"),
        "COMMIT\n",
    ]
    .concat();
    let rules = RuleSet::parse(&text).unwrap();
    let catalog = Catalog::read(&rules);
    let names: Vec<&str> = catalog.ports.keys().map(|name| &*name.name).collect();
    assert_eq!(names, ["shop/a", "shop/b"]);
    assert_eq!(catalog, Catalog::read(&crate::ruleset::flattened(rules)));
}
