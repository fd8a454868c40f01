//! Runs one program with input, output and a deadline.
//!
//! A program that hangs or prints without end must not block the daemon: input, both outputs and
//! the deadline are served concurrently, and no process outlives the call.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use super::super::resources::{raise_oom_score_adj, wait};
use super::lock::{LOCK_VARIABLE, LockWait};
use crate::rules::Payload;

/// Bytes of input that are gathered before a write: the capacity of a pipe, so that one write fills
/// it and the program reads while the next piece is rendered.
const CHUNK: usize = 64 * 1024;

/// Time to wait for a killed program. One that hangs in the kernel keeps running.
const REAP: Duration = Duration::from_secs(1);

/// `oom_score_adj` of programs, if the inherited one is lower: the default of the kernel. A restore
/// needs about a kilobyte for each rule. When memory runs out, the kernel should kill the restore,
/// which is retried, and not the proxy or a Pod.
const OOM_SCORE_ADJ: i16 = 0;

/// Maximum bytes of stdout that are kept: a chain of 50,000 Services is a tenth of it. Output that
/// may be longer is read line by line.
const MOST_KEPT: u64 = 128 * 1024 * 1024;

/// Maximum bytes of a line of stdout. A rule has a few hundred.
const LONGEST_LINE: u64 = 1024 * 1024;

/// Bytes kept of the end of stderr. A restore can warn about every line of a payload of millions,
/// and the reason of a failure comes last.
const STDERR_KEPT: usize = 16 * 1024;

/// A program with its arguments and deadline.
pub(super) struct Run<'a> {
    pub(super) program: &'a OsStr,
    pub(super) args: &'a [&'a str],
    pub(super) deadline: Duration,
    pub(super) lock: Lock,
}

/// Use of the xtables lock by a program of legacy iptables. Those of nft take no lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// The program may take the lock.
    Shared,
    /// The program may take the lock, and its wait for it is measured.
    Measured,
    /// The program only reads, which the kernel does atomically. It takes a lock that is never
    /// held, so that it does not wait, and the shared lock is opened only by programs that change
    /// rules.
    Separate,
}

/// Path of the lock that is never held: files and devices can be locked alike.
const SEPARATE_LOCK: &str = "/dev/null";

pub(in crate::host) struct Finished {
    pub(in crate::host) exit: ProgramExit,
    pub(in crate::host) stdout: Vec<u8>,
    pub(in crate::host) stderr: String,
    pub(in crate::host) input: Input,
    pub(in crate::host) lock_wait: Duration,
    pub(in crate::host) process: Option<u32>,
}

#[derive(Default)]
pub(in crate::host) struct Input {
    pub(in crate::host) bytes: u64,
    /// The program closed its stdin before the end of the input.
    pub(in crate::host) is_truncated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramExit {
    Exited(i32),
    /// The program was killed from outside by this signal.
    Signaled(i32),
    TimedOut(Duration),
}

impl fmt::Display for ProgramExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exited with status {status}"),
            Self::Signaled(signal) => write!(f, "was killed by signal {signal}"),
            Self::TimedOut(after) => write!(f, "timed out after {after:?} and was killed"),
        }
    }
}

impl ProgramExit {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Signaled(signal.unwrap_or_default()),
        }
    }
}

/// Use of the stdout of a program.
enum Stdout<'a> {
    Discard,
    Keep,
    /// Each line is passed on, without its end, and not kept.
    Lines(&'a mut dyn FnMut(&str)),
}

impl Run<'_> {
    /// Runs the program without input and keeps its stdout.
    pub(super) async fn output(&self) -> io::Result<Finished> {
        self.run(None, Stdout::Keep).await
    }

    /// Runs the program without input and passes on its stdout line by line.
    pub(super) async fn lines(&self, each: &mut dyn FnMut(&str)) -> io::Result<Finished> {
        self.run(None, Stdout::Lines(each)).await
    }

    /// Runs the program with a payload as input and discards its stdout.
    pub(super) async fn feed(&self, payload: &mut dyn Payload) -> io::Result<Finished> {
        self.run(Some(payload), Stdout::Discard).await
    }

    /// Runs the program with a payload as input and keeps its stdout.
    pub(super) async fn feed_and_read(&self, payload: &mut dyn Payload) -> io::Result<Finished> {
        self.run(Some(payload), Stdout::Keep).await
    }

    async fn run(
        &self,
        payload: Option<&mut dyn Payload>,
        stdout: Stdout<'_>,
    ) -> io::Result<Finished> {
        let stdin = if payload.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        let out = match stdout {
            Stdout::Discard => Stdio::null(),
            Stdout::Keep | Stdout::Lines(_) => Stdio::piped(),
        };
        let mut child = self.spawn(stdin, out, OOM_SCORE_ADJ)?;
        let group = ProcessGroup::of(&child);
        let process = child.id();
        let (mut kept, mut stderr, mut input) =
            (Vec::new(), StderrTail::default(), Input::default());
        let measured = (self.lock == Lock::Measured).then(|| child.id()).flatten();
        let mut lock = LockWait::new(measured);
        let work = async {
            let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            tokio::join!(
                feed(stdin, payload, &mut input),
                read_stdout(out, stdout, &mut kept),
                stderr.fill(err),
            );
            wait(&mut child).await
        };
        let ended = tokio::select! {
            ended = tokio::time::timeout(self.deadline, work) => ended.ok().transpose()?,
            never = lock.watch() => match never {},
        };
        let exit = if let Some(status) = ended {
            group.disarm();
            ProgramExit::of(status)
        } else {
            drop(group);
            // The runtime reaps a program that hangs in the kernel as soon as that ends.
            let _ = tokio::time::timeout(REAP, child.wait()).await;
            ProgramExit::TimedOut(self.deadline)
        };
        Ok(Finished {
            exit,
            stdout: kept,
            stderr: stderr.into_text(),
            input,
            lock_wait: lock.waited(),
            process,
        })
    }

    fn spawn(&self, stdin: Stdio, stdout: Stdio, oom_score_adj: i16) -> io::Result<Child> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that runs programs"
        )]
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .env("LC_ALL", "C")
            .stdin(stdin)
            .stdout(stdout)
            .stderr(Stdio::piped())
            // A process group of its own: Ctrl-C in the terminal must not interrupt a restore, and
            // a deadline must kill the program's children as well.
            .process_group(0)
            .kill_on_drop(true);
        if self.lock == Lock::Separate {
            command.env(LOCK_VARIABLE, SEPARATE_LOCK);
        }
        let child = command.spawn()?;
        if let Some(pid) = child.id() {
            // Written by the parent, since code between fork and exec would be unsafe. On failure
            // the program runs with the score that it inherited.
            let _ = raise_oom_score_adj(pid, oom_score_adj);
        }
        Ok(child)
    }
}

async fn feed(stdin: Option<ChildStdin>, payload: Option<&mut dyn Payload>, input: &mut Input) {
    let (Some(mut stdin), Some(payload)) = (stdin, payload) else {
        return;
    };
    let mut chunk = Vec::with_capacity(CHUNK * 2);
    let mut more = true;
    while more {
        chunk.clear();
        while more && chunk.len() < CHUNK {
            more = payload.write_next(&mut chunk);
        }
        // The only error of a pipe is that its other end was closed.
        if stdin.write_all(&chunk).await.is_err() {
            input.is_truncated = true;
            return;
        }
        input.bytes += chunk.len() as u64;
    }
}

/// Reads stdout until its end or a limit. A read error truncates the output, which then does not
/// parse. Beyond a limit the pipe is closed, which ends a program that prints without end.
async fn read_stdout(from: Option<impl AsyncRead + Unpin>, stdout: Stdout<'_>, kept: &mut Vec<u8>) {
    let Some(from) = from else { return };
    match stdout {
        Stdout::Discard => {}
        Stdout::Keep => drop(from.take(MOST_KEPT).read_to_end(kept).await),
        Stdout::Lines(each) => {
            let (mut from, mut line) = (BufReader::with_capacity(CHUNK, from), Vec::new());
            while let Ok(1..) = (&mut from)
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut line)
                .await
            {
                if line.len() as u64 == LONGEST_LINE {
                    return;
                }
                each(String::from_utf8_lossy(&line).trim_end_matches('\n'));
                line.clear();
            }
        }
    }
}

/// End of stderr.
#[derive(Default)]
struct StderrTail {
    kept: Vec<u8>,
    is_truncated: bool,
}

impl StderrTail {
    async fn fill(&mut self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        while matches!(from.read_buf(&mut self.kept).await, Ok(1..)) {
            if self.kept.len() > 2 * STDERR_KEPT {
                self.shorten();
            }
        }
        if self.kept.len() > STDERR_KEPT {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        self.kept.drain(..self.kept.len() - STDERR_KEPT);
        self.is_truncated = true;
    }

    fn into_text(self) -> String {
        let text = String::from_utf8_lossy(&self.kept).into_owned();
        if self.is_truncated {
            format!("[...] {text}")
        } else {
            text
        }
    }
}

/// Process group of a running program, which is killed on drop unless
/// [`ProcessGroup::disarm`] is called.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|id| i32::try_from(id).ok());
        Self(pid.map(Pid::from_raw))
    }

    /// Forgets a group whose program has exited: its id may be reused.
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Fails if the group has just ended.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}
