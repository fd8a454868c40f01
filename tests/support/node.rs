//! One node without a control plane: its manifests, and the daemon on it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::daemon::{Backend, Daemon, Program, backend_programs, real_program};
use super::http;
use super::netns::Netns;
use super::process::run;
use super::rules::{self, Family, saved};
use super::wait::{PATIENCE, ensure, eventually};

/// One Service with two endpoints.
pub const SHOP: &str = "\
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shop-1, labels: {kubernetes.io/service-name: shop}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.4.0.11]}, {addresses: [10.4.0.12]}]
";

/// A node, its manifests, and the daemon on it.
pub struct Node {
    /// Where it all is.
    pub netns: Netns,
    /// Which programs it has.
    pub backend: Backend,
    /// What the daemon reads.
    pub manifests: TempDir,
}

impl Node {
    /// With the one Service, and nothing running.
    pub fn new(backend: Backend) -> Self {
        let netns = Netns::new("fail");
        netns.ip("link set lo up");
        let manifests = tempfile::tempdir().expect("a temporary folder");
        let node = Self {
            netns,
            backend,
            manifests,
        };
        node.write(SHOP);
        node
    }

    /// Replaces the manifests by renaming, as editors do.
    pub fn write(&self, text: &str) {
        let new = self.manifests.path().join(".new");
        std::fs::write(&new, text).expect("write manifests");
        std::fs::rename(new, self.manifests.path().join("shop.yaml")).expect("rename manifests");
    }

    /// Starts the daemon with these programs.
    pub fn start(&self, bin: TempDir) -> Daemon {
        self.start_with(bin, &[])
    }

    /// The same with more flags, which win over the others.
    pub fn start_with(&self, bin: TempDir, more: &[&str]) -> Daemon {
        self.spawn(bin, more).serving(&self.netns)
    }

    /// The same without waiting, for a daemon without a health server.
    pub fn spawn(&self, bin: TempDir, more: &[&str]) -> Daemon {
        let manifests = self.manifests.path().to_str().expect("a path in UTF-8");
        let args: &[&str] = &[
            "--manifests",
            manifests,
            "--hostname-override=node1",
            "--cluster-cidr=10.4.0.0/14",
            "--iptables-sync-period=1s",
            // Those of the folder, however this machine names others.
            "--iptables-backend=path",
        ];
        let args = [args, more].concat();
        Daemon::spawn(&Program::Deltaproxy, &self.netns, bin, &args)
    }

    /// The IPv4 rules as they are saved.
    pub fn rules(&self) -> String {
        saved(&self.netns, self.backend, Family::V4)
    }

    /// The IPv4 rules without times and counters.
    pub fn rules_alone(&self) -> Vec<String> {
        rules::plain(&self.rules()).map(str::to_owned).collect()
    }

    /// Waits until a saved rule holds this text.
    #[track_caller]
    pub fn wait_for_rule(&self, text: &str) {
        eventually(PATIENCE, || {
            let rules = self.rules();
            ensure(rules.contains(text), || format!("no `{text}` in\n{rules}"))
        });
    }

    /// Waits until a saved rule holds this text and the full restore that wrote it is over: on
    /// legacy the tables are committed one by one, and the canary of mangle comes last.
    #[track_caller]
    pub fn wait_for_full_restore(&self, text: &str) {
        eventually(PATIENCE, || {
            let rules = self.rules();
            let is_over = rules.matches(":KUBE-PROXY-CANARY").count() == 3;
            ensure(is_over && rules.contains(text), || {
                format!("no `{text}` or no canary in\n{rules}")
            })
        });
    }

    /// Waits for a status of `/healthz`.
    #[track_caller]
    pub fn wait_for_health(&self, wanted: u16) {
        eventually(PATIENCE, || {
            let (status, body) = http::get(&self.netns, Daemon::HEALTH, "/healthz")?;
            ensure(status == wanted, || {
                format!("{status}, not {wanted}: {body}")
            })
        });
    }

    /// Runs the real iptables there. It waits for the lock, which all tests on legacy share.
    pub fn iptables(&self, args: &[&str]) {
        run(self
            .netns
            .command(real_program(self.backend, "iptables"))
            .arg("-w")
            .args(args));
    }

    /// Hands this to the real iptables-restore there, which commits each table at once.
    pub fn restore(&self, payload: &str) {
        rules::restore(
            &self.netns,
            self.backend,
            Family::V4,
            &["--noflush"],
            payload,
        );
    }

    /// Replaces whole tables, as a firewall does that loads its rules.
    pub fn replace_tables(&self, payload: &str) {
        rules::restore(
            &self.netns,
            self.backend,
            Family::V4,
            &["--counters"],
            payload,
        );
    }

    /// The metrics page; empty if it is not served.
    pub fn metrics(&self) -> String {
        http::metrics(&self.netns, Daemon::METRICS)
    }

    /// Whether the metrics page has this line.
    pub fn metric(&self, line: &str) -> bool {
        self.metrics().lines().any(|known| known == line)
    }
}

/// The backend's programs, but `iptables-restore` is this script; `$REAL` in it is the real one.
pub fn with_restore(backend: Backend, script: &str) -> TempDir {
    let bin = backend_programs(backend);
    replace_program(&bin, backend, "iptables-restore", script);
    bin
}

/// Puts a script in the place of one of these programs; `$REAL` in it is the real one.
pub fn replace_program(bin: &TempDir, backend: Backend, name: &str, script: &str) {
    let path = bin.path().join(name);
    std::fs::remove_file(&path).expect("remove a link");
    write_script(&path, &real_program(backend, name), script);
}

/// Copies the extensions of the iptables binaries without this one, as on a node that lacks it.
pub fn copy_extensions(to: &Path, without: &str) {
    let folders = [
        "/usr/lib/x86_64-linux-gnu/xtables",
        "/usr/lib/aarch64-linux-gnu/xtables",
    ];
    let found = folders
        .into_iter()
        .find(|folder| Path::new(folder).exists());
    let from = found.unwrap_or("/usr/lib/xtables");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name");
        if name != without {
            std::fs::copy(&path, to.join(name)).expect("copy an extension");
        }
    }
}

/// A program that is this script; `$REAL` in it is `real`.
pub fn write_script(path: &Path, real: &Path, script: &str) {
    let text = format!("#!/bin/sh\nREAL={}\n{script}\n", real.display());
    std::fs::write(path, text).expect("write a script");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("chmod");
}

/// The backend's programs, but each run of `iptables-restore` adds a byte to this file.
pub fn with_counted_restore(backend: Backend, calls: &Path) -> TempDir {
    let script = format!("echo >>{}\nexec $REAL \"$@\"", calls.display());
    with_restore(backend, &script)
}

/// Makes the proxy check all three tables so often again, by changes that another program might
/// make: while nothing changes, it checks nothing. Each check of a table is a run.
pub fn wait_for_looks(node: &Node, calls: &Path, looks: usize) {
    let count = || std::fs::read(calls).map_or(0, |text| text.len());
    let before = count();
    eventually(PATIENCE, || {
        touch_tables(node);
        let now = count();
        ensure(now >= before + 3 * looks, || {
            format!("{before}, then {now}")
        })
    });
}

/// Adds a rule to each table and deletes it, in a chain that is empty and that nothing leads to.
pub fn touch_tables(node: &Node) {
    for command in [&["-A", CANARY, "-j", "RETURN"][..], &["-F", CANARY]] {
        for table in ["nat", "filter", "mangle"] {
            node.iptables(&[&["-t", table], command].concat());
        }
        // Sizes of legacy tables are read every second.
        if node.backend == Backend::Legacy {
            std::thread::sleep(Duration::from_millis(1200));
        }
    }
}

const CANARY: &str = "KUBE-PROXY-CANARY";
