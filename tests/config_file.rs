//! A configuration file that changes under a running daemon: what ends it, and what does not.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::node::SHOP;
use crate::support::played::kubeconfig_text;
use crate::support::program::PROGRAM;
use crate::support::volume::Volume;

/// What a configuration file needs before it says anything, and ports that no other test has.
const HEADER: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
metricsBindAddress: 'off'
healthzBindAddress: 'off'
";

/// Lines of a pipe.
type Lines = Box<dyn Iterator<Item = String>>;

/// A dry run with a file, killed if it does not end.
struct DryRun {
    child: Child,
    payloads: Lines,
    log: Lines,
}

fn lines(pipe: impl Read + 'static) -> Lines {
    Box::new(BufReader::new(pipe).lines().map(Result::unwrap))
}

/// The first line with all of these words.
#[track_caller]
fn wait_for(lines: &mut Lines, words: &[&str]) -> String {
    let line = lines.find(|line| words.iter().all(|word| line.contains(word)));
    line.unwrap_or_else(|| panic!("no {words:?}"))
}

impl DryRun {
    fn spawn(config: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new("timeout");
        command.args(["300", PROGRAM, "run", "--dry-run", "--config"]);
        command.arg(config).args(flags).env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        Self {
            payloads: lines(child.stdout.take().unwrap()),
            log: lines(child.stderr.take().unwrap()),
            child,
        }
    }

    /// One that has rendered its manifests.
    fn start(config: &Path, flags: &[&str]) -> Self {
        let manifests = config.with_extension("manifests");
        fs::create_dir(&manifests).unwrap();
        fs::write(manifests.join("shop.yaml"), SHOP).unwrap();
        let manifests = ["--manifests", manifests.to_str().unwrap()];
        let mut dry_run = Self::spawn(config, &[&manifests, flags].concat());
        wait_for(&mut dry_run.payloads, &["default/shop"]);
        dry_run
    }

    #[track_caller]
    fn logs(&mut self, words: &[&str]) -> String {
        wait_for(&mut self.log, words)
    }

    /// Ends a daemon that has not ended by itself. SIGKILL would only reach `timeout`, which hands
    /// on SIGTERM.
    #[track_caller]
    fn still_runs(mut self) {
        assert!(self.child.try_wait().unwrap().is_none());
        let id = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(id, Signal::SIGTERM).unwrap();
        self.child.wait().unwrap();
    }

    #[track_caller]
    fn ends_because_of(mut self, config: &Path) {
        let expected = format!("error: `{}` has changed; exiting", config.display());
        let last = self.log.last().unwrap_or_default();
        assert!(last.starts_with(&expected), "{last}");
        assert_eq!(self.child.wait().unwrap().code(), Some(1));
    }
}

/// A mistake in the ConfigMap must not end all proxies of a cluster.
#[test]
fn a_file_that_could_not_be_run_with_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    let good = HEADER.to_owned();
    fs::write(&config, &good).unwrap();
    let mut dry_run = DryRun::start(&config, &[]);
    fs::write(&config, format!("{good}mode: ipvs\n")).unwrap();
    // One record is one line.
    dry_run.logs(&["mode: proxy mode `ipvs` is not supported; hint: use `iptables`"]);
    // Back again is no change, and another one ends it.
    fs::write(&config, &good).unwrap();
    fs::write(&config, format!("{good}oomScoreAdj: 0\n")).unwrap();
    dry_run.ends_because_of(&config);
}

/// Opening it would block the whole daemon until a program writes.
#[test]
fn a_file_that_becomes_a_pipe_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    fs::write(&config, HEADER).unwrap();
    let mut dry_run = DryRun::start(&config, &[]);
    fs::remove_file(&config).unwrap();
    let made = Command::new("mkfifo").arg(&config).status().unwrap();
    assert!(made.success());
    let unreadable = "cannot read the configuration file";
    dry_run.logs(&[unreadable, "is not a regular file"]);
    let manifest = config.with_extension("manifests").join("shop.yaml");
    fs::write(&manifest, SHOP.replace("8080", "8081")).unwrap();
    wait_for(&mut dry_run.payloads, &[":8081"]);
    fs::remove_file(&config).unwrap();
    fs::write(&config, format!("{HEADER}oomScoreAdj: 0\n")).unwrap();
    dry_run.logs(&["was replaced by another configuration"]);
    dry_run.still_runs();
}

/// What changes beside it may never come to rest.
#[test]
fn a_file_in_a_busy_folder_is_seen_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    fs::write(&config, HEADER).unwrap();
    let dry_run = DryRun::start(&config, &[]);
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
    dry_run.ends_because_of(&config);
    is_over.store(true, Ordering::Relaxed);
    busy.join().unwrap();
}

/// The next start would end at once.
#[test]
fn a_file_whose_source_is_not_there_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let nowhere = kubeconfig_text("c", "server: 'http://127.0.0.1:1'", "");
    fs::write(at("there"), nowhere).unwrap();
    let text = |name: &str| {
        let path = at(name);
        format!(
            "{HEADER}clientConnection: {{kubeconfig: '{}'}}\n",
            path.display()
        )
    };
    fs::write(at("c.yaml"), text("there")).unwrap();
    let config = at("c.yaml");
    let mut dry_run = DryRun::spawn(&config, &["--hostname-override=node1"]);
    dry_run.logs(&["starting"]);
    fs::write(at("c.yaml"), text("gone")).unwrap();
    dry_run.logs(&["new configuration in", "gone"]);
    fs::write(at("c.yaml"), text("there")).unwrap();
    dry_run.logs(&["holds the running configuration again"]);
    fs::copy(at("there"), at("other")).unwrap();
    fs::write(at("c.yaml"), text("other")).unwrap();
    dry_run.ends_because_of(&config);
}

/// None of this changes a setting. Two changes of the manifests that are still followed show that
/// the daemon is not about to end.
#[test]
fn a_file_that_says_the_same_or_nothing_ends_no_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    let text = HEADER.to_owned();
    fs::write(&config, &text).unwrap();
    let mut dry_run = DryRun::start(&config, &[]);
    fs::write(&config, &text).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(&config).unwrap();
    for port in ["8081", "8082"] {
        let manifests = config.with_extension("manifests");
        let new = folder.path().join("new.yaml");
        fs::write(&new, SHOP.replace("8080", port)).unwrap();
        fs::rename(new, manifests.join("shop.yaml")).unwrap();
        wait_for(&mut dry_run.payloads, &[&format!("10.4.0.11:{port}")]);
    }
    fs::write(&config, format!("{text}oomScoreAdj: 0\n")).unwrap();
    dry_run.logs(&["was replaced by another configuration"]);
    dry_run.still_runs();
}

#[test]
fn a_config_map_that_is_swapped_is_reported_and_ends_nothing() {
    let mut volume = Volume::new(HEADER);
    let mut dry_run = DryRun::start(&volume.path(), &[]);
    let mut next = |text: &str| {
        let line = dry_run.logs(&["configuration"]);
        assert!(line.contains(text), "{line}, not `{text}`");
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
    dry_run.still_runs();
}
