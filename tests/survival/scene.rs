//! A node with a daemon, the rules that a fresh sync writes, and what every fault has in common.

use std::cell::Cell;
use std::fs;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::daemon::{Backend, Daemon, backend_programs};
use crate::support::node::{Node, SHOP};
use crate::support::process::children;
use crate::support::tell;
use crate::support::wait::{PATIENCE, ensure, eventually};

/// Faults are repaired without the periodic sync.
pub(crate) const FLAGS: [&str; 2] = [
    "--iptables-sync-period=10m",
    "--iptables-min-sync-period=10ms",
];

/// Last byte of the address of the endpoint that moves, in both states of the Service.
const STATES: [u8; 2] = [12, 13];

/// A node whose Service has two states, with the rules that belong to each.
pub(crate) struct Scene {
    pub(crate) node: Node,
    state: Cell<usize>,
    fresh: &'static [Vec<String>; 2],
}

/// Rules that a fresh sync writes in each state.
fn fresh(backend: Backend) -> &'static [Vec<String>; 2] {
    static FRESH: [OnceLock<[Vec<String>; 2]>; 2] = [const { OnceLock::new() }; 2];
    FRESH[backend as usize].get_or_init(|| {
        STATES.map(|last| {
            let node = Node::new(backend);
            node.write(&shop(last));
            let _daemon = node.start_with(backend_programs(backend), &FLAGS);
            node.wait_for_full_restore(&format!("--to-destination 10.4.0.{last}:8080"));
            ours(&node)
        })
    })
}

impl Scene {
    pub(crate) fn new(backend: Backend) -> Self {
        Self {
            node: Node::new(backend),
            state: Cell::new(0),
            fresh: fresh(backend),
        }
    }

    /// Starts the daemon and waits until its rules are complete.
    pub(crate) fn start(&self, bin: TempDir) -> Daemon {
        let daemon = self.node.start_with(bin, &FLAGS);
        self.wait_until_fresh("start", || daemon.log());
        daemon
    }

    /// Moves the endpoint.
    pub(crate) fn change(&self) {
        self.state.set(1 - self.state.get());
        self.node.write(&shop(STATES[self.state.get()]));
    }

    /// Waits until our rules are those of a fresh sync of the current state.
    #[track_caller]
    pub(crate) fn wait_until_fresh(&self, what: &str, log: impl Fn() -> String) {
        let wanted = &self.fresh[self.state.get()];
        eventually(PATIENCE, || {
            let found = ours(&self.node);
            ensure(found == *wanted, || {
                format!("{what}: {found:#?}\nwanted {wanted:#?}\n{}", log())
            })
        });
    }

    /// Causes a fault and makes a change right after it; both are repaired, and nothing is left.
    #[track_caller]
    pub(crate) fn survives(&self, daemon: &Daemon, what: &str, fault: impl FnOnce()) {
        let files = open_files(daemon.id());
        fault();
        let start = Instant::now();
        self.wait_until_fresh(what, || daemon.log());
        self.report(what, start.elapsed());
        self.change();
        self.wait_until_fresh(what, || daemon.log());
        nothing_is_left(daemon.id(), files, what);
    }

    pub(crate) fn report(&self, what: &str, time: Duration) {
        let backend = self.node.backend.name();
        let seconds = time.as_secs_f64();
        tell(format!(
            "fault: {backend}: {what}: repaired in {seconds:.2} s"
        ));
    }
}

fn shop(last: u8) -> String {
    SHOP.replace("10.4.0.12", &format!("10.4.0.{last}"))
}

/// Our chains and rules, and all rules of built-in chains; the latter in one order, as a jump that
/// was lost is put back on top.
pub(crate) fn ours(node: &Node) -> Vec<String> {
    let mut table = String::new();
    let mut lines = Vec::new();
    for line in node.rules_alone() {
        if let Some(name) = line.strip_prefix('*') {
            name.clone_into(&mut table);
        }
        let Some(rest) = line.strip_prefix("-A ").or(line.strip_prefix(':')) else {
            continue;
        };
        let chain = rest.split(' ').next().unwrap_or_default().to_owned();
        let is_ours = chain.starts_with("KUBE-");
        if is_ours || line.starts_with("-A") {
            // A stable sort keeps the order of rules within a chain of ours.
            let rule = if is_ours { String::new() } else { line.clone() };
            let is_rule = line.starts_with("-A");
            lines.push((table.clone(), chain, is_rule, rule, line));
        }
    }
    lines.sort_by(|a, b| (&a.0, &a.1, a.2, &a.3).cmp(&(&b.0, &b.1, b.2, &b.3)));
    let named = lines.into_iter();
    named
        .map(|(table, .., line)| format!("{table}: {line}"))
        .collect()
}

/// Number of open file descriptors of a process.
fn count_files(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

/// Number of open file descriptors of a process once it is calm: each child has some.
#[track_caller]
pub(crate) fn open_files(process: u32) -> usize {
    eventually(PATIENCE, || {
        let before = count_files(process);
        let mut is_calm = true;
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(50));
            is_calm &= children(process).is_empty() && count_files(process) == before;
        }
        ensure(is_calm, || format!("{process} is still busy"))?;
        Ok(before)
    })
}

#[track_caller]
pub(crate) fn nothing_is_left(process: u32, files_before: usize, what: &str) {
    eventually(PATIENCE, || {
        let (files, children) = (count_files(process), children(process));
        ensure(files == files_before && children.is_empty(), || {
            format!("{what}: {files_before} files, then {files}; children {children:?}")
        })
    });
}

/// The daemon through a shell that redirects its stderr, with more flags.
pub(crate) fn through_shell(node: &Node, bin: &TempDir, redirect: &str, more: &str) -> Command {
    let mut command = node.netns.command("sh");
    command.arg("-c").arg(format!(
        "PATH={}:$PATH exec {} --conntrack-max-per-core=0 --manifests {} \
         --hostname-override=node1 --cluster-cidr=10.4.0.0/14 --iptables-backend=path {} {more} \
         {redirect}",
        bin.path().display(),
        env!("CARGO_BIN_EXE_deltaproxy"),
        node.manifests.path().display(),
        FLAGS.join(" "),
    ));
    command
}
