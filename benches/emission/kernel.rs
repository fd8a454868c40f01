//! The kernel of the namespace that the calling thread is in, through the bare restore program.
//!
//! The payload is a file, so that nobody has to be scheduled for the program to go on reading.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use deltaproxy::testing::rules::Backend;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

/// What one run of a program took, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// User and system.
    pub cpu: f64,
    /// On the clock.
    pub wall: f64,
    /// Of its input.
    pub bytes: usize,
}

impl Cost {
    /// One after the other.
    pub fn and(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            wall: self.wall + other.wall,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// One backend.
pub struct Kernel {
    pub backend: Backend,
}

impl Kernel {
    pub fn new(backend: Backend) -> Self {
        Self { backend }
    }

    /// Applies a payload as the product does.
    pub fn restore(&self, payload: &str) -> Cost {
        self.run(&["-w", "5", "--noflush", "--counters"], payload)
    }

    /// Leaves nothing in the tables that payloads name.
    pub fn clear(&self) {
        let tables = ["filter", "nat", "mangle"].map(|table| format!("*{table}\nCOMMIT\n"));
        self.run(&["-w", "5"], &tables.concat());
    }

    fn run(&self, args: &[&str], payload: &str) -> Cost {
        let program = format!("iptables-{}-restore", self.backend);
        let mut input = tempfile::tempfile().expect("a file for the payload");
        input.write_all(payload.as_bytes()).unwrap();
        input.rewind().unwrap();
        let mut complaints = tempfile::tempfile().expect("a file for complaints");
        let mut command = Command::new(&program);
        command.args(args).stdin(input).stdout(Stdio::null());
        command.stderr(complaints.try_clone().unwrap());
        let (began, before) = (Instant::now(), cpu_of(UsageWho::RUSAGE_CHILDREN));
        let status = command
            .status()
            .unwrap_or_else(|why| panic!("{program}: {why}"));
        let (wall, after) = (began.elapsed(), cpu_of(UsageWho::RUSAGE_CHILDREN));
        assert!(
            status.success(),
            "{program}: {status}: {}",
            text(&mut complaints)
        );
        Cost {
            cpu: after - before,
            wall: wall.as_secs_f64(),
            bytes: payload.len(),
        }
    }
}

/// User and system time so far, in seconds. Children count once they were waited for.
pub fn cpu_of(who: UsageWho) -> f64 {
    let usage = getrusage(who).expect("usage of resources");
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn text(file: &mut File) -> String {
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}
