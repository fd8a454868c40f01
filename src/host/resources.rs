//! Resources of this process and of the programs that it runs: the OOM score, the limit of open
//! files, CPU time, and a network namespace.
//!
//! # Source
//!
//! Upstream: pkg/util/oom/oom_linux.go, `applyOOMScoreAdj` (v1.37)
//! Upstream: Go's standard library raises the limit of open files: src/os/rlimit.go (Go 1.26)

use std::cell::Cell;
use std::fs;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::resource::{Resource, Usage, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use tokio::process::Child;

use super::sysctl::Changed;
use crate::linux;

/// Sets `oom_score_adj` of this process: from -1000, never killed, to 1000, killed first. Programs
/// started later inherit the score.
///
/// # Errors
///
/// The score differs and cannot be written; lowering it takes CAP_SYS_RESOURCE.
pub(crate) fn set_oom_score_adj(score: i16) -> io::Result<Changed> {
    let path = Path::new("/proc/self/oom_score_adj");
    // As upstream: one retry, whatever the error was.
    set_score(path, score).or_else(|_| set_score(path, score))
}

/// Sets `oom_score_adj` of a program just started, unless its score is already as high.
///
/// # Errors
///
/// The score cannot be read or written, for example where `/proc` is read-only.
pub(in crate::host) fn raise_oom_score_adj(pid: u32, score: i16) -> io::Result<Changed> {
    let path = format!("/proc/{pid}/oom_score_adj");
    raise_score(Path::new(&path), score)
}

fn raise_score(path: &Path, score: i16) -> io::Result<Changed> {
    if read_score(path)? < score {
        fs::write(path, score.to_string()).map(|()| Changed::Yes)
    } else {
        Ok(Changed::No)
    }
}

fn set_score(path: &Path, score: i16) -> io::Result<Changed> {
    if read_score(path)? == score {
        return Ok(Changed::No);
    }
    fs::write(path, score.to_string()).map(|()| Changed::Yes)
}

fn read_score(path: &Path) -> io::Result<i16> {
    let text = fs::read_to_string(path)?;
    let score = text.trim().parse();
    score.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Raises the soft limit of open files to the hard limit, also for programs started later.
///
/// The usual soft limit is 1024, and each health check node port needs a socket per family.
pub(crate) fn raise_open_files() -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(())
}

/// Returns the maximum number of open files of this process; 1,024, as usual, if it is unknown.
pub(crate) fn max_open_files() -> usize {
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    usize::try_from(soft).unwrap_or(usize::MAX)
}

thread_local! {
    /// CPU time of all programs that this thread has waited for.
    static CHILDREN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns the CPU time of this thread so far, plus that of the programs that ended on it.
///
/// CPU time and not wall clock: a restore that waits for the lock costs nothing.
pub(crate) fn thread_cpu() -> Duration {
    cpu_time(linux::THREAD) + CHILDREN.get()
}

/// Waits for a program and adds its CPU time to that of this thread.
///
/// The kernel adds the time of a child to that of the process when the child is reaped, which
/// happens within one poll of the wait. A child of another thread that is reaped within the same
/// microseconds is counted by both.
pub(in crate::host) async fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let mut waited = pin!(child.wait());
    poll_fn(|context| {
        let before = cpu_time(UsageWho::RUSAGE_CHILDREN);
        let polled = waited.as_mut().poll(context);
        let grown = cpu_time(UsageWho::RUSAGE_CHILDREN).saturating_sub(before);
        CHILDREN.set(CHILDREN.get() + grown);
        polled
    })
    .await
}

/// Returns user and system time; zero on an error, which Linux never returns for these arguments.
fn cpu_time(who: UsageWho) -> Duration {
    let total = |usage: Usage| duration(usage.user_time()) + duration(usage.system_time());
    getrusage(who).map(total).unwrap_or_default()
}

fn duration(value: TimeVal) -> Duration {
    let whole = u64::try_from(value.tv_sec()).unwrap_or_default();
    let micros = u64::try_from(value.tv_usec()).unwrap_or_default();
    Duration::from_secs(whole) + Duration::from_micros(micros)
}

/// Runs work on a thread in a network namespace of its own, in which programs have no rules but
/// theirs. The namespace ends with the thread, and with it all rules in it.
///
/// # Errors
///
/// The namespace cannot be created: mostly `EPERM`, without the capability `SYS_ADMIN`.
#[cfg(feature = "tools")]
pub(crate) fn in_own_network<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let in_namespace = || {
        linux::unshare_network()?;
        Ok(work())
    };
    std::thread::scope(|scope| {
        let done = scope.spawn(in_namespace).join();
        done.unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    })
}

#[cfg(test)]
#[path = "tests/resources.rs"]
mod tests;
