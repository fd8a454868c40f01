//! `deltaproxy services --watch`: what changes, as a table and as documents.

#![allow(clippy::unwrap_used, reason = "failing is a test's job")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

#[expect(clippy::disallowed_methods, reason = "this test runs the program")]
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_deltaproxy"));
    command
        .args(["services", "--watch"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env_remove("RUST_LOG");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_is_not_there_yet_can_be_watched() {
    for (asked, expected) in [
        ("soon", "warning: no Service `soon` has rules\n"),
        (
            "-n=soon",
            "warning: no Service of namespace `soon` has rules\nhint: did you mean namespace `shop`?\n",
        ),
    ] {
        let examples = "--manifests=deploy/examples";
        let mut child = command(&[asked, "--interval=1h", examples])
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

/// A Service whose port has a number.
fn write_service(folder: &Path, name: &str, port: u16) {
    let service = format!(
        r#"{{"apiVersion": "v1", "kind": "Service", "metadata": {{"name": "{name}"}},
        "spec": {{"clusterIP": "10.96.0.10", "ports": [{{"port": {port}}}]}}}}"#
    );
    // Whole or not at all, as editors do it.
    let (new, old) = (folder.join("new"), folder.join(format!("{name}.json")));
    std::fs::File::create(&new)
        .unwrap()
        .write_all(service.as_bytes())
        .unwrap();
    std::fs::rename(new, old).unwrap();
}

#[test]
fn watching_shows_what_changes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_service(at, "shop", 80);
    let manifests = format!("--manifests={}", at.display());
    let args = ["--interval=50ms", "--no-headers", &manifests];
    let mut child = command(&args).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || {
        let line = lines.next().unwrap().unwrap();
        let words = line
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        // Of the same width every time.
        let columns = [line.find("default"), line.find("ClusterIP")];
        (words, columns)
    };
    let mut columns = None;
    let mut ends = |(words, at): (Vec<String>, [Option<usize>; 2])| {
        let time = words[0].as_bytes();
        assert!(
            time.len() == 20 && time[10] == b'T' && time[19] == b'Z',
            "{words:?}"
        );
        assert_eq!(*columns.get_or_insert(at), at, "{words:?}");
        (words[1].clone(), words[3].clone(), words[7].clone())
    };
    let expected = |event: &str, name: &str, port: &str| (event.into(), name.into(), port.into());
    assert_eq!(ends(next()), expected("ADDED", "shop", "80/tcp"));
    write_service(at, "shop", 81);
    assert_eq!(ends(next()), expected("CHANGED", "shop", "81/tcp"));
    write_service(at, "more", 82);
    assert_eq!(ends(next()), expected("ADDED", "more", "82/tcp"));
    std::fs::remove_file(at.join("shop.json")).unwrap();
    assert_eq!(ends(next()), expected("GONE", "shop", "81/tcp"));
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// A Service of both families, or of IPv4 only, with one endpoint of each.
fn write_dual(folder: &Path, families: &[&str], v4_endpoint: &str) {
    let all = [("IPv4", "10.96.0.10"), ("IPv6", "fd00:10:96::a")];
    let ips = all.iter().filter(|(family, _)| families.contains(family));
    let ips: Vec<&str> = ips.map(|(_, ip)| *ip).collect();
    let slice = |family: &str, address: &str| {
        serde_json::json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("shop-{}", family.to_lowercase()),
                "labels": {"kubernetes.io/service-name": "shop"}},
            "addressType": family, "ports": [{"name": "", "port": 8080}],
            "endpoints": [{"addresses": [address]}]})
    };
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"},
            "spec": {"clusterIP": ips.first(), "clusterIPs": ips, "ipFamilies": families,
                "ports": [{"port": 80}]}},
        slice("IPv4", v4_endpoint), slice("IPv6", "fd00:10:4::7")]});
    std::fs::write(folder.join("new"), list.to_string()).unwrap();
    std::fs::rename(folder.join("new"), folder.join("list.json")).unwrap();
}

#[test]
fn a_watched_document_has_the_events_of_each_family() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let both = ["IPv4", "IPv6"];
    write_dual(at, &both, "10.4.0.7");
    let manifests = format!("--manifests={}", at.display());
    let args = ["--interval=50ms", "-ojson", &manifests];
    let mut child = command(&args).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || {
        let line: serde_json::Value =
            serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        (word(&line["event"]), word(&line["servicePort"]["family"]))
    };
    let mut expect = |event: &str, family: &str| assert_eq!(next(), (event.into(), family.into()));
    expect("ADDED", "IPv4");
    expect("ADDED", "IPv6");
    write_dual(at, &both, "10.4.0.8");
    expect("CHANGED", "IPv4");
    write_dual(at, &["IPv4"], "10.4.0.8");
    expect("GONE", "IPv6");
    write_dual(at, &both, "10.4.0.8");
    expect("ADDED", "IPv6");
    std::fs::remove_file(at.join("list.json")).unwrap();
    expect("GONE", "IPv4");
    expect("GONE", "IPv6");
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}
