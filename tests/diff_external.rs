//! Differences as the user's own program shows them: how it is run, who may look into the folders
//! that it is given, and that they are gone afterwards.

#![allow(clippy::unwrap_used, reason = "failing is a test's job")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

const BEFORE: &str = include_str!("golden/diff/before.yaml");
const AFTER: &str = include_str!("golden/diff/after.yaml");

/// Who gets a signal.
#[derive(Clone, Copy)]
enum To {
    /// Us and the program: it is from the keyboard.
    Both,
    /// Us alone.
    Us,
}

/// A comparison of manifests that lie in a folder.
#[expect(clippy::disallowed_methods, reason = "this test runs the program")]
fn comparison(folder: &TempDir) -> Command {
    let path = |name: &str| folder.path().join(name);
    fs::write(path("before.yaml"), BEFORE).unwrap();
    fs::write(path("after.yaml"), AFTER).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_deltaproxy"));
    command
        .args(["diff", "--from-manifests=before.yaml"])
        .args(["--manifests=after.yaml", "--hostname-override=node-a"])
        .env("RUST_LOG", "error")
        .current_dir(folder.path());
    command
}

/// The same, shown by a script.
fn shown_by(folder: &TempDir, script: &str) -> Command {
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folders")).unwrap();
    fs::write(path("program"), script).unwrap();
    let mut command = comparison(folder);
    command
        .env("KUBECTL_EXTERNAL_DIFF", "sh program")
        .env("TMPDIR", path("folders"));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_users_own_program_shows_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let show = |program: &str, flags: &[&str]| {
        let mut command = comparison(&folder);
        let command = command.args(flags).env("KUBECTL_EXTERNAL_DIFF", program);
        command.output().unwrap()
    };
    let output = show("diff -r -u", &[]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(said.contains("LIVE/IPv4"), "{said}");
    assert!(said.contains("\n+-A KUBE-SEP-"), "{said}");
    let folder = said.split("LIVE").next().unwrap();
    let folder = folder.rsplit(' ').next().unwrap();
    assert!(!Path::new(folder).exists(), "{folder} was left behind");

    let output = show("diff -r -u", &["--output=text"]);
    assert!(text(&output.stdout).contains("service port"), "{output:?}");
    let output = show("diff -ru --label 'what is' --label=desired", &[]);
    assert!(
        text(&output.stdout).contains("--- what is\n+++ desired\n"),
        "{output:?}"
    );

    // Whoever has seen enough, as `head` has, may close the pipe.
    for end in ["sh -c 'kill -PIPE $$'", "sh -c 'exit 141'"] {
        let output = show(end, &[]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(text(&output.stderr), "");
    }
    for trouble in [
        "diff --no-such-flag",
        "/nowhere/diff",
        "diff 'of",
        " ",
        "sh -c 'kill -TERM $$'",
    ] {
        let output = show(trouble, &["--unified"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(
            text(&output.stderr).contains("KUBECTL_EXTERNAL_DIFF"),
            "{output:?}"
        );
    }
}

/// How a comparison ends that gets a signal while it is shown, and what it says.
#[track_caller]
fn interrupted(script: &str, signal: Signal, to: To) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut child = shown_by(&folder, script)
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let id = Pid::from_raw(child.id().try_into().unwrap());
    match to {
        To::Both => killpg(id, signal).unwrap(),
        To::Us => kill(id, signal).unwrap(),
    }
    let status = child.wait().unwrap();
    let left = fs::read_dir(folder.path().join("folders")).unwrap().count();
    assert_eq!(left, 0, "left behind after {signal}");
    // A program that goes on is ours to end.
    let _ = killpg(id, Signal::SIGKILL);
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    (status.code(), said)
}

#[test]
fn nothing_is_left_behind_by_a_signal() {
    for (signal, to) in [
        (Signal::SIGINT, To::Both),
        (Signal::SIGQUIT, To::Both),
        (Signal::SIGTERM, To::Both),
        (Signal::SIGHUP, To::Both),
        (Signal::SIGTERM, To::Us),
        (Signal::SIGHUP, To::Us),
    ] {
        let (code, said) = interrupted("echo ready; exec sleep 60", signal, to);
        assert_eq!(code, Some(2), "{signal}: {said}");
        assert!(said.contains("KUBECTL_EXTERNAL_DIFF"), "{signal}: {said}");
    }
    // One that does not end when it is told to is not waited for.
    let stays = "trap '' TERM; echo ready; while :; do sleep 1; done";
    let (code, said) = interrupted(stays, Signal::SIGTERM, To::Both);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn a_pager_goes_on_after_an_interrupt() {
    let pager = "trap 'exit 0' INT; echo ready; while :; do sleep 0.1; done";
    let ended = interrupted(pager, Signal::SIGINT, To::Both);
    assert_eq!(ended, (Some(1), String::new()));
}

#[test]
fn nobody_else_may_look() {
    let look = "stat -c %a \"${1%/*}\" \"$1\" \"$1/IPv4\" \"$2\" \"$2/IPv6\"";
    let folder = tempfile::tempdir().unwrap();
    let output = shown_by(&folder, look).output().unwrap();
    assert_eq!(text(&output.stdout), "700\n700\n600\n700\n600\n");
}
