//! A program that runs beside a test: its output is kept, and it never outlives the test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::wait::{PATIENCE, ensure, eventually};

/// How many of the last lines are shown when a test fails.
const SHOWN_LINES: usize = 60;

/// A child process. Dropping it kills it, and shows its log when the test is failing.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with both outputs appended to `log`.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Self {
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .expect("open a log");
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("clone a file"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        }
    }

    /// The process id. `ip netns exec` replaces itself, so it is the program's own.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has written so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits until it has written this text.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        eventually(PATIENCE, || {
            let log = self.log();
            ensure(log.contains(text), || format!("no `{text}` in\n{log}"))
        });
    }

    /// The exit status, once it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("wait for a child")
    }

    /// Fails the test early when the program is gone.
    #[track_caller]
    pub fn assert_running(&mut self) {
        if let Some(status) = self.exited() {
            panic!("{} ended with {status}", self.name);
        }
    }

    /// Sends SIGTERM and waits for the end.
    #[track_caller]
    pub fn terminate(&mut self, patience: Duration) -> ExitStatus {
        let id = Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"));
        kill(id, Signal::SIGTERM).expect("send SIGTERM");
        eventually(patience, || {
            self.exited()
                .ok_or_else(|| format!("{} still runs after SIGTERM", self.name))
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
            eprintln!("--- last lines of {} ---\n{tail}\n---", self.name);
        }
    }
}

/// Runs a program to its end and returns what it printed.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Memory of a process in KiB, by its name in `/proc/PID/status`.
pub fn memory(process: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().nth(1));
    number.and_then(|text| text.parse().ok()).expect("a number")
}

/// The processes that the threads of a running process have started and not waited for.
pub fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("a running process");
    let texts = threads.map(|thread| {
        let path = thread.expect("a thread").path().join("children");
        // A thread may have ended.
        fs::read_to_string(path).unwrap_or_default()
    });
    let texts: Vec<String> = texts.collect();
    let words = texts.iter().flat_map(|text| text.split_whitespace());
    words.map(|word| word.parse().expect("a number")).collect()
}
