//! A configuration file that changes under a running daemon: what ends it, and what does not.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "failing is a test's job, and running programs"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a configuration file needs before it says anything, and ports that nobody else has.
const HEADER: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
metricsBindAddress: 'off'
healthzBindAddress: 'off'
";

/// One Service with one endpoint.
const MANIFESTS: &str = "\
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shop-1, labels: {kubernetes.io/service-name: shop}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.4.0.11]}]
";

/// A dry run with a file, that has rendered its manifests and is killed if it does not end.
fn dry_run_with(config: &Path) -> Child {
    let (child, lines) = dry_run_lines(config);
    // The rest must find a reader, too.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// The same, with what it goes on to print.
fn dry_run_lines(config: &Path) -> (Child, impl Iterator<Item = String> + Send + 'static) {
    let manifests = config.with_extension("manifests");
    fs::create_dir(&manifests).unwrap();
    fs::write(manifests.join("shop.yaml"), MANIFESTS).unwrap();
    let paths = (config.to_str().unwrap(), manifests.to_str().unwrap());
    let mut command = Command::new("timeout");
    command.args(["120", env!("CARGO_BIN_EXE_deltaproxy"), "run", "--dry-run"]);
    command.args(["--config", paths.0, "--manifests", paths.1]);
    let mut child = command
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    assert!(lines.any(|line| line.contains("default/shop")));
    (child, lines)
}

#[track_caller]
fn ends_because_of(child: Child, config: &Path) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected = format!("error: `{}` has changed; exiting", config.display());
    assert!(
        said.lines().last().unwrap().starts_with(&expected),
        "{said}"
    );
}

#[test]
fn a_file_that_is_written_again_ends_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    fs::write(&config, HEADER).unwrap();
    let child = dry_run_with(&config);
    fs::write(&config, format!("{HEADER}oomScoreAdj: 0\n")).unwrap();
    ends_because_of(child, &config);
}

/// A mistake in the ConfigMap must not end all proxies of a cluster.
#[test]
fn a_file_that_could_not_be_run_with_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    let good = HEADER.to_owned();
    fs::write(&config, &good).unwrap();
    let mut child = dry_run_with(&config);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut wait_for = |text: &str| {
        let mut lines = said.by_ref().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(text)), "no `{text}`");
    };
    fs::write(&config, format!("{good}mode: ipvs\n")).unwrap();
    wait_for("is invalid; still running with the previous one");
    wait_for("mode: proxy mode `ipvs` is not supported");
    // Back again is no change, and another one ends it.
    fs::write(&config, &good).unwrap();
    fs::write(&config, format!("{good}oomScoreAdj: 0\n")).unwrap();
    wait_for("has changed; exiting");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// To open that would be to wait for somebody to write, with all of the daemon.
#[test]
fn a_file_that_becomes_a_pipe_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    fs::write(&config, HEADER).unwrap();
    let (mut child, mut lines) = dry_run_lines(&config);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    fs::remove_file(&config).unwrap();
    let made = Command::new("mkfifo").arg(&config).status().unwrap();
    assert!(made.success());
    let mut said = said.by_ref().map(Result::unwrap);
    assert!(said.any(|line| line.contains("new configuration in")));
    assert!(said.any(|line| line.ends_with(": is not a regular file")));
    let manifest = config.with_extension("manifests").join("shop.yaml");
    fs::write(&manifest, MANIFESTS.replace("8080", "8081")).unwrap();
    assert!(lines.any(|line| line.contains(":8081")));
    fs::remove_file(&config).unwrap();
    fs::write(&config, format!("{HEADER}oomScoreAdj: 0\n")).unwrap();
    assert!(said.any(|line| line.contains("has changed; exiting")));
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// What changes beside it may never come to rest.
#[test]
fn a_file_in_a_busy_folder_is_seen_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    fs::write(&config, HEADER).unwrap();
    let child = dry_run_with(&config);
    let beside = folder.path().join("beside");
    let is_over = Arc::new(AtomicBool::new(false));
    let busy = {
        let is_over = Arc::clone(&is_over);
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                fs::write(&beside, "").unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
        })
    };
    fs::write(&config, format!("{HEADER}oomScoreAdj: 0\n")).unwrap();
    ends_because_of(child, &config);
    is_over.store(true, Ordering::Relaxed);
    busy.join().unwrap();
}

/// The next start would end at once.
#[test]
fn a_file_whose_source_is_not_there_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let nowhere = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
                   clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
                   contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n";
    fs::write(at("there"), nowhere).unwrap();
    let text = |name: &str| {
        let path = at(name);
        format!(
            "{HEADER}clientConnection: {{kubeconfig: '{}'}}\n",
            path.display()
        )
    };
    fs::write(at("c.yaml"), text("there")).unwrap();
    let mut command = Command::new("timeout");
    command.args(["120", env!("CARGO_BIN_EXE_deltaproxy"), "run", "--dry-run"]);
    command
        .arg("--hostname-override=node1")
        .arg("--config")
        .arg(at("c.yaml"));
    let mut child = command
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut wait_for = |text: &str| {
        let mut lines = said.by_ref().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(text)), "no `{text}`");
    };
    wait_for("starting");
    fs::write(at("c.yaml"), text("gone")).unwrap();
    wait_for("new configuration in");
    wait_for("gone");
    fs::write(at("c.yaml"), text("there")).unwrap();
    wait_for("holds the running configuration again");
    fs::copy(at("there"), at("other")).unwrap();
    fs::write(at("c.yaml"), text("other")).unwrap();
    wait_for("has changed; exiting");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// Nothing of this says anything else: that two changes of the manifests are still followed shows
/// that nobody waits for the end.
#[test]
fn a_file_that_says_the_same_or_nothing_ends_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    let text = HEADER.to_owned();
    fs::write(&config, &text).unwrap();
    let (mut child, mut lines) = dry_run_lines(&config);
    fs::write(&config, &text).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(&config).unwrap();
    for port in ["8081", "8082"] {
        let manifests = config.with_extension("manifests");
        let new = folder.path().join("new.yaml");
        fs::write(&new, MANIFESTS.replace("8080", port)).unwrap();
        fs::rename(new, manifests.join("shop.yaml")).unwrap();
        let endpoint = format!("10.4.0.11:{port}");
        assert!(lines.any(|line| line.contains(&endpoint)), "it ended");
    }
    assert!(child.try_wait().unwrap().is_none());
    std::thread::spawn(move || lines.for_each(drop));
    fs::write(&config, format!("{text}oomScoreAdj: 0\n")).unwrap();
    ends_because_of(child, &config);
}

/// As kubelet does it: the path stays a link through a link that is replaced.
#[test]
fn a_config_map_that_is_swapped_ends_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (version, fields) in [("..1", ""), ("..2", "oomScoreAdj: 0\n")] {
        fs::create_dir(at(version)).unwrap();
        let text = format!("{HEADER}{fields}");
        fs::write(at(version).join("c.yaml"), text).unwrap();
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/c.yaml", at("c.yaml")).unwrap();
    let child = dry_run_with(&at("c.yaml"));
    symlink("..2", at("..new")).unwrap();
    fs::rename(at("..new"), at("..data")).unwrap();
    ends_because_of(child, &at("c.yaml"));
}
