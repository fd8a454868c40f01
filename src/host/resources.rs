//! Resources of this process and of the programs that it runs: the OOM score, the limit of open
//! files, and CPU time.
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
    cpu_time(UsageWho::RUSAGE_THREAD) + CHILDREN.get()
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

#[cfg(test)]
mod tests {
    use std::process::Command as Program;

    use tokio::process::Command;

    use super::*;

    #[test]
    fn an_oom_score_is_written_only_if_it_differs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("oom_score_adj");
        fs::write(&path, "0\n").unwrap();
        assert_eq!(set_score(&path, -999).unwrap(), Changed::Yes);
        assert_eq!(fs::read_to_string(&path).unwrap(), "-999");
        assert_eq!(set_score(&path, -999).unwrap(), Changed::No);
    }

    #[test]
    fn the_oom_score_of_a_program_is_raised_and_never_lowered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("oom_score_adj");
        for (before, after) in [("-998\n", "0"), ("0\n", "0\n"), ("500\n", "500\n")] {
            fs::write(&path, before).unwrap();
            raise_score(&path, 0).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
        }
    }

    /// Raising the score takes no capability.
    #[test]
    fn the_oom_score_of_this_process_can_be_raised() {
        let read = || fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        let before: i16 = read().trim().parse().unwrap();
        let more = before.max(1);
        set_oom_score_adj(more).unwrap();
        assert_eq!(read().trim(), more.to_string());
    }

    #[tokio::test]
    async fn cpu_time_of_programs_is_counted_and_sleep_is_not() {
        #[expect(clippy::disallowed_methods, reason = "the test's own program")]
        let run = async |script: &str| {
            let before = CHILDREN.get();
            let mut command = Command::from(Program::new("sh"));
            let mut child = command.args(["-c", script]).spawn().unwrap();
            assert!(wait(&mut child).await.unwrap().success());
            CHILDREN.get().saturating_sub(before)
        };
        let idle = run("sleep 0.2").await;
        let computes = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        let busy = run(computes).await;
        let with_child = run(&format!("sh -c '{computes}'; true")).await;
        assert!(idle < Duration::from_millis(50), "{idle:?}");
        assert!(busy > idle * 2, "{idle:?}, {busy:?}");
        assert!(with_child > idle * 2, "{idle:?}, {with_child:?}");
        assert!(thread_cpu() >= busy + with_child);
    }
}
