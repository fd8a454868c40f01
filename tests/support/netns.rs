//! Network namespaces that belong to one test and vanish with it.
//!
//! They are named ones (`ip netns`), so that a person can look into a hanging test. The name holds
//! the pid of the test program; what a killed program left behind is swept by the next one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::left_out::{Part, is_left_out};
use super::process::run;
use super::wait::{PATIENCE, ensure, eventually};
use super::{Need, machine_has};

const PREFIX: &str = "dptest";

/// A network namespace with its loopback up. Dropping it kills what runs in it and deletes it.
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes one; `role` only makes the name readable.
    ///
    /// # Panics
    ///
    /// Panics if the run leaves out tests that need a kernel: the test must ask [`machine_has`].
    pub fn new(role: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        static SWEEP: Once = Once::new();
        assert!(
            !is_left_out(Part::Machine),
            "a test that makes network namespaces must begin with `machine_has`"
        );
        SWEEP.call_once(sweep);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}-{}-{number}-{role}", std::process::id());
        run(Command::new("ip").args(["netns", "add", &name]));
        let netns = Self { name };
        netns.ip("link set lo up");
        netns
    }

    /// The name that `ip netns` knows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where a program can open it.
    pub fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// Runs `ip ARGS` on this namespace.
    #[track_caller]
    pub fn ip(&self, args: &str) {
        run(Command::new("ip")
            .args(["-n", &self.name])
            .args(args.split_whitespace()));
    }

    /// A command that will run `program` inside. Programs of legacy iptables use the namespace's
    /// own lock, as those of a machine would: the rules are its own, too.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command.env("XTABLES_LOCKFILE", self.xtables_lock());
        command
    }

    /// Runs `program` inside to its end, and returns what it printed. Without `ip netns exec`,
    /// which takes as long as a short program: for those that tests run thousands of times.
    #[track_caller]
    pub fn run(&self, program: &str) -> String {
        let mut command = Command::new(program);
        command.env("XTABLES_LOCKFILE", self.xtables_lock());
        self.enter(|| run(&mut command))
    }

    /// Path of that lock.
    pub fn xtables_lock(&self) -> PathBuf {
        xtables_lock(&self.name)
    }

    /// Adds an address without duplicate address detection, so that it works at once.
    #[track_caller]
    pub fn address(&self, device: &str, address: &str) {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        self.ip(&format!("address add {address} dev {device}{nodad}"));
    }

    /// Joins two namespaces by a pair of devices, and waits until the kernel has noticed that both
    /// are up: until then it drops what is sent.
    pub fn join(&self, device: &str, other: &Self, other_device: &str) {
        self.ip(&format!(
            "link add {device} type veth peer name {other_device} netns {}",
            other.name
        ));
        self.ip(&format!("link set {device} up"));
        other.ip(&format!("link set {other_device} up"));
        for (netns, device) in [(self, device), (other, other_device)] {
            eventually(PATIENCE, || {
                let show = ["-n", &netns.name, "link", "show", "dev", device];
                let shown = run(Command::new("ip").args(show));
                ensure(shown.contains(" state UP "), || format!("not up: {shown}"))
            });
        }
    }

    /// Deletes a device, if it is there. One that led into a namespace which is gone stays until
    /// the kernel has dismantled all of that, which takes its time with 100,000 rules in it.
    pub fn forget(&self, device: &str) {
        let delete = ["-n", &self.name, "link", "delete", "dev", device];
        let deleted = Command::new("ip").args(delete).output();
        deleted.expect("run ip");
    }

    /// Makes a bridge that is up.
    pub fn bridge(&self, device: &str) {
        self.ip(&format!("link add {device} type bridge"));
        self.ip(&format!("link set {device} up"));
    }

    /// Lets it route, for both families.
    pub fn forward(&self) {
        self.sysctl("ipv4/ip_forward", "1");
        self.sysctl("ipv6/conf/all/forwarding", "1");
    }

    /// Writes `/proc/sys/net/KEY`, which is the namespace's own for a thread inside it.
    pub fn sysctl(&self, key: &str, value: &str) {
        let path = format!("/proc/sys/net/{key}");
        self.enter(|| fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}")));
    }

    /// Returns the value of a setting below `/proc/sys/net`.
    pub fn setting(&self, name: &str) -> String {
        let path = format!("/proc/sys/net/{name}");
        self.enter(|| std::fs::read_to_string(path).unwrap().trim().to_owned())
    }

    /// The processes inside.
    pub fn pids(&self) -> Vec<Pid> {
        pids(&self.name)
    }

    /// Runs `work` on a thread of its own inside the namespace, and waits for it.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = self.path();
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                move_into(&path);
                work()
            });
            inside
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        delete(&self.name);
    }
}

/// Moves the calling thread, which has no other use, into a namespace for good.
pub fn move_into(path: &Path) {
    let namespace = File::open(path).expect("open a namespace");
    setns(namespace, CloneFlags::CLONE_NEWNET).expect("enter a namespace");
}

/// Moves the calling thread into a new network namespace for good. Returns `false` if the test is
/// to be skipped.
pub fn enter_new() -> bool {
    let can_enter = machine_has(Need::Kernel);
    if can_enter {
        unshare(CloneFlags::CLONE_NEWNET).expect("make a network namespace");
    }
    can_enter
}

fn delete(name: &str) {
    for pid in pids(name) {
        // A test that moved its main thread into a namespace must not shoot itself.
        if pid != Pid::this() {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
    let _ = Command::new("ip").args(["netns", "delete", name]).status();
    let _ = fs::remove_file(xtables_lock(name));
}

fn xtables_lock(name: &str) -> PathBuf {
    Path::new("/run").join(format!("{name}.xtables.lock"))
}

fn pids(name: &str) -> Vec<Pid> {
    let output = Command::new("ip").args(["netns", "pids", name]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default()
        .lines()
        .filter_map(|id| id.parse().ok())
        .map(Pid::from_raw)
        .collect()
}

/// Deletes namespaces of test programs that no longer run.
fn sweep() {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut parts = name.split('-');
        if parts.next() != Some(PREFIX) {
            continue;
        }
        if let Some(pid) = parts.next()
            && !Path::new("/proc").join(pid).exists()
        {
            delete(&name);
        }
    }
}
