//! Classification of the real binaries' output (1.8.9 and 1.8.11, both backends) about missing
//! chains and rules, and about third-party rules that cannot be printed.

use std::path::Path;

use super::block_on;
use super::scripts::{LONG, exec, nft, script};
use crate::cases::cases;
use crate::host::{Exec, Iptables, ListedChains, ProgramExit, RunError};
use crate::rules::Table;

/// Lists `KUBE-FORWARD` and `FORWARD` with a program that has this stdout, stderr and status.
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
        Ok(ListedChains::Truncated {
            printed,
            chain,
            cause,
        }) => {
            assert!(matches!(cause, RunError::Unprintable { .. }), "{cause}");
            let lines = printed.lines().count();
            let cause = cause.to_string();
            let (_, reason) = cause.split_once(" rules: ").unwrap();
            format!("{chain} after {lines} lines: {reason}")
        }
        Err(error) => format!("error: {}", error.to_string().lines().next().unwrap()),
    }
}

/// Checks cases `STATUS => RESULT` of a backend by what the program prints: lines of stdout begin
/// with `>`, and one that is cut off ends in `$`.
#[track_caller]
fn check(is_nft: bool, table: &str) {
    let folder = tempfile::tempdir().unwrap();
    let exec = if is_nft {
        nft(folder.path())
    } else {
        exec(folder.path(), LONG)
    };
    for (case, text) in cases(table) {
        let (status, expected) = case.split_once(" => ").unwrap();
        let (mut stdout, mut stderr) = (String::new(), String::new());
        for line in text.lines() {
            match line.strip_prefix("> ") {
                Some(line) => stdout.extend([line, "\n"]),
                None => stderr.extend([line, "\n"]),
            }
        }
        let printed = (&*stdout.replace("$\n", ""), &*stderr);
        let found = listed(&exec, folder.path(), status.parse().unwrap(), printed);
        assert_eq!(found.trim_end(), expected, "{stderr}");
    }
}

#[test]
fn a_chain_is_missing_only_if_the_program_reports_it() {
    // As 1.8.11 prints it, and 1.8.9, where the kernel does not have this chain.
    check(
        true,
        "
0 => whole: -N X
    > -N X
1 => missing
    iptables-nft-restore: line 2 failed: No chain/target/match by that name.
1 => missing
    # Warning: iptables-legacy tables present, use iptables-legacy to see them
    iptables-nft-restore v1.8.9 (nf_tables): chain `KUBE-FORWARD' in table `filter' is incompatible, use 'nft' tool.
",
    );
    check(
        false,
        "
0 => whole: -N X
    > -N X
1 => missing
    iptables-restore: line 2 failed
1 => missing
    > -N KUBE-FORWARD
    > -A KUBE-FORWARD -j RETURN
    > -P FORWARD ACCEPT
    iptables-restore: line 4 failed
",
    );
}

/// 1.8.11 can print the first rule, and not the second.
#[test]
fn an_unprintable_rule_truncates_a_listing() {
    check(
        true,
        "
3 => FORWARD after 3 lines: Error: meta sreg key not supported
    > -N KUBE-FORWARD
    > -A KUBE-FORWARD -j RETURN
    > -P FORWARD ACCEPT
    Error: meta sreg key not supported
    iptables-nft-restore v1.8.9 (nf_tables): Parsing nftables rule failed
    Perhaps iptables-nft-restore or your kernel needs to be upgraded.
3 => KUBE-FORWARD after 1 lines: Error: meta sreg is not an immediate
    > -N KUBE-FORWARD
    Error: meta sreg is not an immediate
    iptables-nft-restore v1.8.11 (nf_tables): Parsing nftables rule failed
    Perhaps iptables-nft-restore or your kernel needs to be upgraded.
3 => KUBE-FORWARD after 1 lines: Parsing nftables rule failed
    > -N KUBE-FORWARD
    iptables-nft-restore v1.8.9 (nf_tables): Parsing nftables rule failed
    Perhaps iptables-nft-restore or your kernel needs to be upgraded.
1 => FORWARD after 2 lines: iptables-nft-restore v1.8.11 (nf_tables): chain `FORWARD' in table `filter' is incompatible, use 'nft' tool.
    > -N KUBE-FORWARD
    > -A KUBE-FORWARD -j RETURN
    iptables-nft-restore v1.8.11 (nf_tables): chain `FORWARD' in table `filter' is incompatible, use 'nft' tool.
",
    );
}

#[test]
fn a_missing_extension_truncates_a_listing_on_legacy() {
    check(
        false,
        "
1 => FORWARD after 3 lines: Can't find library for match `dscp'
    > -N KUBE-FORWARD
    > -A KUBE-FORWARD -j RETURN
    > -P FORWARD ACCEPT
    > -A FORWARD$
    Can't find library for match `dscp'
1 => KUBE-FORWARD after 1 lines: Can't find library for target `TOS'
    > -N KUBE-FORWARD
    > -A KUBE-FORWARD$
    Can't find library for target `TOS'
",
    );
}

/// An unknown failure must not be taken for a flush.
#[test]
fn a_failed_listing_does_not_mean_a_missing_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let list = |body: &str| {
        script(path, "iptables-restore", &format!("cat >/dev/null; {body}"));
        block_on(exec(path, LONG).list(Table::Nat, &["PREROUTING", "KUBE-SERVICES"]))
    };
    let lock = "echo 'Another app is currently holding the xtables lock.' >&2; exit 4";
    let held = list(lock).unwrap_err();
    assert!(held.is_transient(), "{held}");
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
fn an_unprintable_table_is_not_taken_for_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let nft_messages = [
        "iptables v1.8.9: table `nat' is incompatible, use 'nft' tool.",
        "Error: meta sreg key not supported\niptables v1.8.9 (nf_tables): Parsing nftables rule \
         failed",
    ];
    for (message, status) in nft_messages.into_iter().zip([1, 3]) {
        std::fs::write(path.join("message"), message).unwrap();
        let body = format!("cat {}/message >&2; exit {status}", path.display());
        script(path, "iptables", &body);
        let error = block_on(nft(path).saved(Table::Nat)).unwrap_err();
        assert!(matches!(error, RunError::Unprintable { .. }), "{error}");
        assert!(!error.is_transient());
        // A rule is only found in an existing table.
        block_on(nft(path).binaries().probe()).unwrap();
        // The kernel does not have the chain of this rule either.
        let has = block_on(nft(path).has(Table::Nat, "OUTPUT", "-j ACCEPT"));
        assert!(matches!(has, Err(RunError::Unprintable { .. })), "{has:?}");
    }
    let message = "Can't find library for match \\`dscp'";
    let body = format!("echo \"{message}\" >&2; exit 1");
    script(path, "iptables-save", &body);
    script(path, "iptables", &body);
    let error = block_on(exec(path, LONG).saved(Table::Nat)).unwrap_err();
    assert!(matches!(error, RunError::Unprintable { .. }), "{error}");
    block_on(exec(path, LONG).binaries().probe()).unwrap();
}

#[test]
fn a_killed_program_has_not_reported_an_unprintable_rule() {
    for (exit, is_unprintable) in [
        (ProgramExit::Exited(3), true),
        (ProgramExit::Signaled(9), false),
    ] {
        let failed = RunError::Failed {
            program: "iptables".to_owned(),
            exit,
            stderr: "Parsing nftables rule failed".to_owned(),
        };
        let classified = failed.classified();
        let found = matches!(classified, RunError::Unprintable { .. });
        assert_eq!(found, is_unprintable, "{classified}");
    }
}
