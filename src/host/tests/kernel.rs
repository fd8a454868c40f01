//! The real binaries with a real kernel, in network namespaces made for the test.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;
use tokio_util::sync::CancellationToken;

use crate::host::netlink::nfacct::exists;
use crate::host::{
    AddressWatch, BackendChoice, Binaries, ChangeSource, CounterError, DryRun, Exec, ForeignChange,
    Iptables, RestoreError, counted_packets, excerpt,
};
use crate::net::IpFamily;
use crate::rules::{Backend, ChainSet, Table, Text};

use super::block_on;
use super::scripts::{LONG, exec, script};

/// Runs `test` for both backends and families at once, each in a fresh network namespace.
fn in_namespace(test: fn(Exec)) {
    if !geteuid().is_root() {
        eprintln!("skipped: a network namespace needs root");
        return;
    }
    thread::scope(|scope| {
        for choice in [BackendChoice::Nft, BackendChoice::Legacy] {
            for family in IpFamily::ALL {
                scope.spawn(move || {
                    unshare(CloneFlags::CLONE_NEWNET).unwrap();
                    match block_on(Binaries::discover(choice, family)) {
                        Ok(programs) => test(Exec::new(programs)),
                        Err(error) => eprintln!("skipped: {error}"),
                    }
                });
            }
        }
    });
}

#[test]
fn both_tables_of_a_payload_are_applied_and_saved() {
    in_namespace(|exec| {
        let mut payload = Text::new(
            "*filter\n:KUBE-A - [0:0]\n-A KUBE-A -j DROP\nCOMMIT\n\
             *nat\n:KUBE-B - [0:0]\n-A KUBE-B -j RETURN\nCOMMIT\n",
        );
        block_on(async {
            exec.binaries().probe().await.unwrap();
            exec.restore(&mut payload, None).await.unwrap();
            let filter = exec.saved(Table::Filter).await.unwrap();
            assert!(filter.contains("-A KUBE-A -j DROP\n"), "{filter}");
            let nat = exec.saved(Table::Nat).await.unwrap();
            assert!(nat.contains("-A KUBE-B -j RETURN\n"), "{nat}");
            assert!(!nat.contains("KUBE-A"), "{nat}");
        });
    });
}

#[test]
fn rejected_lines_are_found() {
    in_namespace(|exec| {
        let rejected = |bad: &str| {
            let lines = format!("*filter\n:KUBE-A - [0:0]\n-A KUBE-A -j DROP\n{bad}\nCOMMIT\n");
            match block_on(exec.restore(&mut Text::new(&lines), None)) {
                Err(RestoreError::Rejected { line, .. }) => {
                    // Either backend may reject the line only at the commit.
                    assert!(line == 4 || line == 5, "line {line} for {bad}");
                    let shown = excerpt(&mut Text::new(&lines), line).to_string();
                    assert!(shown.contains(bad), "{shown}");
                }
                other => panic!("{other:?} for {bad}"),
            }
            let saved = block_on(exec.saved(Table::Filter)).unwrap();
            assert!(!saved.contains("KUBE-A"), "half applied: {saved}");
        };
        rejected("-A KUBE-A -j NOSUCH");
        rejected("-A KUBE-NONE -j DROP");
        rejected("-A KUBE-A --no-such-option 3 -j DROP");
        rejected("-A KUBE-A -p tcp --dport 99999 -j DROP");
        rejected("-A KUBE-A -m nosuchmatch -j DROP");
        rejected("-D KUBE-A -j ACCEPT");
        rejected("-X KUBE-NONE");
        rejected("-A KUBE-A -j MASQUERADE");
        rejected("hello");
    });
}

/// `-C` of nft stops at a rule that it cannot parse; then the kernel is queried.
#[test]
fn a_jump_after_an_unprintable_rule_is_found() {
    in_namespace(|exec| {
        let lines = "*filter\n:KUBE-A - [0:0]\n:KUBE-B - [0:0]\n\
                     -A FORWARD -m comment --comment \"a b\" -j KUBE-A\nCOMMIT\n";
        block_on(exec.restore(&mut Text::new(lines), None)).unwrap();
        let has = |rule| block_on(exec.has(Table::Filter, "FORWARD", rule));
        let is_nft = exec.binaries().backend() == Backend::Nft;
        for is_hidden in [false, is_nft] {
            if is_hidden {
                let family = match exec.binaries().family {
                    IpFamily::V4 => "ip",
                    IpFamily::V6 => "ip6",
                };
                let rule = "filter FORWARD ct state new accept";
                run(&format!("nft insert rule {family} {rule}"));
            }
            assert!(has("-m comment --comment \"a b\" -j KUBE-A").unwrap());
            assert!(!has("-j KUBE-B").unwrap());
            assert!(!has("-j KUBE-C").unwrap());
        }
    });
}

#[expect(
    clippy::disallowed_methods,
    reason = "programs that make such rules and addresses"
)]
fn run(line: &str) {
    let mut words = line.split(' ');
    let mut program = std::process::Command::new(words.next().unwrap());
    assert!(program.args(words).status().unwrap().success(), "{line}");
}

#[test]
fn added_and_deleted_addresses_are_noticed() {
    in_namespace(|exec| {
        let family = exec.binaries().family;
        let address = match family {
            IpFamily::V4 => "192.0.2.1/32",
            IpFamily::V6 => "2001:db8::1/128",
        };
        block_on(async {
            let watch = AddressWatch::start(family).unwrap();
            let other = AddressWatch::start(family.other()).unwrap();
            let change = async |watch: &AddressWatch, wait| {
                let wait = Duration::from_millis(wait);
                tokio::time::timeout(wait, watch.changed()).await.is_ok()
            };
            assert!(!change(&watch, 100).await);
            for action in ["add", "delete"] {
                run(&format!("ip address {action} {address} dev lo"));
                assert!(change(&watch, 5000).await, "{action} {address}");
                // The kernel may report the end of duplicate address detection as well.
                while change(&watch, 200).await {}
            }
            assert!(!change(&other, 100).await);
            // More notifications than fit into the buffer.
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("batch");
            let [add, delete] =
                ["add", "delete"].map(|action| format!("address {action} {address} dev lo\n"));
            std::fs::write(&path, [add, delete].concat().repeat(2000)).unwrap();
            run(&format!("ip -batch {}", path.display()));
            assert!(change(&watch, 5000).await);
            while change(&watch, 200).await {}
            assert!(!change(&watch, 200).await);
        });
    });
}

#[test]
fn counters_are_created_once_and_rules_can_name_them() {
    in_namespace(|exec| {
        let dry_run = DryRun::new(IpFamily::V4, exec.clone(), CancellationToken::new());
        block_on(dry_run.make_counter("shop")).unwrap();
        assert_eq!((exists("shop"), counted_packets("shop")), (Ok(false), None));
        for _ in 0..2 {
            block_on(exec.make_counter("shop")).unwrap();
            assert_eq!(
                (exists("shop"), counted_packets("shop")),
                (Ok(true), Some(0))
            );
        }
        let saved = block_on(exec.saved(Table::Mangle)).unwrap();
        assert!(!saved.contains("NFACCT"), "left behind: {saved}");
        let rule = "*filter\n-A OUTPUT -m nfacct --nfacct-name shop\nCOMMIT\n";
        block_on(exec.restore(&mut Text::new(rule), None)).unwrap();
        let longest = "x".repeat(31);
        block_on(exec.make_counter(&longest)).unwrap();
        let error = block_on(exec.make_counter(&"x".repeat(32))).unwrap_err();
        assert!(matches!(error, CounterError::Kernel { .. }), "{error}");
    });
}

#[test]
fn a_rejected_nfacct_match_is_remembered_and_a_held_lock_is_not() {
    in_namespace(|_| {
        let folder = tempfile::tempdir().unwrap();
        let calls = folder.path().join("calls");
        let body = format!(
            "cat >/dev/null; echo >>{0}; [ $(wc -l <{0}) = 1 ] && {{ echo 'Another app is currently \
             holding the xtables lock' >&2; exit 4; }}; echo 'iptables-restore: line 4 failed' >&2; \
             exit 1",
            calls.display()
        );
        script(folder.path(), "iptables-restore", &body);
        let exec = exec(folder.path(), LONG);
        let fails_with = |expected: &str| {
            let error = block_on(exec.make_counter("shop")).unwrap_err();
            let CounterError::Match(cause) = &error else {
                panic!("{error}");
            };
            assert!(cause.to_string().contains(expected), "{error}");
        };
        fails_with("xtables lock");
        fails_with("rejected line 4");
        fails_with("rejected line 4");
        assert_eq!(std::fs::read_to_string(&calls).unwrap(), "\n\n");
    });
}

/// Waits up to two seconds for a change by another program.
async fn change(exec: &Exec) -> Option<ForeignChange> {
    let wait = Duration::from_secs(2);
    tokio::time::timeout(wait, exec.changed()).await.ok()
}

#[test]
fn changes_by_other_programs_are_reported_and_ours_are_not() {
    in_namespace(|mut exec| {
        block_on(async {
            exec.watch_tables(&Arc::default()).unwrap();
            let payload = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-X - [0:0]\nCOMMIT\n";
            exec.restore(&mut Text::new(payload), None).await.unwrap();
            let both = "*filter\n:KUBE-F - [0:0]\n-A KUBE-F -j ACCEPT\nCOMMIT\n\
                        *nat\n:KUBE-X - [0:0]\n-A KUBE-X -j ACCEPT\nCOMMIT\n";
            exec.restore(&mut Text::new(both), None).await.unwrap();
            assert_eq!(change(&exec).await, None);

            let other = Exec::new(exec.binaries().clone());
            let rule = "*nat\n-A KUBE-SERVICES -j RETURN\nCOMMIT\n";
            other.restore(&mut Text::new(rule), None).await.unwrap();
            let found = change(&exec).await.unwrap();
            let mut touched = ChainSet::default();
            match exec.binaries().backend() {
                Backend::Nft => touched.add(Table::Nat, "KUBE-SERVICES"),
                Backend::Legacy => touched.add_table(Table::Nat),
            }
            assert_eq!(found.chains, touched);
            assert_eq!(
                found.programs.len(),
                usize::from(found.source == ChangeSource::Events)
            );

            // Before a restore of ours, detected only after it.
            let flush = "*nat\n-F KUBE-X\nCOMMIT\n";
            other.restore(&mut Text::new(flush), None).await.unwrap();
            exec.restore(&mut Text::new(both), None).await.unwrap();
            let found = change(&exec).await.unwrap();
            assert!(has_changed(&found, Table::Nat), "{found:?}");
            assert_eq!(change(&exec).await, None);
        });
    });
}

/// As by a program that waited for the lock: the size of the table after the restore is never read.
#[test]
fn a_change_in_the_moment_after_a_restore_on_legacy_is_reported() {
    in_namespace(|exec| {
        let mut programs = exec.binaries().clone();
        if programs.backend() != Backend::Legacy {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let armed = folder.path().join("armed");
        let body = format!(
            "{restore} \"$@\" || exit; [ ! -e {armed} ] || {iptables} -w -t nat -F KUBE-X",
            restore = programs.restore.to_string_lossy(),
            armed = armed.display(),
            iptables = programs.iptables.to_string_lossy(),
        );
        script(folder.path(), "restore", &body);
        programs.restore = folder.path().join("restore").into();
        let mut exec = Exec::new(programs);
        let rules = |count| {
            let rules = "-A KUBE-X -j ACCEPT\n".repeat(count);
            Text::new(format!("*nat\n:KUBE-X - [0:0]\n{rules}COMMIT\n"))
        };
        block_on(async {
            exec.watch_tables(&Arc::default()).unwrap();
            // Header and end of the chain, and its rules.
            for (mut payload, entries) in [(rules(1), 3), (rules(2), 4), (rules(1), 3)] {
                exec.restore(&mut payload, None).await.unwrap();
                exec.synced(&[(Table::Nat, entries)]);
                assert_eq!(change(&exec).await, None);
            }
            std::fs::write(&armed, "").unwrap();
            exec.restore(&mut rules(2), None).await.unwrap();
            exec.synced(&[(Table::Nat, 4)]);
            let found = change(&exec).await.expect("the change is reported");
            assert!(has_changed(&found, Table::Nat), "{found:?}");
            std::fs::remove_file(&armed).unwrap();
            exec.restore(&mut rules(2), None).await.unwrap();
            exec.synced(&[(Table::Nat, 4)]);
            assert_eq!(change(&exec).await, None);
        });
    });
}

/// The program of the restore runs after one that has the same process id in a pid namespace of its
/// own.
#[test]
fn a_change_by_a_foreign_process_with_our_id_is_reported() {
    in_namespace(|exec| {
        let mut programs = exec.binaries().clone();
        if programs.backend() != Backend::Nft {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let iptables = programs.iptables.to_string_lossy();
        let body = format!(
            "cat >{payload}\n\
             [ ! -e {armed} ] || unshare --pid --fork sh -c 'echo $(($0 - 1)) \
             >/proc/sys/kernel/ns_last_pid; {iptables} -t nat -A KUBE-X -j RETURN; exit 0' $$\n\
             exec {restore} \"$@\" <{payload}",
            payload = folder.path().join("payload").display(),
            armed = folder.path().join("armed").display(),
            restore = programs.restore.to_string_lossy(),
        );
        script(folder.path(), "restore", &body);
        programs.restore = folder.path().join("restore").into();
        let mut exec = Exec::new(programs);
        block_on(async {
            exec.watch_tables(&Arc::default()).unwrap();
            let payload = "*nat\n:KUBE-X - [0:0]\n-A KUBE-X -j ACCEPT\nCOMMIT\n";
            exec.restore(&mut Text::new(payload), None).await.unwrap();
            assert_eq!(change(&exec).await, None);
            std::fs::write(folder.path().join("armed"), "").unwrap();
            exec.restore(&mut Text::new(payload), None).await.unwrap();
            let found = change(&exec).await.expect("the change is reported");
            assert!(has_changed(&found, Table::Nat), "{found:?}");
        });
    });
}

fn has_changed(change: &ForeignChange, table: Table) -> bool {
    change.chains.has_table(table) || change.chains.count_named(table) > 0
}

/// Returns rules that exceed the kernel's buffer for the socket if they replace themselves.
fn larger_than_the_buffer() -> String {
    let comment = "x".repeat(250);
    let rule = |n: u32| {
        let ip = std::net::Ipv4Addr::from(n);
        format!("-A KUBE-X -s {ip} -m comment --comment {comment} -j ACCEPT\n")
    };
    let rules: String = (1..20_000).map(rule).collect();
    format!("*nat\n:KUBE-X - [0:0]\n{rules}COMMIT\n")
}

/// Also if a restore of the other family runs meanwhile, which receives the same notifications.
#[test]
fn restores_that_overflow_the_notification_buffer_are_not_reported() {
    in_namespace(|mut exec| {
        let programs = exec.binaries().clone();
        if programs.backend() != Backend::Nft || programs.family != IpFamily::V4 {
            return;
        }
        block_on(async {
            let found = Binaries::discover(BackendChoice::Nft, IpFamily::V6).await;
            let mut other_family = Exec::new(found.unwrap());
            let transactions = Arc::default();
            exec.watch_tables(&transactions).unwrap();
            other_family.watch_tables(&transactions).unwrap();
            let payload = larger_than_the_buffer();
            exec.restore(&mut Text::new(&payload), None).await.unwrap();
            // Deletes all rules as well.
            let mut large = Text::new(&payload);
            let mut small = Text::new("*nat\n:KUBE-X - [0:0]\nCOMMIT\n");
            let (one, other) = tokio::join!(exec.restore(&mut large, None), async {
                let restored = other_family.restore(&mut small, None).await;
                (restored, change(&other_family).await)
            });
            one.unwrap();
            other.0.unwrap();
            assert_eq!(other.1, None);
            for exec in [&exec, &other_family] {
                assert_eq!(change(exec).await, None);
            }
            // Not watched, so that it counts as another program.
            let other = Exec::new(programs);
            other.restore(&mut Text::new(&payload), None).await.unwrap();
            for exec in [&exec, &other_family] {
                let found = change(exec).await.unwrap();
                assert_eq!(found.source, ChangeSource::LostEvents);
                assert!(found.chains.has_table(Table::Nat));
            }
            // Two seconds without another change, and a foreign one while a restore runs.
            assert_eq!(change(&exec).await, None);
            let mut foreign = Text::new(&payload);
            let mut large = Text::new(&payload);
            let both = tokio::join!(
                exec.restore(&mut large, None),
                other.restore(&mut foreign, None)
            );
            both.0.unwrap();
            both.1.unwrap();
            assert!(change(&exec).await.is_some());
        });
    });
}
