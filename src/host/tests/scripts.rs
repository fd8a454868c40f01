//! Behavior of programs, played by shell scripts.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::clock::instant;
use crate::host::{Binaries, Exec, Iptables, ProgramExit, RestoreError, RunError, Version};
use crate::net::IpFamily;
use crate::rules::{Table, Text};

use super::block_on;

/// Makes a shell script, by a program that has it open for writing in place of this process: what
/// another test forks meanwhile would have it open too until its own program runs, and a file that
/// is open for writing cannot be run.
#[expect(clippy::disallowed_methods, reason = "a program of the test itself")]
pub(in crate::host) fn script(folder: &Path, name: &str, body: &str) {
    let mut install = Command::new("install");
    let install = install.args(["-m", "755", "/dev/stdin"]);
    let install = install.arg(folder.join(name)).stdin(Stdio::piped());
    let mut install = install.spawn().unwrap();
    let mut text = install.stdin.take().unwrap();
    write!(text, "#!/bin/sh\n{body}\n").unwrap();
    drop(text);
    assert!(install.wait().unwrap().success(), "{name}");
}

pub(super) fn exec(folder: &Path, deadline: Duration) -> Exec {
    let programs = Binaries {
        family: IpFamily::V4,
        iptables: folder.join("iptables").into(),
        save: folder.join("iptables-save").into(),
        restore: folder.join("iptables-restore").into(),
        version: Version::parse("iptables v1.8.9 (legacy)").unwrap(),
    };
    of_programs(programs, deadline)
}

pub(super) fn nft(folder: &Path) -> Exec {
    let mut programs = exec(folder, LONG).binaries().clone();
    programs.version = Version::parse("iptables v1.8.9 (nf_tables)").unwrap();
    of_programs(programs, LONG)
}

fn of_programs(programs: Binaries, deadline: Duration) -> Exec {
    Exec::new(programs).with_restore_deadline(deadline)
}

/// A payload larger than any pipe.
fn large() -> Text {
    let mut text = String::from("*filter\n");
    for number in 0..50_000 {
        writeln!(text, ":KUBE-{number} - [0:0]").unwrap();
    }
    text.push_str("COMMIT\n");
    Text::new(text.into_bytes())
}

pub(super) const LONG: Duration = Duration::from_secs(60);

#[track_caller]
fn restore(body: &str, deadline: Duration) -> Result<crate::host::Restored, RestoreError> {
    let folder = tempfile::tempdir().unwrap();
    script(folder.path(), "iptables-restore", body);
    block_on(exec(folder.path(), deadline).restore(&mut large(), None))
}

#[test]
fn a_payload_and_the_arguments_reach_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let body = format!(
        "echo \"$@ $LC_ALL\" >{0}; cat >>{0}; echo careful >&2",
        seen.display()
    );
    script(folder.path(), "iptables-restore", &body);
    let restored = block_on(exec(folder.path(), LONG).restore(&mut large(), None)).unwrap();
    let seen = std::fs::read(seen).unwrap();
    let header = b"-w 5 --noflush --counters C\n";
    assert!(seen.starts_with(header));
    assert_eq!(restored.payload_bytes, (seen.len() - header.len()) as u64);
    assert_eq!(restored.stderr, "careful\n");
}

#[test]
fn the_end_of_the_program_decides_the_error() {
    for (body, expected) in [
        (
            "cat >/dev/null; echo 'iptables-restore: line 12 failed' >&2; exit 1",
            "`iptables-restore` rejected line 12: no reason given",
        ),
        (
            "echo 'Bad argument' >&2; exit 2",
            "`iptables-restore` exited with status 2: Bad argument",
        ),
        (
            "echo oops >&2; exit 0",
            "`iptables-restore` exited with status 0: exited without reading all of its input; oops",
        ),
        (
            "cat >/dev/null; kill -9 $$",
            "`iptables-restore` was killed by signal 9",
        ),
    ] {
        let error = restore(body, LONG).unwrap_err();
        assert_eq!(error.to_string(), expected, "{body}");
    }
}

#[test]
fn a_hanging_program_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let child = folder.path().join("child");
    let body = format!(
        "echo waiting >&2; sleep 1000 & echo $! >{}; wait",
        child.display()
    );
    script(folder.path(), "iptables-restore", &body);
    let error = block_on(async {
        let exec = exec(folder.path(), Duration::from_millis(500));
        exec.restore(&mut large(), None).await.unwrap_err()
    });
    let RestoreError::Failed { exit, stderr } = error else {
        panic!("{error}");
    };
    let timed_out = ProgramExit::TimedOut(Duration::from_millis(500));
    assert_eq!((exit, stderr.as_str()), (timed_out, "waiting\n"));
    let pid = std::fs::read_to_string(child).unwrap();
    assert!(is_gone(pid.trim()), "{pid}");
}

#[test]
fn a_cancelled_restore_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let child = folder.path().join("child");
    let body = format!("sleep 1000 & echo $! >{}; wait", child.display());
    script(folder.path(), "iptables-restore", &body);
    block_on(async {
        let exec = exec(folder.path(), LONG);
        let soon = Duration::from_millis(500);
        let mut payload = large();
        let cancelled = tokio::time::timeout(soon, exec.restore(&mut payload, None)).await;
        assert!(cancelled.is_err());
    });
    let pid = std::fs::read_to_string(child).unwrap();
    assert!(is_gone(pid.trim()), "{pid}");
}

/// Reports whether a killed process has ended; it may still be a zombie.
fn is_gone(pid: &str) -> bool {
    let dead = || match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.contains(") Z "),
        Err(_) => true,
    };
    (0..1000).any(|_| {
        std::thread::yield_now();
        dead()
    })
}

#[test]
fn megabytes_of_output_do_not_block() {
    let body = "head -c 3000000 /dev/zero | tr '\\0' x >&2; head -c 3000000 /dev/zero; \
                cat >/dev/null; echo; echo 'the end' >&2; exit 3";
    let RestoreError::Failed { exit, stderr } = restore(body, LONG).unwrap_err() else {
        panic!("another error");
    };
    assert_eq!(exit, ProgramExit::Exited(3));
    assert!(stderr.starts_with("[...] xxx") && stderr.ends_with("the end\n"));
    assert!(stderr.len() < 17 * 1024, "{}", stderr.len());
}

#[test]
fn a_program_that_prints_without_end_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    script(folder.path(), "iptables-save", "cat /dev/zero");
    script(folder.path(), "iptables-restore", "yes");
    let exec = exec(folder.path(), LONG);
    let mut lines = 0;
    let saved = block_on(exec.save(Table::Nat, &mut |_| lines += 1));
    assert!(matches!(saved, Err(RunError::Failed { .. })), "{saved:?}");
    assert_eq!(lines, 0);
    let listed = block_on(exec.list(Table::Nat, &["KUBE-SERVICES"]));
    assert!(matches!(listed, Err(RunError::Failed { .. })), "{listed:?}");
}

#[test]
fn a_missing_program_is_reported_with_its_cause_and_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let exec = exec(folder.path(), LONG);
    let error = block_on(exec.restore(&mut large(), None)).unwrap_err();
    assert!(matches!(error, RestoreError::Spawn { .. }));
    let expected = "No such file or directory (os error 2)\nhint: install the package `iptables`";
    assert!(error.to_string().contains(expected), "{error}");
    let error = block_on(exec.saved(Table::Nat)).unwrap_err();
    assert!(matches!(error, RunError::Spawn { .. }));
}

#[test]
fn an_incomplete_table_of_nft_has_no_commit() {
    let folder = tempfile::tempdir().unwrap();
    for (code, is_transient) in [(1, false), (4, true)] {
        let body = format!("echo '-N KUBE-X'; echo odd >&2; exit {code}");
        script(folder.path(), "iptables", &body);
        let mut lines = Vec::new();
        let mut read = |line: &str| lines.push(line.to_owned());
        let error = block_on(nft(folder.path()).save(Table::Nat, &mut read)).unwrap_err();
        assert!(matches!(error, RunError::Failed { .. }), "{error}");
        assert_eq!(error.is_transient(), is_transient, "{error}");
        assert_eq!(lines, ["*nat", ":KUBE-X - [0:0]"]);
    }
}

#[test]
fn a_rule_check_passes_each_word_as_an_argument() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let has = |body: &str| {
        let body = format!("printf '%s|' \"$@\" >{}/args; {body}", path.display());
        script(path, "iptables", &body);
        let rule = "-m comment --comment \"two words\" -j KUBE-X";
        block_on(exec(path, LONG).has(Table::Nat, "OUTPUT", rule))
    };
    assert!(has("exit 0").unwrap());
    let args = std::fs::read_to_string(path.join("args")).unwrap();
    let expected = "-w|5|-C|OUTPUT|-t|nat|-m|comment|--comment|two words|-j|KUBE-X|";
    assert_eq!(args, expected);
    let bad_rule = "iptables: Bad rule (does a matching rule exist in that chain?).";
    assert!(!has(&format!("echo '{bad_rule}' >&2; exit 1")).unwrap());
    assert!(!has("echo 'iptables: No chain/target/match by that name.' >&2; exit 1").unwrap());
    assert!(has("echo 'iptables: Memory allocation problem.' >&2; exit 1").is_err());
    assert!(has("exit 1").is_err());
    assert!(!has("echo \"Chain 'KUBE-X' does not exist\" >&2; exit 2").unwrap());
    assert!(!has("echo \"Couldn't load target \\`KUBE-X'\" >&2; exit 2").unwrap());
    assert!(has("echo 'unknown option' >&2; exit 2").is_err());
    assert!(has("exit 3").is_err());
    let held = has("exit 4").unwrap_err();
    assert!(held.is_transient(), "{held}");
}

#[test]
fn a_wait_for_the_lock_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    let lock = std::fs::File::create(&path).unwrap();
    lock.lock().unwrap();
    let body = format!("exec flock {} cat >/dev/null", path.display());
    script(folder.path(), "iptables-restore", &body);
    let exec = exec(folder.path(), LONG);
    let mut payload = large();
    let started = instant();
    let (restored, held) = block_on(async {
        let held = async {
            tokio::time::sleep(Duration::from_millis(550)).await;
            lock.unlock().unwrap();
            instant().duration_since(started)
        };
        tokio::join!(exec.restore(&mut payload, None), held)
    });
    let waited = restored.unwrap().lock_wait.as_millis();
    let most = held.as_millis() + 350;
    eprintln!("measured a wait of {waited} ms");
    // Zero where /proc/PID/syscall is not readable.
    assert!(waited == 0 || (200..=most).contains(&waited), "{waited} ms");
}
