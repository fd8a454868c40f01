//! The memory of a program, of the programs that it starts, and of what the kernel keeps for them,
//! as a container with a memory limit would count it.

use std::fs;
use std::path::{Path, PathBuf};

/// A memory cgroup, removed when dropped.
pub struct Cgroup {
    path: PathBuf,
    parent: PathBuf,
    /// Highest use so far, in bytes.
    peak: &'static str,
}

impl Cgroup {
    /// Makes one, in version 1 or 2 of cgroups.
    pub fn new() -> Self {
        let version_1 = Path::new("/sys/fs/cgroup/memory");
        let (parent, peak) = if version_1.exists() {
            (version_1, "memory.max_usage_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.peak")
        };
        let name = format!("deltaproxy-{}", std::process::id());
        let path = parent.join(name);
        fs::create_dir_all(&path).expect("a cgroup");
        Self {
            path,
            parent: parent.to_owned(),
            peak,
        }
    }

    /// Starts a program in it: this process is in it meanwhile, since children inherit it.
    pub fn start<T>(&self, start: impl FnOnce() -> T) -> T {
        enter(&self.path);
        let started = start();
        enter(&self.parent);
        started
    }

    /// The highest use so far, in MiB.
    pub fn peak(&self) -> f64 {
        let text = fs::read_to_string(self.path.join(self.peak)).expect("the peak");
        text.trim().parse::<f64>().expect("a number") / f64::from(1 << 20)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

fn enter(path: &Path) {
    let pid = std::process::id().to_string();
    fs::write(path.join("cgroup.procs"), pid).expect("a process in the cgroup");
}
