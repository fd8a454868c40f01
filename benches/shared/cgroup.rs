//! The memory of a program, of the programs that it starts, and of what the kernel keeps for them,
//! as a container with a memory limit would count it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Short compared with the hundreds of milliseconds for which a restore holds its memory.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);

/// Highest use of memory of a cgroup, in MiB.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Peak {
    /// Of all processes, with the kernel memory that is charged to the cgroup.
    pub all: f64,
    /// Of the processes alone, without kernel memory such as the rules. Sampled: a peak that lasts
    /// less than some milliseconds is missing.
    pub programs: f64,
}

/// A memory cgroup, removed when dropped.
pub struct Cgroup {
    path: PathBuf,
    parent: PathBuf,
    /// File with the highest use so far, in bytes.
    peak: &'static str,
    /// Highest use without the kernel's, in bytes.
    programs: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    sampler: Option<JoinHandle<()>>,
}

impl Cgroup {
    /// Makes one, in version 1 or 2 of cgroups.
    pub fn new() -> Self {
        let version_1 = Path::new("/sys/fs/cgroup/memory");
        let (parent, peak, use_of_programs): (_, _, fn(&Path) -> u64) = if version_1.exists() {
            let use_of_programs = |path: &Path| {
                let all = number(&path.join("memory.usage_in_bytes"));
                all.saturating_sub(number(&path.join("memory.kmem.usage_in_bytes")))
            };
            (version_1, "memory.max_usage_in_bytes", use_of_programs)
        } else {
            let use_of_programs = |path: &Path| {
                let all = number(&path.join("memory.current"));
                let stat = fs::read_to_string(path.join("memory.stat")).expect("memory.stat");
                let kernel = stat.lines().find_map(|line| line.strip_prefix("kernel "));
                all.saturating_sub(kernel.map_or(0, |bytes| bytes.parse().expect("a number")))
            };
            (Path::new("/sys/fs/cgroup"), "memory.peak", use_of_programs)
        };
        let name = format!("deltaproxy-{}", std::process::id());
        let path = parent.join(name);
        fs::create_dir_all(&path).expect("a cgroup");
        let (programs, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let sampler = {
            let (path, programs, is_over) = (path.clone(), programs.clone(), is_over.clone());
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    programs.fetch_max(use_of_programs(&path), Ordering::Relaxed);
                    thread::sleep(SAMPLE_INTERVAL);
                }
            })
        };
        Self {
            path,
            parent: parent.to_owned(),
            peak,
            programs,
            is_over,
            sampler: Some(sampler),
        }
    }

    /// Starts a program in it: this process is in it meanwhile, since children inherit it.
    pub fn start<T>(&self, start: impl FnOnce() -> T) -> T {
        enter(&self.path);
        let started = start();
        enter(&self.parent);
        started
    }

    /// The highest use so far.
    pub fn peak(&self) -> Peak {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        Peak {
            all: mib(number(&self.path.join(self.peak))),
            programs: mib(self.programs.load(Ordering::Relaxed)),
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(sampler) = self.sampler.take() {
            let _ = sampler.join();
        }
        let _ = fs::remove_dir(&self.path);
    }
}

fn enter(path: &Path) {
    let pid = std::process::id().to_string();
    fs::write(path.join("cgroup.procs"), pid).expect("a process in the cgroup");
}

fn number(path: &Path) -> u64 {
    let text = fs::read_to_string(path).expect("a file of the cgroup");
    text.trim().parse().expect("a number")
}
