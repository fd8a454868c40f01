//! Lines on stderr of a daemon that fails in several ways: parsers of log pipelines read them all.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::daemon::{Backend, Daemon, Program};
use crate::support::node::{Node, SHOP, with_restore};
use crate::support::program::Ran;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs};

/// A program of this name.
fn called(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    symlink(env!("CARGO_BIN_EXE_deltaproxy"), &path).unwrap();
    path
}

/// Splits quoted text from the start of a line: Go and JSON quote alike here.
fn quoted(line: &str) -> Option<(String, &str)> {
    let mut values = serde_json::Deserializer::from_str(line).into_iter::<String>();
    let text = values.next()?.ok()?;
    let rest = &line[values.byte_offset()..];
    Some((text, rest))
}

/// Parses a line of klog: `Lmmdd hh:mm:ss.uuuuuu threadid file:line] "msg" key="value" key=3`.
fn klog(line: &str) -> Option<(char, String)> {
    let (header, rest) = line.split_once("] ")?;
    let mut words = header.split_whitespace();
    let (date, time, thread, place) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let digits = |text: &str, count: usize| {
        text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let severity = date
        .chars()
        .next()
        .filter(|letter| "IWEF".contains(*letter))?;
    let clock: Vec<&str> = time.split([':', '.']).collect();
    let is_time = matches!(clock[..], [h, m, s, micros]
        if [h, m, s].iter().all(|text| digits(text, 2)) && digits(micros, 6));
    let (file, number) = place.rsplit_once(':')?;
    let is_header = digits(&date[1..], 4)
        && is_time
        && thread.parse::<u32>().is_ok()
        && !file.is_empty()
        && number.parse::<u32>().is_ok()
        && words.next().is_none();
    let (message, mut rest) = quoted(rest)?;
    while !rest.is_empty() {
        let (key, value) = rest.strip_prefix(' ')?.split_once('=')?;
        let is_key = !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
        rest = match quoted(value) {
            Some((_, rest)) if is_key => rest,
            None if is_key => value.find(' ').map_or("", |end| &value[end..]),
            _ => return None,
        };
    }
    is_header.then_some((severity, message))
}

/// Runs a daemon whose restores fail and whose configuration becomes invalid. Returns its log.
fn failing_run(program: PathBuf, flags: &[&str]) -> String {
    let node = Node::new(Backend::Nft);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("shop.yaml"), SHOP).unwrap();
    let config = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
                  conntrack: {maxPerCore: 0}\niptables: {syncPeriod: 1s}\nlogging: {verbosity: 4}\n";
    fs::write(at("c.yaml"), config).unwrap();
    let script = "cat >/dev/null; echo 'line 1 failed' >&2; echo 'and line 2' >&2; exit 1";
    let (config_flag, manifests_flag) = (at("c.yaml"), at("shop.yaml"));
    let base = [
        "--config",
        &config_flag,
        "--manifests",
        &manifests_flag,
        "--hostname-override=node1",
        "--iptables-backend=path",
    ];
    let mut daemon = Daemon::spawn(
        &Program::KubeProxy(program),
        &node.netns,
        with_restore(Backend::Nft, script),
        &[&base, flags].concat(),
    );
    let wait_for = |text: &str, daemon: &Daemon| {
        eventually(PATIENCE, || {
            ensure(daemon.log().contains(text), || daemon.log())
        });
    };
    wait_for("rejected line 1", &daemon);
    fs::write(at("c.yaml"), "mode: ipvs\nmode: [").unwrap();
    wait_for("is invalid", &daemon);
    eventually(PATIENCE, || {
        let failed = http::count(
            &node.metrics(),
            "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
        );
        ensure(failed >= 8, || format!("{failed} failures"))
    });
    daemon.terminate();
    daemon.log()
}

#[test]
fn a_parser_of_klog_reads_every_line() {
    needs!(Kernel);
    let folder = tempfile::tempdir().unwrap();
    let log = failing_run(called(folder.path(), "kube-proxy"), &[]);
    let parsed: Vec<(char, String)> = log
        .lines()
        .map(|line| klog(line).unwrap_or_else(|| panic!("not klog: {line}")))
        .collect();
    for severity in ['I', 'W', 'E'] {
        assert!(parsed.iter().any(|(is, _)| *is == severity), "{log}");
    }
    // Eight restores failed; repeats are left out.
    let restores = log.matches("\"restore failed; changes are delayed").count();
    assert_eq!(restores, 3, "{log}");
    let invalid = |(_, text): &&(char, String)| text.contains("is invalid");
    let message = &parsed.iter().find(invalid).unwrap().1;
    assert!(
        message.ends_with("which would fail") && !message.contains('\n'),
        "{message}"
    );
}

#[test]
fn every_line_is_json_if_that_is_the_format() {
    needs!(Kernel);
    let folder = tempfile::tempdir().unwrap();
    for (name, message) in [("kube-proxy", "msg"), ("deltaproxy", "message")] {
        let flags = ["--logging-format=json", "--log-style=auto"];
        let log = failing_run(called(folder.path(), name), &flags);
        for line in log.lines() {
            let record: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
            assert!(record[message].is_string(), "{line}");
            assert_eq!(record["ts"].is_number(), name == "kube-proxy", "{line}");
        }
    }
}

/// What ends the process before the log is installed is in the format of the log, too.
#[test]
fn fatal_errors_are_in_the_format_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let kube_proxy = called(folder.path(), "kube-proxy");
    let run = |program: &Path, flags: &[&str]| {
        let output = Ran::of(Command::new(program).args(flags));
        (output.code.unwrap(), output.stderr)
    };
    let invalid = ["--proxy-mode=ipvs", "--cluster-cidr=nowhere"];
    let (code, log) = run(&kube_proxy, &invalid);
    assert_eq!(code, 64);
    assert_eq!(log.lines().count(), 2, "{log}");
    for line in log.lines() {
        let (severity, message) = klog(line).unwrap_or_else(|| panic!("{line}"));
        assert_eq!((severity, message.as_str()), ('E', "command failed"));
    }
    let json: &[&str] = &["--logging-format=json", "--config=/nowhere/c.yaml"];
    for program in [&kube_proxy, Path::new(env!("CARGO_BIN_EXE_deltaproxy"))] {
        let (code, log) = run(program, json);
        assert_eq!(code, 64);
        let record: Value = serde_json::from_str(&log).unwrap_or_else(|_| panic!("{log}"));
        assert!(record.to_string().contains("/nowhere/c.yaml"), "{log}");
    }
    let (code, log) = run(
        &kube_proxy,
        &["--log-style=native", "--config=/nowhere/c.yaml"],
    );
    assert_eq!(code, 64);
    assert!(log.starts_with("error: "), "{log}");
}
