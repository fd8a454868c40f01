//! The number of rules that a packet traverses, counted by hand. `tests/traversed.rs` compares it
//! with the kernel's.

use super::super::{ClientSelection, NodeRules, explain};
use super::SAVED;
use crate::net::IpFamily;
use crate::rules::RuleSet;

/// Returns the numbers of traversed rules, in total and in dispatch chains, for packets of a Pod to
/// `shop/web`.
fn counted(saved: &str) -> Option<(usize, usize)> {
    let rules = RuleSet::parse(saved).unwrap();
    let own = ["192.168.0.2".parse().unwrap()].into();
    let nodes = [NodeRules::new(&rules, IpFamily::V4, &own)];
    let client = ClientSelection::Source {
        ip: "10.4.9.9".parse().unwrap(),
        in_interface: None,
    };
    let found = explain(&"10.96.0.10:80".parse().unwrap(), &nodes, &client).unwrap();
    let traversed = found[0].paths[0].traversed?;
    Some((traversed.rules, traversed.dispatch_rules))
}

/// PREROUTING 1; the rules for masquerading and for three endpoints, and that of the last endpoint;
/// POSTROUTING 1, KUBE-POSTROUTING 1.
const AROUND: usize = 1 + 4 + 1 + 2;

#[test]
fn rules_are_not_counted_if_the_packet_is_not_traced_to_its_end() {
    let first = "-A KUBE-SVC-WEB ! -s";
    let queue = format!("-A KUBE-SVC-WEB -j NFQUEUE\n{first}");
    assert_eq!(counted(&SAVED.replace(first, &queue)), None);
}

/// A rule by chance that leads to two rules, and one that cannot be evaluated, which is taken not
/// to match.
#[test]
fn of_paths_that_meet_again_the_one_with_more_rules_is_counted() {
    let filter = "*filter\n:FORWARD ACCEPT [0:0]\n:LOGGED - [0:0]\n\
         -A FORWARD -m statistic --mode random --probability 0.5 -j LOGGED\n\
         -A FORWARD -m set --match-set a src -j LOGGED\n\
         -A LOGGED -j LOG\n-A LOGGED -j LOG\nCOMMIT\n";
    let counted = counted(&format!("{filter}{SAVED}"));
    assert_eq!(counted, Some((AROUND + 2 + (1 + 2) + 1, 2)));
}
