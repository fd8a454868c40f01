//! What a process has used, as the kernel counts it.

use std::fs;
use std::ops::Sub;

/// `/proc/PID/stat` counts in these, on every architecture since Linux 2.6.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU since the start, and memory.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Of the process itself, in seconds.
    pub own_cpu: f64,
    /// Of the children that it waited for, in seconds.
    pub children_cpu: f64,
    /// Largest resident set so far, in MiB.
    pub peak_rss: f64,
    /// Resident set now, in MiB.
    pub rss: f64,
}

impl Usage {
    /// Reads it.
    pub fn of(pid: u32) -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).expect("proc");
        let stat = read("stat");
        // Behind the name, which may hold blanks: field 3 of proc(5) comes first.
        let behind = stat.rsplit_once(") ").expect("a name in parentheses").1;
        let fields: Vec<&str> = behind.split(' ').collect();
        let seconds = |field: usize| fields[field - 3].parse::<f64>().unwrap() / TICKS_PER_SECOND;
        let status = read("status");
        let mebibytes = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
            kibibytes.map_or(0.0, |text| text.trim().parse::<f64>().unwrap() / 1024.0)
        };
        Self {
            own_cpu: seconds(14) + seconds(15),
            children_cpu: seconds(16) + seconds(17),
            peak_rss: mebibytes("VmHWM:"),
            rss: mebibytes("VmRSS:"),
        }
    }
}

impl Sub for Usage {
    type Output = Self;

    /// CPU between two readings; memory is that of the later one.
    fn sub(self, earlier: Self) -> Self {
        Self {
            own_cpu: self.own_cpu - earlier.own_cpu,
            children_cpu: self.children_cpu - earlier.children_cpu,
            ..self
        }
    }
}
