//! The program under test, in a namespace, with one of the two iptables backends.
//!
//! `PROXY_UNDER_TEST` names another program to start instead, such as a stock kube-proxy: the same
//! tests then show what upstream does, which is how they were checked.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::http;
use super::kube;
use super::netns::Netns;
use super::process::Process;
use super::tell;
use super::wait::{PATIENCE, ensure, eventually};

/// A kube-proxy that has no zone this long after it began to serve never gets one.
const ZONE_ARRIVES: Duration = Duration::from_secs(5);

/// Missing it once is rare.
const MOST_STARTS: usize = 4;

/// Which set of iptables programs is first in the PATH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// `iptables-nft`
    Nft,
    /// `iptables-legacy`
    Legacy,
}

impl Backend {
    /// As in the programs' names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nft => "nft",
            Self::Legacy => "legacy",
        }
    }
}

/// Which program is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// The binary that cargo built for this test.
    Deltaproxy,
    /// Another one, which takes kube-proxy's flags and no subcommand.
    KubeProxy(PathBuf),
}

impl Program {
    /// What `PROXY_UNDER_TEST` says, or our own.
    pub fn under_test() -> Self {
        std::env::var_os("PROXY_UNDER_TEST")
            .map_or(Self::Deltaproxy, |path| Self::KubeProxy(path.into()))
    }

    /// The kube-proxy that `tests/run.sh` builds.
    pub fn kube_proxy() -> Self {
        Self::KubeProxy(kube::binary("kube-proxy").unwrap_or_else(|why| panic!("{why}")))
    }

    /// Whether it is our own, which promises more than upstream does.
    pub fn is_deltaproxy(&self) -> bool {
        *self == Self::Deltaproxy
    }

    fn add_to(&self, command: &mut Command) {
        // No command, as kube-proxy has none: with flags alone, ours runs.
        match self {
            Self::Deltaproxy => command.arg(env!("CARGO_BIN_EXE_deltaproxy")),
            Self::KubeProxy(path) => command.arg(path).args(["--proxy-mode=iptables", "-v=2"]),
        };
        // The namespaces of a test may not raise the machine's conntrack limits.
        command.arg("--conntrack-max-per-core=0");
    }
}

/// A running proxy. Dropping it kills it.
pub struct Daemon {
    process: Process,
    /// Kept for as long as the program runs: its log, its programs, its configuration.
    folders: Vec<TempDir>,
}

impl Daemon {
    /// Where `/healthz` and `/livez` are.
    pub const HEALTH: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 10256);
    /// Where `/metrics` is.
    pub const METRICS: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 10249);

    /// Starts the program under test and waits until its health server answers.
    pub fn start(netns: &Netns, backend: Backend, args: &[&str]) -> Self {
        Self::start_program(&Program::under_test(), netns, backend, args)
    }

    /// Starts one that follows the examples as Node `node1`, with the metrics port at this address,
    /// and waits until both families have rules.
    pub fn start_on_examples(netns: &Netns, backend: Backend, metrics: &str) -> Self {
        let metrics = format!("--metrics-bind-address={metrics}");
        let args = [
            "--manifests=deploy/examples",
            "--hostname-override=node1",
            &metrics,
        ];
        let daemon = Self::start(netns, backend, &args);
        for family in ["IPv4", "IPv6"] {
            daemon.wait_for_log(&format!("synced family={family}"));
        }
        daemon
    }

    /// The same for a given program, for comparisons side by side.
    pub fn start_program(
        program: &Program,
        netns: &Netns,
        backend: Backend,
        args: &[&str],
    ) -> Self {
        let bin = backend_programs(backend);
        Self::start_with(program, netns, bin, args)
    }

    /// The same where the Node has a zone.
    ///
    /// kube-proxy adds the handler for its Node to an informer that runs already, and then
    /// registers its own receivers: on a busy machine the zone is delivered in between, and never
    /// again. Such a one serves other endpoints until its Node changes; it is started again.
    ///
    /// Upstream: cmd/kube-proxy/app/server.go, `Run`; pkg/proxy/config/config.go,
    /// `handleNodeEvent` (v1.37)
    pub fn start_in_zone(
        program: &Program,
        netns: &Netns,
        backend: Backend,
        args: &[&str],
    ) -> Self {
        if program.is_deltaproxy() {
            return Self::start_program(program, netns, backend, args);
        }
        // It tells of its zone from 4 on.
        let args = [args, &["-v=4"]].concat();
        for _ in 0..MOST_STARTS {
            let daemon = Self::start_program(program, netns, backend, &args);
            if daemon.knows_zone() {
                return daemon;
            }
            tell("kube-proxy: one missed its Node's zone and is started again");
        }
        panic!("kube-proxy missed its Node's zone {MOST_STARTS} times in a row");
    }

    /// Whether kube-proxy's log says for both families that the zone has arrived, or does so soon.
    fn knows_zone(&self) -> bool {
        let is_told = || {
            let log = self.log();
            // The second is what releases before 1.34 write.
            log.matches("Updated proxier node topology labels").count()
                + log.matches("Updated proxier node labels").count()
                >= 2
        };
        let start = Instant::now();
        while !is_told() && start.elapsed() < ZONE_ARRIVES {
            std::thread::sleep(Duration::from_millis(30));
        }
        is_told()
    }

    /// The same with the programs of a folder of the test's own.
    pub fn start_with(program: &Program, netns: &Netns, bin: TempDir, args: &[&str]) -> Self {
        Self::spawn(program, netns, bin, args).serving(netns)
    }

    /// Waits until its health server answers.
    pub fn serving(mut self, netns: &Netns) -> Self {
        eventually(PATIENCE, || {
            self.process.assert_running();
            http::get(netns, Self::HEALTH, "/livez")
        });
        self
    }

    /// The same without waiting: for one that serves no health, or is about to fail.
    pub fn spawn(program: &Program, netns: &Netns, bin: TempDir, args: &[&str]) -> Self {
        let mut path = OsString::from("PATH=");
        path.push(bin.path());
        path.push(":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = netns.command("env");
        command.arg(path);
        program.add_to(&mut command);
        command.args(args);
        let process = Process::start("the proxy", &mut command, &folder.path().join("log"));
        Self {
            process,
            folders: vec![folder, bin],
        }
    }

    /// Keeps a folder, such as one with a configuration file, for as long as the program runs.
    pub fn keeping(mut self, folder: TempDir) -> Self {
        self.folders.push(folder);
        self
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Waits until the log holds this text.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        self.process.wait_for_log(text);
    }

    /// Asserts that the log holds this text.
    #[track_caller]
    pub fn assert_logged(&self, text: &str) {
        let log = self.log();
        assert!(log.contains(text), "no `{text}` in\n{log}");
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Fails the test when the program has ended.
    #[track_caller]
    pub fn assert_running(&mut self) {
        self.process.assert_running();
    }

    /// The exit status, once the program has ended by itself.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.process.exited()
    }

    /// Sends SIGTERM and waits for the end.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        self.process.terminate(PATIENCE)
    }
}

/// Waits until the health server says 200 on `path`.
#[track_caller]
pub fn wait_until_ok(netns: &Netns, path: &str) {
    eventually(PATIENCE, || {
        let (status, body) = http::get(netns, Daemon::HEALTH, path)?;
        ensure(status == 200, || format!("{path} says {status}: {body}"))
    });
}

/// A folder with the backend's programs under their plain names.
pub fn backend_programs(backend: Backend) -> TempDir {
    let bin = tempfile::tempdir().expect("a temporary folder");
    for family in ["iptables", "ip6tables"] {
        for suffix in ["", "-save", "-restore"] {
            let real = real_program(backend, &format!("{family}{suffix}"));
            // The programs look at the name they are called by; the plain one serves both backends.
            symlink(real, bin.path().join(format!("{family}{suffix}"))).expect("make a link");
        }
    }
    bin
}

/// Where the backend's program of that plain name is.
pub fn real_program(backend: Backend, plain: &str) -> PathBuf {
    let (family, suffix) = plain
        .split_once('-')
        .map_or((plain, String::new()), |(family, rest)| {
            (family, format!("-{rest}"))
        });
    find(&format!("{family}-{}{suffix}", backend.name()))
}

fn find(program: &str) -> PathBuf {
    ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("`{program}` is not installed"))
}
