//! Classification of what the real binaries print about invalid payloads (1.8.9, both backends and
//! families; older forms from their sources), and the extent of merged changes.

use super::*;
use crate::cases::cases;

#[track_caller]
fn check(status: i32, stderr: &str, expected: &str) {
    let shown = match restore_failure(status, stderr.to_owned()) {
        RestoreError::Rejected { line, reason } => format!("{line}: {reason}"),
        RestoreError::Locked { waited, .. } => format!("locked {waited:?}"),
        RestoreError::Failed {
            exit: ProgramExit::Exited(status),
            ..
        } => format!("failed {status}"),
        other => format!("{other:?}"),
    };
    assert_eq!(shown, expected, "{stderr}");
}

/// Checks cases `STATUS => RESULT` by what the program prints; a line that ends in a blank ends in
/// `$` here.
#[track_caller]
fn check_all(table: &str) {
    for (case, stderr) in cases(table) {
        let (status, expected) = case.split_once(" => ").unwrap();
        check(
            status.parse().unwrap(),
            &(stderr.replace('$', "") + "\n"),
            expected,
        );
    }
}

#[test]
fn nft_reports_the_line_and_usually_the_reason() {
    check_all(
        "
2 => 4: Chain 'NOSUCH' does not exist
    iptables-nft-restore v1.8.9 (nf_tables): Chain 'NOSUCH' does not exist
    Error occurred at line: 4
    Try `iptables-nft-restore -h' or 'iptables-nft-restore --help' for more information.
1 => 2: No chain/target/match by that name.
    ip6tables-nft-restore: line 2 failed: No chain/target/match by that name.
1 => 3: Bad rule (does a matching rule exist in that chain?).
    iptables-nft-restore: line 3 failed: Bad rule (does a matching rule exist in that chain?).
4 => 8: RULE_APPEND failed (Invalid argument): rule in chain KUBE-N
    iptables-nft-restore v1.8.9 (nf_tables): $
    line 8: RULE_APPEND failed (Invalid argument): rule in chain KUBE-N
    line 9: CHAIN_DEL failed (Device or resource busy): chain KUBE-M
4 => 3: RULE_APPEND failed (No such file or directory): rule in chain KUBE-N; Warning: Extension sctp revision 0 not supported, missing kernel module?
    Warning: Extension sctp revision 0 not supported, missing kernel module?
    iptables-nft-restore v1.8.9 (nf_tables): $
    line 3: RULE_APPEND failed (No such file or directory): rule in chain KUBE-N
4 => 12: RULE_INSERT failed (Too many links): rule in chain INPUT
    iptables-restore v1.8.4 (nf_tables): $
    line 12: RULE_INSERT failed (Too many links): rule in chain INPUT
2 => 1: iptables-nft-restore: line 1 table name 'nosuch' invalid
    iptables-nft-restore v1.8.9 (nf_tables): iptables-nft-restore: line 1 table name 'nosuch' invalid
    Error occurred at line: 1
",
    );
}

#[test]
fn legacy_reports_the_line_and_rarely_the_reason() {
    check_all(
        r#"
2 => 3: Couldn't load target `NOSUCH':No such file or directory
    iptables-restore v1.8.9 (legacy): Couldn't load target `NOSUCH':No such file or directory
    $
    Error occurred at line: 3
    Try `iptables-restore -h' or 'iptables-restore --help' for more information.
1 => 2: no reason given
    iptables-restore: line 2 failed
1 => 7: no reason given
    ip6tables-restore: line 7 failed
2 => 3: host/network `10.0.0.0.0' not found
    ip6tables-restore v1.8.9 (legacy): host/network `10.0.0.0.0' not found
    Error occurred at line: 3
2 => 3: The "nat" table is not intended for filtering, the use of DROP is therefore inhibited.
    iptables-restore v1.8.9 (legacy): $
    The "nat" table is not intended for filtering, the use of DROP is therefore inhibited.
    $
    $
    Error occurred at line: 3
2 => 2: Bad argument `hello'
    Bad argument `hello'
    Error occurred at line: 2
1 => 4: COMMIT expected
    iptables-restore: COMMIT expected at line 4
"#,
    );
}

#[test]
fn a_held_lock_is_not_a_rejected_payload() {
    check_all(
        "
4 => locked 5s
    Can't lock /run/xtables.lock: Resource temporarily unavailable
    Another app is currently holding the xtables lock. Stopped waiting after 5s.
4 => locked 0ns
    Another app is currently holding the xtables lock. Perhaps you want to use the -w option?
",
    );
}

#[test]
fn an_error_without_a_line_is_a_failure() {
    check(1, "", "failed 1");
    check_all(
        "
4 => failed 4
    iptables-nft-restore v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)
4 => failed 4
    Fatal: can't open lock file /run/xtables.lock: Permission denied
1 => failed 1
    line of thought
    in line 3 of a poem
",
    );
}

#[test]
fn a_flush_of_many_chains_has_an_unknown_extent() {
    let mut change = ForeignChange::default();
    for number in 0..MOST_CHAINS {
        change.touch(Table::Nat, &format!("KUBE-SEP-{number}"));
    }
    change.touch(Table::Nat, "KUBE-SEP-0");
    assert_eq!(change.chains.count_named(Table::Nat), MOST_CHAINS);
    assert!(change.is_exact());
    change.touch(Table::Nat, "KUBE-SERVICES");
    assert_eq!(change.chains, ChainSet::of_tables([Table::Nat]));
    assert!(!change.is_exact());
    change.touch(Table::Nat, "KUBE-NODEPORTS");
    assert_eq!(change.chains, ChainSet::of_tables([Table::Nat]));
}

#[test]
fn merged_changes_keep_the_larger_extent_and_the_less_certain_source() {
    let mut change = ForeignChange::default();
    change.touch(Table::Filter, "KUBE-FORWARD");
    change.by("nft");
    let lost = ForeignChange::unknown(ChangeSource::LostEvents, [Table::Nat]);
    change.merge(&lost);
    assert_eq!(change.source, ChangeSource::LostEvents);
    assert!(change.chains.has_table(Table::Nat));
    assert_eq!(change.programs.len(), 1);
    assert!(!change.is_empty());
    assert!(ForeignChange::default().is_empty());
}
