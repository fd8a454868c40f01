//! Tests of payloads that are applied to a rule set, and of payloads that are rejected.
//!
//! `iptables-nft-restore` and `iptables-legacy-restore` 1.8.9 reject the same payloads, and
//! printed the files in `saves`. The former crashes on `-R`, so there only the latter is the
//! reference.

use std::fmt::Write as _;

use crate::rules::{Comparison, RuleSet, Table};

/// Applies the payloads one after another and compares the error of the last and the nat table.
#[track_caller]
fn check(payloads: &[&str], expected: &str) {
    let mut rules = RuleSet::default();
    let mut shown = String::new();
    for payload in payloads {
        if let Err(error) = rules.apply(payload) {
            shown = format!("{error}\n");
        }
    }
    for (name, chain) in rules.chains(Table::Nat) {
        if chain.policy.is_none() || !chain.rules.is_empty() {
            let rules: Vec<String> = chain.rules.iter().map(ToString::to_string).collect();
            writeln!(shown, "{name} [{}]", rules.join("; ")).unwrap();
        }
    }
    assert_eq!(shown, expected, "{payloads:#?}");
    let again = RuleSet::parse(&rules.to_save_text()).unwrap();
    assert_eq!(again, rules);
}

#[test]
fn chain_lines_create_and_flush() {
    let one = "*nat\n:A - [0:0]\n-A A -j RETURN\nCOMMIT\n";
    check(&[one], "A [-j RETURN]\n");
    let flushed = format!("{one}*nat\n:A - [0:0]\nCOMMIT\n");
    check(&[&flushed], "A []\n");
    let output = "*nat\n-A OUTPUT -j ACCEPT\nCOMMIT\n";
    let declared = "*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n";
    check(&[output, declared], "OUTPUT [-j ACCEPT]\n");
    check(&["# nothing\n\n*nat\nCOMMIT\n"], "");
}

#[test]
fn single_rules_are_inserted_replaced_and_deleted() {
    let two = "*nat\n:A - [0:0]\n-A A -j RETURN\n-A A -j ACCEPT\n";
    for (line, expected) in [
        ("-I A -j DROP", "A [-j DROP; -j RETURN; -j ACCEPT]\n"),
        ("-I A 2 -j DROP", "A [-j RETURN; -j DROP; -j ACCEPT]\n"),
        ("-I A 3 -j DROP", "A [-j RETURN; -j ACCEPT; -j DROP]\n"),
        ("-R A 1 -j DROP", "A [-j DROP; -j ACCEPT]\n"),
        ("-D A 1", "A [-j ACCEPT]\n"),
        ("-D A -j ACCEPT", "A [-j RETURN]\n"),
        ("-F A", "A []\n"),
        ("-F\n-X", ""),
        ("-F A\n-X A", ""),
        ("-F A\n-X A\n-N A", "A []\n"),
        (
            "[5:300] -A A -j DROP",
            "A [-j RETURN; -j ACCEPT; -j DROP]\n",
        ),
        ("-S A\n-Z", "A [-j RETURN; -j ACCEPT]\n"),
        ("-A A", "A [-j RETURN; -j ACCEPT; ]\n"),
    ] {
        check(&[&format!("{two}{line}\nCOMMIT\n")], expected);
    }
}

/// Lines, separated by `; `, and why they are rejected.
const REJECTED: &str = "\
-A A -j NOPE                          | cannot jump to chain `NOPE`: it does not exist or is built in
-A A -j LATER; :LATER - [0:0]         | cannot jump to chain `LATER`: it does not exist or is built in
-A B -j OUTPUT                        | cannot jump to chain `OUTPUT`: it does not exist or is built in
-X B                                  | chain `B` is still referenced
-X B; :A - [0:0]                      | chain `B` is still referenced
-X A                                  | chain `A` is not empty
-X NOPE                               | chain `NOPE` does not exist
-X OUTPUT                             | invalid declaration, policy or deletion of chain `OUTPUT`
-F NOPE                               | chain `NOPE` does not exist
-A NOPE -j DROP                       | chain `NOPE` does not exist
-D A -j DROP                          | no such rule in chain `A`
-D A 2                                | no rule number 2 in chain `A`
-I A 3 -j DROP                        | no rule number 3 in chain `A`
-N A                                  | chain `A` already exists
:ACCEPT - [0:0]                       | invalid declaration, policy or deletion of chain `ACCEPT`
:B2345678901234567890123456789 - [0:0]| chain name `B2345678901234567890123456789` is longer than 28 bytes
-A A -s nowhere                       | `nowhere` is not a valid address
nonsense                              | unknown command `nonsense`
";

#[test]
fn rejected_lines_leave_the_table_unchanged() {
    let before = "*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j B\nCOMMIT\n";
    for row in REJECTED.lines() {
        let (lines, reason) = row.split_once("| ").unwrap();
        let lines = lines.trim_end().replace("; ", "\n");
        let payload = format!("*nat\n:NEW - [0:0]\n{lines}\nCOMMIT\n");
        let expected = format!("line 3 rejected: {reason}\nA [-j B]\nB []\n");
        check(&[before, &payload], &expected);
    }
}

#[test]
fn tables_are_committed_one_by_one() {
    for (payload, expected) in [
        (
            "*nat\n:A - [0:0]\nCOMMIT\n*filter\n-A NOPE -j DROP\nCOMMIT\n",
            "5 rejected: chain `NOPE` does not exist\nA []",
        ),
        ("*nat\n:A - [0:0]\n", "3 rejected: COMMIT expected"),
        (
            "-A OUTPUT -j DROP\n",
            "1 rejected: command outside of a table",
        ),
    ] {
        check(&[payload], &format!("line {expected}\n"));
    }
}

#[test]
fn a_chain_can_be_deleted_after_the_last_jump_to_it() {
    let before = "*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j B\n-A A -g B\nCOMMIT\n";
    for commands in [":A - [0:0]", "-D A -j B\n-D A 1"] {
        let payload = format!("*nat\n{commands}\n-X B\nCOMMIT\n");
        check(&[before, &payload], "A []\n");
    }
}

#[test]
fn rules_of_tables_that_the_proxy_does_not_use_are_counted() {
    let text = "*raw\n:PREROUTING DROP [3:4]\n-A PREROUTING -j CT --notrack\nCOMMIT\n\
                *rawpost\n-A POSTROUTING -j RAWSNAT --to-source 192.0.2.1\nCOMMIT\n";
    let rules = RuleSet::parse(text).unwrap();
    let unknown: Vec<_> = rules.unknown_tables().collect();
    assert_eq!(unknown, [("rawpost", 1)]);
    assert_eq!(rules.rule_count_elsewhere(), 2);
    let printed = "*raw\n:OUTPUT ACCEPT [0:0]\n:PREROUTING DROP [0:0]\n\
                   -A PREROUTING -j CT --notrack\nCOMMIT\n";
    assert_eq!(rules.to_save_text(), printed);
}

#[test]
fn a_save_may_have_unsupported_targets() {
    let rules = RuleSet::parse("*filter\n:INPUT DROP [1:2]\n-A INPUT -j TARPIT\nCOMMIT\n").unwrap();
    assert_eq!(rules.rule_count(Table::Filter), 1);
}

#[test]
fn an_applied_payload_equals_the_save_of_both_backends() {
    for (payload, saves) in [
        (
            include_str!("saves/v4.payload"),
            [
                include_str!("saves/v4.nft"),
                include_str!("saves/v4.legacy"),
            ],
        ),
        (
            include_str!("saves/v6.payload"),
            [
                include_str!("saves/v6.nft"),
                include_str!("saves/v6.legacy"),
            ],
        ),
    ] {
        let mut applied = RuleSet::default();
        applied.apply(payload).unwrap();
        for save in saves {
            let saved = RuleSet::parse(save).unwrap();
            let difference = Comparison::STRICT.compare(&applied, &saved);
            assert!(difference.is_empty(), "{difference}");
            assert_eq!(applied, saved);
        }
    }
}

#[test]
fn a_dump_may_delete_chains_that_only_the_kernel_had() {
    let text =
        "*nat\n:KUBE-SERVICES - [0:0]\n-X KUBE-SVC-OLD\n-A KUBE-SERVICES -j RETURN\nCOMMIT\n";
    let rules = RuleSet::parse(text).unwrap();
    assert_eq!(rules.rule_count(Table::Nat), 1);
    // The kernel rejects it.
    assert!(RuleSet::default().apply(text).is_err());
}

#[test]
fn a_payload_of_a_sync_is_read_as_a_dump() {
    let text = "*nat\n:A - [0:0]\n:B - [0:0]\n-N C\n-P OUTPUT DROP\n-A A -j B\n-I A 2 -j C\n\
                -I A -j RETURN\n-A B -j RETURN\n-F B\n-A C -j ACCEPT\n-X C\nCOMMIT\n";
    let printed = "*nat\n:A - [0:0]\n:B - [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT DROP [0:0]\n\
                   :POSTROUTING ACCEPT [0:0]\n:PREROUTING ACCEPT [0:0]\n\
                   -A A -j RETURN\n-A A -j B\n-A A -j C\nCOMMIT\n";
    assert_eq!(RuleSet::parse(text).unwrap().to_save_text(), printed);
    for (line, reason) in [
        ("-I A 2 -j DROP", "unexpected `2`"),
        ("-A NOPE -j DROP", "chain `NOPE` does not exist"),
        ("-D A 1", "unknown command `-D`"),
        (
            "-X OUTPUT",
            "invalid declaration, policy or deletion of chain `OUTPUT`",
        ),
    ] {
        let error = RuleSet::parse(&format!("*nat\n:A - [0:0]\n{line}\nCOMMIT\n")).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot read line 3: {reason}"));
    }
}

#[test]
fn rules_with_replaced_quotes_or_addresses_are_kept_as_text() {
    for rule in [
        "-m comment --comment \u{201c}shop/web\u{201d} -j ACCEPT",
        "-m comment --comment &quot;shop/web&quot; -j ACCEPT",
        "-p tcp -m tcp -j DNAT --to-destination x.x.x.x:80",
        "-p tcp -m tcp -j DNAT --to-destination <node>:80",
    ] {
        let text = format!("*nat\n-A OUTPUT {rule}\nCOMMIT\n");
        let rules = RuleSet::parse(&text).unwrap();
        assert_eq!(rules.unparsed_rules().count(), 1, "{rule}");
    }
    let ranges = "*nat\n-A OUTPUT -p tcp -j DNAT --to-destination 10.0.0.1-10.0.0.9:80-90\n\
                  -A OUTPUT -m comment --comment \"\u{201c}a\u{201d}\" -j ACCEPT\nCOMMIT\n";
    assert_eq!(RuleSet::parse(ranges).unwrap().unparsed_rules().count(), 0);
}

/// The table is longer than what a thread parses at a time.
#[test]
fn a_text_in_pieces_is_read_as_a_whole_one() {
    let rules = (0..5000).map(|number| format!("-A A -m comment --comment {number} -j RETURN"));
    let head = ["# head", "", "*nat", ":A - [0:0]"].map(str::to_owned);
    let lines: Vec<String> = head.into_iter().chain(rules).collect();
    let lines = [&lines[..], &["COMMIT".to_owned()]].concat();
    let whole = RuleSet::parse(&(lines.join("\n") + "\n")).unwrap();
    assert_eq!(whole.rules_of(Table::Nat, "A").len(), 5000);
    for size in [1, 3, 1000] {
        let pieces = lines.chunks(size).map(|lines| lines.join("\n") + "\n");
        assert_eq!(RuleSet::parse_pieces(pieces), Ok(whole.clone()), "{size}");
    }
    assert_eq!(
        RuleSet::parse_pieces(std::iter::empty::<&str>()),
        Ok(RuleSet::default())
    );
}
