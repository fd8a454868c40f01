//! The number of rules that a packet traverses, counted by hand.

use std::fmt::Write as _;

use super::super::{ClientSelection, Detail, NodeRules, explain, json, text};
use crate::net::IpFamily;
use crate::rules::RuleSet;

/// Rules of fourteen Services, the last one with two endpoints.
fn flat() -> RuleSet {
    rules("", |_| "KUBE-SERVICES")
}

/// Rules of the same Services in a tree. Their addresses have 10.96.0.0/28 in common; .1 to .7 and
/// .8 to .14 have a leaf each.
fn tree() -> RuleSet {
    rules(
        "-A KUBE-SERVICES -d 10.96.0.0/28 -j KUBE-SVC-10.96.0.0/28\n\
         -A KUBE-SVC-10.96.0.0/28 -d 10.96.0.0/29 -j KUBE-SVC-10.96.0.0/29\n\
         -A KUBE-SVC-10.96.0.0/28 -d 10.96.0.8/29 -j KUBE-SVC-10.96.0.8/29\n",
        |n| match n {
            ..8 => "KUBE-SVC-10.96.0.0/29",
            _ => "KUBE-SVC-10.96.0.8/29",
        },
    )
}

/// Rules of the Services, each in the chain of its number, after the jumps of a tree.
fn rules(jumps: &str, chain_of: impl Fn(u8) -> &'static str) -> RuleSet {
    let mut dispatch = jumps.to_owned();
    let mut services = String::new();
    for n in 1..=14 {
        let chain = chain_of(n);
        // Writing to a String cannot fail.
        let _ = writeln!(
            dispatch,
            "-A {chain} -d 10.96.0.{n}/32 -p tcp -m comment --comment \"shop/s{n}:http \
             cluster IP\" -m tcp --dport 80 -j KUBE-SVC-{n}"
        );
        let balance = if n == 14 {
            "-A KUBE-SVC-14 -m statistic --mode random --probability 0.5 -j KUBE-SEP-1\n"
        } else {
            ""
        };
        let _ = writeln!(
            services,
            "-A KUBE-SVC-{n} ! -s 10.4.0.0/16 -d 10.96.0.{n}/32 -p tcp -m tcp --dport 80 -j \
             KUBE-MARK-MASQ\n{balance}-A KUBE-SVC-{n} -j KUBE-SEP-{n}\n\
             -A KUBE-SEP-{n} -s 10.4.0.{n}/32 -j KUBE-MARK-MASQ\n\
             -A KUBE-SEP-{n} -p tcp -m tcp -j DNAT --to-destination 10.4.0.{n}:8080"
        );
    }
    let saved = format!(
        "*filter\n\
         -A FORWARD -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL\n\
         -A FORWARD -j KUBE-FORWARD\n\
         -A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES\n\
         -A FORWARD -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES\n\
         -A KUBE-EXTERNAL-SERVICES -d 203.0.113.9/32 -p tcp -m tcp --dport 80 -j REJECT\n\
         -A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\n\
         COMMIT\n\
         *nat\n\
         -A PREROUTING -j KUBE-SERVICES\n\
         -A POSTROUTING -j KUBE-POSTROUTING\n\
         {dispatch}\
         -A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n\
         {services}\
         -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
         -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
         -A KUBE-POSTROUTING -j MASQUERADE\n\
         COMMIT\n"
    );
    // Chains are declared before their rules, as iptables-save prints them.
    let mut declared = String::new();
    for table in saved.split_inclusive("COMMIT\n") {
        let (name, rules) = table.split_once('\n').unwrap();
        let words = rules.split_whitespace();
        let mut chains: Vec<&str> = words.filter(|word| word.starts_with("KUBE-")).collect();
        chains.sort_unstable();
        chains.dedup();
        let _ = writeln!(declared, "{name}");
        for chain in chains {
            let _ = writeln!(declared, ":{chain} - [0:0]");
        }
        declared += rules;
    }
    RuleSet::parse(&declared).unwrap()
}

/// Returns the numbers of traversed rules, in total and in dispatch chains, for packets of a Pod.
fn counted(rules: &RuleSet, query: &str) -> (usize, usize) {
    explained(rules, query, |found| {
        let traversed = found[0].paths[0].traversed.unwrap();
        (traversed.rules, traversed.dispatch_rules)
    })
}

fn explained<T>(
    rules: &RuleSet,
    query: &str,
    read: impl Fn(&[super::super::explanation::Explanation<'_>]) -> T,
) -> T {
    let nodes = [NodeRules::new(
        rules,
        IpFamily::V4,
        &["192.168.0.2".parse().unwrap()].into(),
    )];
    let client = ClientSelection::Source {
        ip: "10.4.9.9".parse().unwrap(),
        in_interface: None,
    };
    read(&explain(&query.parse().unwrap(), &nodes, &client).unwrap())
}

/// PREROUTING 1; FORWARD 4, KUBE-FORWARD 1, KUBE-EXTERNAL-SERVICES 1; POSTROUTING 1,
/// KUBE-POSTROUTING 1.
const AROUND: usize = 9;

/// `KUBE-EXTERNAL-SERVICES` of the filter table, which is in `AROUND`.
const FILTER: usize = 1;

#[track_caller]
fn check(query: &str, of_flat: usize, of_tree: usize, of_service: usize) {
    let total = |dispatch: usize| (AROUND + dispatch + of_service, FILTER + dispatch);
    assert_eq!(counted(&flat(), query), total(of_flat), "flat");
    assert_eq!(counted(&tree(), query), total(of_tree), "tree");
}

#[test]
fn a_packet_to_the_last_service_traverses_all_rules_of_a_flat_chain() {
    // In the tree, the jump to /28, two jumps in it, and seven rules of the leaf. Of the Service,
    // the rule for masquerading, two for endpoints, and two of the second endpoint.
    check("10.96.0.14:80", 14, 1 + 2 + 7, 5);
}

#[test]
fn a_packet_to_the_first_service_traverses_more_rules_of_a_tree() {
    // In the tree, the jump to /28, the first jump in it, and the first rule of the leaf.
    check("10.96.0.1:80", 1, 1 + 1 + 1, 4);
}

#[test]
fn a_packet_to_no_service_traverses_all_rules_of_a_flat_chain_and_few_of_a_tree() {
    // In the tree, the jump to /28; in both, the jump to NodePorts.
    check("10.97.0.1:80", 14 + 1, 1 + 1, 0);
    // In the tree, also both jumps of the chain for /28, and the second leaf.
    check("10.96.0.15:80", 14 + 1, 1 + 2 + 7 + 1, 0);
}

#[test]
fn the_number_of_traversed_rules_is_in_verbose_text_and_json() {
    let shown = |detail| {
        let shown = explained(&flat(), "10.97.0.1:80", |all| text(all, detail));
        anstream::adapter::strip_str(&shown).to_string()
    };
    let line = "  the first packet traverses 24 rules, 16 of them in dispatch chains\n";
    let full = shown(Detail::Full);
    assert!(full.contains(line), "{full}");
    let short = shown(Detail::Short);
    assert!(!short.contains("traverses"), "{short}");
    let document = explained(&tree(), "10.97.0.1:80", json);
    let path = &document["destinations"][0]["ways"][0];
    assert_eq!(
        path["traversed"],
        serde_json::json!({"rules": 11, "dispatchRules": 3})
    );
}

#[test]
fn rules_are_not_counted_if_the_packet_is_not_traced_to_its_end() {
    let saved = flat().to_save_text();
    let incomplete = saved.replace("-A KUBE-SEP-1 ", "-A KUBE-SEP-1 -j NFQUEUE\n-A KUBE-SEP-1 ");
    let rules = RuleSet::parse(&incomplete).unwrap();
    let traversed = explained(&rules, "10.96.0.1:80", |all| all[0].paths[0].traversed);
    assert_eq!(traversed, None);
}

#[test]
fn of_paths_that_meet_again_the_one_with_more_rules_is_counted() {
    // A rule by chance that leads to two rules, and one that cannot be evaluated, which is taken
    // not to match.
    let saved = flat().to_save_text().replacen(
        "-A FORWARD ",
        "-A FORWARD -m statistic --mode random --probability 0.5 -j LOGGED\n\
         -A FORWARD -m set --match-set a src -j LOGGED\n\
         -A LOGGED -j LOG\n\
         -A LOGGED -j LOG\n\
         -A FORWARD ",
        1,
    );
    let rules = RuleSet::parse(&saved.replacen(":FORWARD", ":LOGGED - [0:0]\n:FORWARD", 1));
    let (total, _) = counted(&rules.unwrap(), "10.96.0.1:80");
    assert_eq!(total, AROUND + 1 + 4 + (1 + 2) + 1);
}
