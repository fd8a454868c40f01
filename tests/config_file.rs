//! A configuration file that changes under a running daemon: what ends it, and what does not.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::volume::Volume;

/// What a configuration file needs before it says anything, and ports that no other test has.
const HEADER: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
metricsBindAddress: 'off'
healthzBindAddress: 'off'
";

/// Every valid change of the file ends the daemon at once.
const AT_ONCE: &[&str] = &["--config-reload=exit", "--config-reload-window=0"];

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
fn dry_run_with(config: &Path, flags: &[&str]) -> Child {
    let (child, lines) = dry_run_lines(config, flags);
    // The rest must find a reader, too.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// The same, with what it goes on to print.
fn dry_run_lines(
    config: &Path,
    flags: &[&str],
) -> (Child, impl Iterator<Item = String> + Send + use<>) {
    let manifests = config.with_extension("manifests");
    fs::create_dir(&manifests).unwrap();
    fs::write(manifests.join("shop.yaml"), MANIFESTS).unwrap();
    let paths = (config.to_str().unwrap(), manifests.to_str().unwrap());
    let mut command = Command::new("timeout");
    command.args(["120", env!("CARGO_BIN_EXE_deltaproxy"), "run", "--dry-run"]);
    command.args(["--config", paths.0, "--manifests", paths.1]);
    command.args(flags);
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

/// Ends a daemon that has not ended by itself. SIGKILL would only reach `timeout`, which hands on
/// SIGTERM.
#[track_caller]
fn still_runs(mut child: Child) {
    assert!(child.try_wait().unwrap().is_none());
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(id, Signal::SIGTERM).unwrap();
    child.wait().unwrap();
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
    let child = dry_run_with(&config, &[]);
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
    let mut child = dry_run_with(&config, &[]);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut wait_for = |text: &str| {
        let mut lines = said.by_ref().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(text)), "no `{text}`");
    };
    fs::write(&config, format!("{good}mode: ipvs\n")).unwrap();
    // One record is one line.
    wait_for("mode: proxy mode `ipvs` is not supported; hint: use `iptables`");
    // Back again is no change, and another one ends it.
    fs::write(&config, &good).unwrap();
    fs::write(&config, format!("{good}oomScoreAdj: 0\n")).unwrap();
    wait_for("has changed; exiting");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// Opening it would block the whole daemon until a program writes.
#[test]
fn a_file_that_becomes_a_pipe_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    fs::write(&config, HEADER).unwrap();
    let (mut child, mut lines) = dry_run_lines(&config, AT_ONCE);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    fs::remove_file(&config).unwrap();
    let made = Command::new("mkfifo").arg(&config).status().unwrap();
    assert!(made.success());
    let mut said = said.by_ref().map(Result::unwrap);
    let is_logged = |line: String| {
        line.contains("cannot read the configuration file")
            && line.contains("is not a regular file")
    };
    assert!(said.any(is_logged));
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
    let child = dry_run_with(&config, &[]);
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
    let mut wait_for = |words: &[&str]| {
        let mut lines = said.by_ref().map(Result::unwrap);
        let has_all = |line: String| words.iter().all(|word| line.contains(word));
        assert!(lines.any(has_all), "no {words:?}");
    };
    wait_for(&["starting"]);
    fs::write(at("c.yaml"), text("gone")).unwrap();
    wait_for(&["new configuration in", "gone"]);
    fs::write(at("c.yaml"), text("there")).unwrap();
    wait_for(&["holds the running configuration again"]);
    fs::copy(at("there"), at("other")).unwrap();
    fs::write(at("c.yaml"), text("other")).unwrap();
    wait_for(&["has changed; exiting"]);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// None of this changes a setting. Two changes of the manifests that are still followed show that
/// the daemon is not about to end.
#[test]
fn a_file_that_says_the_same_or_nothing_ends_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    let text = HEADER.to_owned();
    fs::write(&config, &text).unwrap();
    let (mut child, mut lines) = dry_run_lines(&config, AT_ONCE);
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

#[test]
fn a_config_map_that_is_swapped_is_reported_and_ends_nothing() {
    let mut volume = Volume::new(HEADER);
    let (mut child, lines) = dry_run_lines(&volume.path(), &[]);
    std::thread::spawn(move || lines.for_each(drop));
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut next = |text: &str| {
        let mut lines = said.by_ref().map(Result::unwrap);
        let line = lines.find(|line| line.contains("configuration"));
        assert!(
            line.as_ref().unwrap().contains(text),
            "{line:?}, not `{text}`"
        );
    };
    volume.swap(&format!("{HEADER}oomScoreAdj: 0\n"));
    next("was replaced by another configuration; still running with the previous one");
    // An in-place write of a file that the process did not start with; kube-proxy misses it.
    fs::write(volume.path(), format!("{HEADER}oomScoreAdj: 1\n")).unwrap();
    next("was replaced by another configuration");
    volume.swap(&format!("{HEADER}mode: ipvs\n"));
    next("is invalid; still running with the previous one");
    volume.swap(HEADER);
    next("holds the running configuration again");
    still_runs(child);
}

#[test]
fn a_config_map_that_is_swapped_ends_the_daemon_on_request() {
    let mut volume = Volume::new(HEADER);
    let child = dry_run_with(&volume.path(), AT_ONCE);
    volume.swap(&format!("{HEADER}oomScoreAdj: 0\n"));
    ends_because_of(child, &volume.path());
}

/// An exit that waits is called off if the running configuration, or an invalid one, comes back.
#[test]
fn a_delayed_exit_is_called_off() {
    let mut volume = Volume::new(HEADER);
    let flags = ["--config-reload=exit", "--config-reload-window=1000h"];
    let (mut child, lines) = dry_run_lines(&volume.path(), &flags);
    std::thread::spawn(move || lines.for_each(drop));
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut wait_for = |text: &str| {
        let mut lines = said.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(text)).unwrap()
    };
    let changed = format!("{HEADER}oomScoreAdj: 0\n");
    volume.swap(&changed);
    let first = wait_for("has changed; exiting in ");
    volume.swap(HEADER);
    wait_for("holds the running configuration again");
    volume.swap(&changed);
    let second = wait_for("has changed; exiting in ");
    let delay = |line: &str| line.split("exiting in ").nth(1).unwrap().to_owned();
    // Drawn anew, of 3.6 million seconds.
    assert_ne!(delay(&first), delay(&second));
    still_runs(child);
}

/// Restarting all nodes of a cluster at once would stop all syncs for a moment.
#[test]
fn fifty_daemons_end_spread_over_the_window() {
    const DAEMONS: usize = 50;
    const WINDOW: Duration = Duration::from_secs(20);
    let mut volume = Volume::new(HEADER);
    let config = volume.path();
    let manifests = config.with_extension("manifests");
    fs::create_dir(&manifests).unwrap();
    let spawn = |_| {
        let mut command = Command::new("timeout");
        command.args(["300", env!("CARGO_BIN_EXE_deltaproxy"), "run", "--dry-run"]);
        command.arg("--config").arg(&config);
        command.arg("--manifests").arg(&manifests);
        command.args(["--config-reload=exit", "--config-reload-window=20s"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut children: Vec<Child> = (0..DAEMONS).map(spawn).collect();
    let mut logs: Vec<_> = children
        .iter_mut()
        .map(|child| BufReader::new(child.stderr.take().unwrap()).lines())
        .collect();
    for log in &mut logs {
        let mut lines = log.map(Result::unwrap);
        assert!(lines.any(|line| line.contains("starting a dry run")));
    }
    // The watch of the file begins after that line; the first reading finds a swap before it.
    let swapped = Instant::now();
    volume.swap(&format!("{HEADER}oomScoreAdj: 0\n"));
    let delays: Vec<f64> = logs
        .iter_mut()
        .map(|log| {
            let mut lines = log.map(Result::unwrap);
            let line = lines.find(|line| line.contains("exiting in ")).unwrap();
            let delay = line.split("exiting in ").nth(1).unwrap();
            delay.split(' ').next().unwrap().parse().unwrap()
        })
        .collect();
    for (mut child, delay) in children.into_iter().zip(&delays) {
        assert_eq!(child.wait().unwrap().code(), Some(1));
        // Logs round the delay to seconds.
        assert!(swapped.elapsed().as_secs_f64() > delay - 1.0);
    }
    for quarter in 0..4 {
        let from = f64::from(quarter) * WINDOW.as_secs_f64() / 4.0;
        let within = delays
            .iter()
            .filter(|delay| (from..=from + 5.0).contains(delay));
        // That none of 50 falls into a quarter happens once in 400,000 runs.
        assert!(within.count() > 0, "{delays:?}");
    }
}
