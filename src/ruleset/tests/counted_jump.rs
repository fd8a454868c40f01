//! Counters in the lines of both programs.

use crate::ruleset::CountedJump;

const MATCHES: &str = "-d 10.96.0.10/32 -p tcp -m comment --comment \"default/shop:http cluster IP\" -m tcp --dport 80";

fn saved(chain: &str, counters: &str, target: &str) -> String {
    format!("[{counters}:720] -A {chain} {MATCHES} -j {target}")
}

fn listed(chain: &str, counters: &str, target: &str) -> String {
    format!("-A {chain} {MATCHES} -c {counters} 720 -j {target}")
}

const SVC: &str = "KUBE-SVC-AAAAAAAAAAAAAAAA";

#[test]
fn both_programs_print_the_same_counter() {
    let one = saved("KUBE-SERVICES", "12", SVC);
    let other = listed("KUBE-SERVICES", "12", SVC);
    let (saved, listed) = (CountedJump::parse(&one), CountedJump::parse(&other));
    let jump = saved.expect("a jump");
    assert_eq!(saved, listed);
    assert_eq!((jump.connections, &*jump.target.name()), (12, SVC));
    assert_eq!(jump.service_port(), Some("default/shop:http"));
    assert!(jump.is_of_frontend());
}

#[test]
fn the_key_of_a_rule_does_not_depend_on_its_counter() {
    let key = |line: &str| CountedJump::parse(line).expect("a jump").key();
    let one = key(&saved("KUBE-SERVICES", "12", SVC));
    assert_eq!(one, key(&listed("KUBE-SERVICES", "13", SVC)));
    assert_ne!(one, key(&saved("KUBE-SVC-10.96.0.0/15", "12", SVC)));
    let other = saved("KUBE-SERVICES", "12", "KUBE-EXT-AAAAAAAAAAAAAAAA");
    assert_ne!(one, key(&other));
}

#[test]
fn tree_chains_hold_rules_of_frontends_and_service_chains_do_not() {
    let is_of_frontend = |chain: &str| {
        let line = saved(chain, "1", SVC);
        CountedJump::parse(&line).map(|jump| jump.is_of_frontend())
    };
    assert_eq!(is_of_frontend("KUBE-NODEPORTS"), Some(true));
    assert_eq!(is_of_frontend("KUBE-SVC-10.96.0.0/15"), Some(true));
    assert_eq!(is_of_frontend("KUBE-EXT-AAAAAAAAAAAAAAAA"), Some(false));
}

#[test]
fn a_node_port_has_the_bare_name_as_its_comment() {
    let line = "-A KUBE-NODEPORTS -p tcp -m comment --comment default/shop:http -m tcp --dport \
                30080 -c 3 180 -j KUBE-EXT-AAAAAAAAAAAAAAAA";
    let jump = CountedJump::parse(line).expect("a jump");
    assert_eq!(jump.service_port(), Some("default/shop:http"));
    assert_eq!(jump.connections, 3);
}

#[test]
fn other_lines_are_no_jumps_to_service_chains() {
    for line in [
        "",
        "*nat",
        ":KUBE-SERVICES - [0:0]",
        "-N KUBE-SERVICES",
        "[1:60] -A KUBE-SERVICES -j KUBE-NODEPORTS",
        "[1:60] -A KUBE-SERVICES -d 10.96.0.0/15 -j KUBE-SVC-10.96.0.0/15",
        "[1:60] -A KUBE-SERVICES",
        "[] -A",
        "-A KUBE-SERVICES -j KUBE-SVC-AAAAAAAAAAAAAAAA",
    ] {
        assert_eq!(CountedJump::parse(line), None, "{line}");
    }
}
