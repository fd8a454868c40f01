//! Classification of what the real binaries print about invalid payloads (1.8.9, both backends and
//! families; older forms from their sources), and the extent of merged changes.

use super::*;

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

#[test]
fn nft_reports_the_line_and_usually_the_reason() {
    check(
        2,
        "iptables-nft-restore v1.8.9 (nf_tables): Chain 'NOSUCH' does not exist\n\
         Error occurred at line: 4\n\
         Try `iptables-nft-restore -h' or 'iptables-nft-restore --help' for more information.\n",
        "4: Chain 'NOSUCH' does not exist",
    );
    check(
        1,
        "ip6tables-nft-restore: line 2 failed: No chain/target/match by that name.\n",
        "2: No chain/target/match by that name.",
    );
    check(
        1,
        "iptables-nft-restore: line 3 failed: Bad rule (does a matching rule exist in that chain?).\n",
        "3: Bad rule (does a matching rule exist in that chain?).",
    );
    check(
        4,
        "iptables-nft-restore v1.8.9 (nf_tables): \n\
         line 8: RULE_APPEND failed (Invalid argument): rule in chain KUBE-N\n\
         line 9: CHAIN_DEL failed (Device or resource busy): chain KUBE-M\n",
        "8: RULE_APPEND failed (Invalid argument): rule in chain KUBE-N",
    );
    check(
        4,
        "Warning: Extension sctp revision 0 not supported, missing kernel module?\n\
         iptables-nft-restore v1.8.9 (nf_tables): \n\
         line 3: RULE_APPEND failed (No such file or directory): rule in chain KUBE-N\n",
        "3: RULE_APPEND failed (No such file or directory): rule in chain KUBE-N; Warning: \
         Extension sctp revision 0 not supported, missing kernel module?",
    );
    check(
        4,
        "iptables-restore v1.8.4 (nf_tables): \n\
         line 12: RULE_INSERT failed (Too many links): rule in chain INPUT\n",
        "12: RULE_INSERT failed (Too many links): rule in chain INPUT",
    );
    check(
        2,
        "iptables-nft-restore v1.8.9 (nf_tables): iptables-nft-restore: line 1 table name 'nosuch' \
         invalid\nError occurred at line: 1\n",
        "1: iptables-nft-restore: line 1 table name 'nosuch' invalid",
    );
}

#[test]
fn legacy_reports_the_line_and_rarely_the_reason() {
    check(
        2,
        "iptables-restore v1.8.9 (legacy): Couldn't load target `NOSUCH':No such file or directory\n\
         \n\
         Error occurred at line: 3\n\
         Try `iptables-restore -h' or 'iptables-restore --help' for more information.\n",
        "3: Couldn't load target `NOSUCH':No such file or directory",
    );
    check(1, "iptables-restore: line 2 failed\n", "2: no reason given");
    check(
        1,
        "ip6tables-restore: line 7 failed\n",
        "7: no reason given",
    );
    check(
        2,
        "ip6tables-restore v1.8.9 (legacy): host/network `10.0.0.0.0' not found\n\
         Error occurred at line: 3\n",
        "3: host/network `10.0.0.0.0' not found",
    );
    check(
        2,
        "iptables-restore v1.8.9 (legacy): \n\
         The \"nat\" table is not intended for filtering, the use of DROP is therefore inhibited.\n\
         \n\n\
         Error occurred at line: 3\n",
        "3: The \"nat\" table is not intended for filtering, the use of DROP is therefore inhibited.",
    );
    check(
        2,
        "Bad argument `hello'\nError occurred at line: 2\n",
        "2: Bad argument `hello'",
    );
    check(
        1,
        "iptables-restore: COMMIT expected at line 4\n",
        "4: COMMIT expected",
    );
}

#[test]
fn a_held_lock_is_not_a_rejected_payload() {
    check(
        4,
        "Can't lock /run/xtables.lock: Resource temporarily unavailable\n\
         Another app is currently holding the xtables lock. Stopped waiting after 5s.\n",
        "locked 5s",
    );
    check(
        4,
        "Another app is currently holding the xtables lock. Perhaps you want to use the -w option?\n",
        "locked 0ns",
    );
}

#[test]
fn an_error_without_a_line_is_a_failure() {
    check(
        4,
        "iptables-nft-restore v1.8.9 (nf_tables): Could not fetch rule set generation id: \
         Permission denied (you must be root)\n",
        "failed 4",
    );
    check(
        4,
        "Fatal: can't open lock file /run/xtables.lock: Permission denied\n",
        "failed 4",
    );
    check(1, "", "failed 1");
    check(1, "line of thought\nin line 3 of a poem", "failed 1");
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
