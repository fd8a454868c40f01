//! How long a running program waits for the xtables lock.
//!
//! Apart because nobody says it: iptables 1.8 waits in silence, and only the kernel knows. It is
//! asked now and then which system call the program sleeps in.

use std::convert::Infallible;
use std::time::Duration;

use nix::libc;

/// How often to look, and so how exact the answer is. A tenth of a second is far below any wait
/// that matters to a sync and costs one small read.
const INTERVAL: Duration = Duration::from_millis(100);

/// The waits of one program seen so far.
pub(super) struct LockWait {
    pid: Option<u32>,
    seen: u32,
}

impl LockWait {
    /// Of the process `pid`; of none, nothing is ever seen.
    pub(super) const fn new(pid: Option<u32>) -> Self {
        Self { pid, seen: 0 }
    }

    /// Looks until dropped.
    pub(super) async fn watch(&mut self) -> Infallible {
        let Some(pid) = self.pid else {
            return std::future::pending().await;
        };
        let path = format!("/proc/{pid}/syscall");
        loop {
            tokio::time::sleep(INTERVAL).await;
            // Unreadable: the kernel or the container forbids it. Then no wait is ever seen.
            if std::fs::read_to_string(&path).is_ok_and(|line| is_flock(&line)) {
                self.seen += 1;
            }
        }
    }

    /// The sum of what was seen.
    pub(super) fn seen(&self) -> Duration {
        INTERVAL * self.seen
    }
}

/// Whether a line of `/proc/PID/syscall` tells of a sleep in `flock`.
fn is_flock(line: &str) -> bool {
    let number = line.split(' ').next().and_then(|word| word.parse().ok());
    number == Some(libc::SYS_flock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flock_counts() {
        let flock = format!(
            "{} 0x3 0x2 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n",
            libc::SYS_flock
        );
        assert!(is_flock(&flock));
        for other in ["running\n", "-1 0x7ffd 0x7f00\n", "0 0x3 0x2\n", ""] {
            assert!(!is_flock(other), "{other}");
        }
    }
}
