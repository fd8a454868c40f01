//! `bundle`: what it packs, and that no secret is in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::daemon::{Backend, backend_programs};
use crate::support::needs;
use crate::support::node::Node;
use crate::support::process::run;
use crate::support::program::{self, PROGRAM, Ran};
use crate::support::wait::{PATIENCE, ensure, eventually};
use flate2::read::MultiGzDecoder;

const TOKEN: &str = "s3cr3t-planted-4711";

fn bundle(node: &Node, output: &Path, more: &[&str]) -> Ran {
    let mut command = node.netns.command(PROGRAM);
    let command = command.arg("bundle").arg("-o").arg(output).args(more);
    Ran::of(command.env("TOKEN", TOKEN))
}

/// The files of an archive, by their paths in its folder; compressed ones as text.
fn content(archive: &Path) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    run(Command::new("tar")
        .args(["-xzf"])
        .arg(archive)
        .arg("--strip-components=1")
        .current_dir(folder.path()));
    let mut files = BTreeMap::new();
    let mut folders: Vec<PathBuf> = vec![folder.path().to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let mut text = String::new();
            if path.extension().is_some_and(|extension| extension == "gz") {
                MultiGzDecoder::new(&*bytes)
                    .read_to_string(&mut text)
                    .unwrap();
            } else {
                text = String::from_utf8(bytes).unwrap();
            }
            let name = path.strip_prefix(folder.path()).unwrap();
            files.insert(name.to_str().unwrap().to_owned(), text);
        }
    }
    files
}

/// Writes files with a planted token, and returns the path of the configuration file.
fn plant(folder: &Path) -> String {
    let kubeconfig = folder.join("kubeconfig");
    let user = format!("[{{name: a, user: {{token: {TOKEN}}}}}]");
    fs::write(&kubeconfig, format!("kind: Config\nusers: {user}\n")).unwrap();
    let config = folder.join("config.yaml");
    let text = format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
         clientConnection: {{kubeconfig: {}}}\ntoken: {TOKEN}\n",
        kubeconfig.display()
    );
    fs::write(&config, text).unwrap();
    config.to_str().unwrap().to_owned()
}

/// Appends a rule of another program, which the bundle reads with all others.
fn append_rule_with_token(node: &Node) {
    let mut iptables = node.netns.command("iptables-nft");
    let rule = ["-A", "INPUT", "-j", "ACCEPT", "-m", "comment"];
    let comment = format!("see https://admin:{TOKEN}@example.com/");
    run(iptables.args(rule).arg("--comment").arg(comment));
}

#[test]
fn a_bundle_has_the_state_of_the_node_and_no_secret() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let state = tempfile::tempdir().unwrap();
    let state_dir = format!("--state-dir={}", state.path().display());
    let daemon = node.start_with(backend_programs(node.backend), &[&state_dir]);
    node.wait_for_full_restore("--to-destination 10.4.0.12:8080");
    eventually(PATIENCE, || {
        let entries = fs::read_dir(state.path()).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().file_name());
        let is_there = names.any(|name| name.to_string_lossy().contains("ipv4.rules"));
        ensure(is_there, || daemon.log())
    });
    let folder = tempfile::tempdir().unwrap();
    let config = plant(folder.path());
    fs::write(state.path().join("history-notes.txt"), TOKEN).unwrap();
    append_rule_with_token(&node);
    let archive = folder.path().join("case.tar.gz");
    let metrics = "--metrics-bind-address=127.0.0.1:10249";
    let flags = [&*state_dir, "--config", &config, metrics];
    let output = bundle(&node, &archive, &flags);
    let stderr = &output.stderr;
    assert!(output.is_success(), "{stderr}");

    let files = content(&archive);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    for (name, part) in [
        ("daemon/metrics.txt", "kubeproxy_sync_proxy_rules"),
        ("daemon/rules.txt", "10.4.0.12:8080"),
        ("daemon/status.json", "\"node1\""),
        ("daemon/configz.json", "iptables"),
        ("daemon/flagz.txt", "state-dir"),
        ("rules/nft-ipv4.txt", "10.4.0.12:8080"),
        ("rules/nft-ipv4.txt", "https://REMOVED@example.com/"),
        ("kernel/version.txt", "Linux"),
        ("versions.txt", "deltaproxy 0."),
    ] {
        let text = files.get(name);
        assert!(
            text.is_some_and(|text| text.contains(part)),
            "{name}: {names:?} {text:?}"
        );
    }
    let of_history = |end: &str| {
        let mut names = names.iter();
        names.any(|name| name.starts_with("history/") && name.ends_with(end))
    };
    assert!(of_history("-ipv4.rules.gz"), "{names:?}");
    assert!(!of_history("notes.txt"), "{names:?}");
    for (name, text) in &files {
        assert!(!text.contains(TOKEN), "{name}");
    }
    names_and_addresses_are_redacted(&node, &flags);
    // A line for each part that is missing, and no other.
    let errors = files.get("errors.txt").unwrap();
    assert_eq!(
        stderr.lines().count(),
        errors.lines().count(),
        "{stderr}\n{errors}"
    );
}

/// Packs the same with `--redact`: the rules can be read, and tell nothing about the cluster.
fn names_and_addresses_are_redacted(node: &Node, flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("case.tar.gz");
    let flags = [flags, &["--redact"]].concat();
    bundle(node, &archive, &flags).success();
    let files = content(&archive);
    for (name, text) in &files {
        for secret in ["10.4.0.12", "10.96.", "/shop", "node1"] {
            let at = text.find(secret);
            let around = at.and_then(|at| text.get(at.saturating_sub(80)..at + 20));
            assert_eq!(around, None, "{name}");
        }
    }
    let rules = folder.path().join("rules.txt");
    fs::write(&rules, files.get("rules/nft-ipv4.txt").unwrap()).unwrap();
    let rules = format!("--from-save={}", rules.display());
    let listed = program::run(&["services", &rules]).success();
    assert!(listed.contains("namespace-1   service-1"), "{listed}");
}

#[test]
fn a_bundle_without_a_daemon_replaces_a_file_only_with_force() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("case.tar.gz");
    fs::write(&archive, "before").unwrap();
    let refused = bundle(&node, &archive, &[]);
    assert_eq!(refused.code, Some(1));
    assert_eq!(fs::read(&archive).unwrap(), b"before");
    bundle(&node, &archive, &["--force"]).success();
    let files = content(&archive);
    let errors = files.get("errors.txt").unwrap();
    assert!(errors.contains("daemon/status.json: "), "{errors}");
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "no temporary file is left");
}
