//! Output of the real programs when chains or rules are missing, and when a third-party rule
//! cannot be printed (1.8.9 and 1.8.11, both backends), and how it is read.

use std::path::Path;

use super::scripts::{LONG, exec, nft, script};
use super::{block_on, turn};
use crate::host::{Ending, Exec, Iptables, ListedChains, RunError};
use crate::rules::Table;

const BEFORE: &str = "-N KUBE-FORWARD\n-A KUBE-FORWARD -j RETURN\n-P FORWARD ACCEPT\n";

/// Answer about `KUBE-FORWARD` and `FORWARD` of a program that prints this to stdout and stderr and
/// ends with this status.
fn listed(exec: &Exec, folder: &Path, status: i32, (stdout, stderr): (&str, &str)) -> String {
    std::fs::write(folder.join("stdout"), stdout).unwrap();
    std::fs::write(folder.join("stderr"), stderr).unwrap();
    let body = format!(
        "cat >/dev/null; cat {0}/stdout; cat {0}/stderr >&2; exit {status}",
        folder.display()
    );
    script(folder, "iptables-restore", &body);
    match block_on(exec.list(Table::Filter, &["KUBE-FORWARD", "FORWARD"])) {
        Ok(ListedChains::Whole(text)) => format!("whole: {text}"),
        Ok(ListedChains::Missing) => "missing".to_owned(),
        Ok(ListedChains::Cut {
            printed,
            chain,
            cause,
        }) => {
            assert!(matches!(cause, RunError::Unprintable { .. }), "{cause}");
            let lines = printed.lines().count();
            let cause = cause.to_string();
            let (_, said) = cause.split_once(" rules: ").unwrap();
            format!("{chain} behind {lines} lines: {said}")
        }
        Err(error) => format!("no answer: {}", error.to_string().lines().next().unwrap()),
    }
}

/// All that is known to be printed by either backend.
#[track_caller]
fn check(is_nft: bool, cases: &[(i32, &str, &str, &str)]) {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let exec = if is_nft {
        nft(folder.path())
    } else {
        exec(folder.path(), LONG)
    };
    for (status, stdout, stderr, expected) in cases {
        let found = listed(&exec, folder.path(), *status, (stdout, stderr));
        assert_eq!(found, *expected, "{stderr}");
    }
}

#[test]
fn only_a_chain_that_is_said_to_be_missing_is() {
    check(
        true,
        &[
            (0, "-N X\n", "", "whole: -N X\n"),
            // 1.8.11
            (
                1,
                "",
                "iptables-nft-restore: line 2 failed: No chain/target/match by that name.\n",
                "missing",
            ),
            // 1.8.9; the kernel, asked for this chain, says that it is not there.
            (
                1,
                "",
                "# Warning: iptables-legacy tables present, use iptables-legacy to see them\n\
                 iptables-nft-restore v1.8.9 (nf_tables): chain `KUBE-FORWARD' in table `filter' \
                 is incompatible, use 'nft' tool.\n",
                "missing",
            ),
        ],
    );
    check(
        false,
        &[
            (0, "-N X\n", "", "whole: -N X\n"),
            // 1.8.9 and 1.8.11
            (1, "", "iptables-restore: line 2 failed\n", "missing"),
            (1, BEFORE, "iptables-restore: line 4 failed\n", "missing"),
        ],
    );
}

#[test]
fn a_rule_that_cannot_be_printed_hides_only_what_is_behind_it() {
    let parsing = |error: &str| {
        format!(
            "{error}iptables-nft-restore v1.8.9 (nf_tables): Parsing nftables rule failed\n\
             Perhaps iptables-nft-restore or your kernel needs to be upgraded.\n"
        )
    };
    let (sreg, map, lookup, bare) = (
        parsing("Error: meta sreg key not supported\n"),
        // 1.8.11, which can print the one before.
        parsing("Error: meta sreg is not an immediate\n").replace("v1.8.9", "v1.8.11"),
        parsing("Error: match extension not found\n"),
        parsing(""),
    );
    let incompatible = "iptables-nft-restore v1.8.11 (nf_tables): chain `FORWARD' in table \
                        `filter' is incompatible, use 'nft' tool.\n";
    check(
        true,
        &[
            (
                3,
                BEFORE,
                &sreg,
                "FORWARD behind 3 lines: Error: meta sreg key not supported",
            ),
            (
                3,
                "-N KUBE-FORWARD\n",
                &map,
                "KUBE-FORWARD behind 1 lines: Error: meta sreg is not an immediate",
            ),
            (
                3,
                BEFORE,
                &lookup,
                "FORWARD behind 3 lines: Error: match extension not found",
            ),
            (
                3,
                BEFORE,
                &bare,
                "FORWARD behind 3 lines: Parsing nftables rule failed",
            ),
            (
                1,
                "-N KUBE-FORWARD\n-A KUBE-FORWARD -j RETURN\n",
                incompatible,
                "FORWARD behind 2 lines: iptables-nft-restore v1.8.11 (nf_tables): chain \
                 `FORWARD' in table `filter' is incompatible, use 'nft' tool.",
            ),
        ],
    );
}

#[test]
fn an_extension_that_is_missing_hides_only_what_is_behind_it_on_legacy() {
    check(
        false,
        &[
            (
                1,
                "-N KUBE-FORWARD\n-A KUBE-FORWARD -j RETURN\n-P FORWARD ACCEPT\n-A FORWARD",
                "Can't find library for match `dscp'\n",
                "FORWARD behind 3 lines: Can't find library for match `dscp'",
            ),
            (
                1,
                "-N KUBE-FORWARD\n-A KUBE-FORWARD",
                "Can't find library for target `TOS'\n",
                "KUBE-FORWARD behind 1 lines: Can't find library for target `TOS'",
            ),
        ],
    );
}

/// A failure that does not name a missing chain must not be taken for a flush.
#[test]
fn a_check_that_fails_finds_nothing_missing() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let list = |body: &str| {
        script(path, "iptables-restore", &format!("cat >/dev/null; {body}"));
        block_on(exec(path, LONG).list(Table::Nat, &["PREROUTING", "KUBE-SERVICES"]))
    };
    let lock = "echo 'Another app is currently holding the xtables lock.' >&2; exit 4";
    let held = list(lock).unwrap_err();
    assert!(held.is_passing(), "{held}");
    let unknown = "echo 'iptables-restore: out of luck' >&2; exit 1";
    for failure in [unknown, "exit 1", "exit 2", "exit 3", "kill -9 $$"] {
        let error = list(failure).unwrap_err();
        assert!(matches!(error, RunError::Failed { .. }), "{failure}");
    }
    std::fs::remove_file(path.join("iptables-restore")).unwrap();
    let gone = block_on(exec(path, LONG).list(Table::Nat, &["PREROUTING"]));
    assert!(matches!(gone, Err(RunError::Spawn { .. })), "{gone:?}");
}

#[test]
fn a_table_that_cannot_be_printed_is_not_taken_for_an_empty_one() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let nft_words = [
        "iptables v1.8.9: table `nat' is incompatible, use 'nft' tool.",
        "Error: meta sreg key not supported\niptables v1.8.9 (nf_tables): Parsing nftables rule \
         failed",
    ];
    for (words, status) in nft_words.into_iter().zip([1, 3]) {
        std::fs::write(path.join("words"), words).unwrap();
        let body = format!("cat {}/words >&2; exit {status}", path.display());
        script(path, "iptables", &body);
        let error = block_on(nft(path).saved(Table::Nat)).unwrap_err();
        assert!(matches!(error, RunError::Unprintable { .. }), "{error}");
        assert!(!error.is_passing());
        // Where a rule is found, the table is.
        block_on(nft(path).programs().probe()).unwrap();
        // A rule of which the kernel knows nothing either.
        let asked = block_on(nft(path).has(Table::Nat, "OUTPUT", "-j ACCEPT"));
        assert!(
            matches!(asked, Err(RunError::Unprintable { .. })),
            "{asked:?}"
        );
    }
    let words = "Can't find library for match \\`dscp'";
    let body = format!("echo \"{words}\" >&2; exit 1");
    script(path, "iptables-save", &body);
    script(path, "iptables", &body);
    let error = block_on(exec(path, LONG).saved(Table::Nat)).unwrap_err();
    assert!(matches!(error, RunError::Unprintable { .. }), "{error}");
    block_on(exec(path, LONG).programs().probe()).unwrap();
}

#[test]
fn a_program_that_is_killed_says_nothing_of_a_rule() {
    for (ending, is_unprintable) in [(Ending::Exited(3), true), (Ending::Signaled(9), false)] {
        let failed = RunError::Failed {
            program: "iptables".to_owned(),
            ending,
            stderr: "Parsing nftables rule failed".to_owned(),
        };
        let explained = failed.explained();
        let found = matches!(explained, RunError::Unprintable { .. });
        assert_eq!(found, is_unprintable, "{explained}");
    }
}
