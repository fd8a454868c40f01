//! CPU time of the programs that a thread runs.
//!
//! Kept separate from [`process`](super::process) because it is about time that the kernel counts,
//! and no wall clock: a restore that waits for the lock costs nothing.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use tokio::process::Child;

thread_local! {
    /// CPU time of all programs that this thread has waited for.
    static CHILDREN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// CPU time of this thread so far, with that of the programs that have ended on it.
pub fn thread_cpu() -> Duration {
    used(UsageWho::RUSAGE_THREAD) + CHILDREN.get()
}

/// Waits for a program and adds what it used to this thread's.
///
/// The kernel adds the time of a child to that of the process when the child is reaped, which
/// happens within one poll of the wait. A child of another thread that is reaped within the same
/// microseconds is counted by both.
pub(super) async fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let mut waited = pin!(child.wait());
    poll_fn(|context| {
        let before = used(UsageWho::RUSAGE_CHILDREN);
        let polled = waited.as_mut().poll(context);
        let grown = used(UsageWho::RUSAGE_CHILDREN).saturating_sub(before);
        CHILDREN.set(CHILDREN.get() + grown);
        polled
    })
    .await
}

/// Zero if the kernel does not know, which no Linux does for these.
fn used(who: UsageWho) -> Duration {
    let total = |usage: Usage| time(usage.user_time()) + time(usage.system_time());
    getrusage(who).map(total).unwrap_or_default()
}

fn time(value: TimeVal) -> Duration {
    let whole = u64::try_from(value.tv_sec()).unwrap_or_default();
    let micros = u64::try_from(value.tv_usec()).unwrap_or_default();
    Duration::from_secs(whole) + Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use std::process::Command as Program;

    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn a_program_costs_the_time_that_it_computes() {
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
