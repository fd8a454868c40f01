//! CPU time by thread, as the kernel counts it.
//!
//! Apart from the [profile](super::profile) that is made of it, which is a matter of a format.

use std::collections::BTreeMap;
use std::fs;

use super::process::field;

/// The unit of these counts: 10 ms on every architecture this can run on.
pub(super) const TICK_NANOSECONDS: i64 = 10_000_000;

/// Where fields of `stat` are behind the program's name; proc(5) counts them as 14 to 17.
const USER: usize = 11;
const KERNEL: usize = 12;
const PROGRAMS_USER: usize = 13;
const PROGRAMS_KERNEL: usize = 14;

/// Who else than a thread that is still there. The time of a process is not rounded as that of its
/// threads is.
const ENDED: &str = "threads that ended, and rounding";
const PROGRAMS: &str = "iptables and other programs";

/// Who used the processor, and in which mode.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct User {
    /// A thread's name, or what stands for those that are no threads of ours any more.
    pub(super) name: String,
    pub(super) mode: Mode,
}

/// Where a processor was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    User,
    Kernel,
}

/// Ticks of everybody, since the process began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CpuTimes(BTreeMap<User, i64>);

impl CpuTimes {
    /// Until now. What cannot be read is left out.
    pub(super) fn read() -> Self {
        let whole = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
        let threads = tasks.flatten().filter_map(|task| {
            // One that has just ended is gone.
            fs::read_to_string(task.path().join("stat")).ok()
        });
        Self::of(&whole, threads)
    }

    /// From the lines of the process and of its threads.
    fn of(process: &str, threads: impl Iterator<Item = String>) -> Self {
        let mut times = Self::default();
        let mut living = [0, 0];
        for thread in threads {
            let ticks = [USER, KERNEL].map(|field| number(&thread, field));
            times.add(name(&thread), ticks);
            living = [living[0] + ticks[0], living[1] + ticks[1]];
        }
        // The process is read before its threads, which go on meanwhile.
        let [user, kernel] = [USER, KERNEL].map(|field| number(process, field));
        times.add(
            ENDED,
            [user - living[0], kernel - living[1]].map(|ticks| ticks.max(0)),
        );
        let programs = [PROGRAMS_USER, PROGRAMS_KERNEL].map(|field| number(process, field));
        times.add(PROGRAMS, programs);
        times
    }

    /// Threads of one name are one.
    fn add(&mut self, name: &str, [user, kernel]: [i64; 2]) {
        for (mode, ticks) in [(Mode::User, user), (Mode::Kernel, kernel)] {
            let name = name.to_owned();
            *self.0.entry(User { name, mode }).or_default() += ticks;
        }
    }

    /// What was used since then, by those who used any.
    pub(super) fn since(&self, before: &Self) -> Vec<(User, i64)> {
        let used = self.0.iter().map(|(user, ticks)| {
            let earlier = before.0.get(user).copied().unwrap_or_default();
            (user.clone(), ticks - earlier)
        });
        used.filter(|(_, ticks)| *ticks > 0).collect()
    }
}

/// The name may hold blanks and parentheses.
fn name(stat: &str) -> &str {
    let inside = stat.split_once('(').zip(stat.rfind(')'));
    inside
        .and_then(|((before, _), end)| stat.get(before.len() + 1..end))
        .unwrap_or_default()
}

fn number(stat: &str, place: usize) -> i64 {
    field(stat, place)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "tests/proc.rs"]
mod hostile;

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(
        name: &str,
        [user, kernel]: [i64; 2],
        [programs_user, programs_kernel]: [i64; 2],
    ) -> String {
        format!(
            "7 ({name}) S 1 7 7 0 -1 0 0 0 0 0 {user} {kernel} {programs_user} {programs_kernel} 20 0"
        )
    }

    #[test]
    fn what_was_used_is_told_by_thread() {
        let before = CpuTimes::of(
            &stat("a", [10, 5], [0, 0]),
            [stat("a", [10, 5], [0, 0])].into_iter(),
        );
        let threads = [
            stat("a", [17, 5], [0, 0]),
            stat("b) (c", [2, 0], [0, 0]),
            stat("b) (c", [1, 4], [0, 0]),
        ];
        let after = CpuTimes::of(&stat("a", [26, 9], [3, 8]), threads.into_iter());
        let used = after.since(&before);
        let used: Vec<_> = used
            .iter()
            .map(|(user, ticks)| (user.name.as_str(), user.mode, *ticks))
            .collect();
        assert_eq!(
            used,
            [
                ("a", Mode::User, 7),
                ("b) (c", Mode::User, 3),
                ("b) (c", Mode::Kernel, 4),
                (PROGRAMS, Mode::User, 3),
                (PROGRAMS, Mode::Kernel, 8),
                (ENDED, Mode::User, 6),
            ]
        );
    }

    #[test]
    fn this_process_uses_time() {
        let mut sum = 0_u64;
        while CpuTimes::read().since(&CpuTimes::default()).is_empty() {
            sum = (0..1_000_000).fold(sum, |sum, n| std::hint::black_box(sum ^ n));
        }
    }
}
