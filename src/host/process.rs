//! One run of one program: fed, drained, and ended by a deadline.
//!
//! Apart because this is where a stuck or talkative program could block the daemon: input, both
//! outputs and the deadline are served together, and nothing outlives the call.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};

use crate::rules::Payload;

use super::lock_wait::LockWait;

/// How much text is gathered before it is written: the capacity of a pipe, so that one write
/// fills it and the program has a pipe full to read while the next piece is made.
const CHUNK: usize = 64 * 1024;

/// How much of the end of what a program complained of is kept. A restore can warn on every line
/// of a payload of millions.
const STDERR_KEPT: usize = 16 * 1024;

/// How long a killed program may take to be gone. One that hangs in the kernel is left behind.
const REAP: Duration = Duration::from_secs(1);

/// Why a program gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It did not start; for a missing program the family counts as unsupported.
    #[error("cannot start `{program}`{}", install_hint(source))]
    Spawn {
        /// The name or path that was tried.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It started and did not succeed.
    #[error("`{program}` {ending}{}", said(stderr))]
    Failed {
        /// The name or path that was run.
        program: String,
        /// How it ended.
        ending: Ending,
        /// The end of what it printed on stderr.
        stderr: String,
    },
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By a signal that was not ours.
    Signaled(i32),
    /// By us, because it had not ended after this long.
    TimedOut(Duration),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exited with status {status}"),
            Self::Signaled(signal) => write!(f, "was killed by signal {signal}"),
            Self::TimedOut(after) => write!(f, "did not end within {after:?} and was killed"),
        }
    }
}

/// The words `: TEXT`, or nothing for an empty text.
pub(super) fn said(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

/// A line telling how to get a missing program.
pub(super) fn install_hint(source: &io::Error) -> &'static str {
    if source.kind() == io::ErrorKind::NotFound {
        "\nhint: install iptables, or put the folder that holds it in PATH"
    } else {
        ""
    }
}

/// One program with its arguments and how long it may take.
pub(super) struct Run<'a> {
    pub(super) program: &'a OsStr,
    pub(super) args: &'a [&'a str],
    pub(super) deadline: Duration,
    /// Whether to look for waits on the xtables lock while it runs.
    pub(super) watch_lock: bool,
}

/// What came out of a run, however it ended.
pub(super) struct Finished {
    pub(super) ending: Ending,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
    pub(super) fed: Fed,
    pub(super) lock_wait: Duration,
}

/// How far a program read its input.
#[derive(Default)]
pub(super) struct Fed {
    pub(super) bytes: u64,
    /// It closed its end before it had everything. Its status says why, if it knows.
    pub(super) cut_short: bool,
}

impl Run<'_> {
    /// Runs it without input and keeps what it prints.
    pub(super) async fn output(&self) -> io::Result<Finished> {
        self.run(None).await
    }

    /// Runs it with the payload as input and lets what it prints on stdout go.
    pub(super) async fn feed(&self, payload: &mut dyn Payload) -> io::Result<Finished> {
        self.run(Some(payload)).await
    }

    async fn run(&self, payload: Option<&mut dyn Payload>) -> io::Result<Finished> {
        let mut child = self.spawn(payload.is_some())?;
        let group = Group::of(&child);
        let (mut stdout, mut stderr, mut fed) = (Vec::new(), Tail::default(), Fed::default());
        let mut lock = LockWait::new(if self.watch_lock { child.id() } else { None });
        let work = async {
            let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            tokio::join!(
                feed(stdin, payload, &mut fed),
                keep_all(out, &mut stdout),
                stderr.fill(err),
            );
            child.wait().await
        };
        let ended = tokio::select! {
            ended = tokio::time::timeout(self.deadline, work) => ended.ok().transpose()?,
            never = lock.watch() => match never {},
        };
        let ending = if let Some(status) = ended {
            group.disarm();
            Ending::of(status)
        } else {
            drop(group);
            // A program stuck in the kernel is reaped by the runtime whenever it comes free.
            let _ = tokio::time::timeout(REAP, child.wait()).await;
            Ending::TimedOut(self.deadline)
        };
        Ok(Finished {
            ending,
            stdout,
            stderr: stderr.into_text(),
            fed,
            lock_wait: lock.seen(),
        })
    }

    fn spawn(&self, fed: bool) -> io::Result<Child> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that runs programs"
        )]
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .env("LC_ALL", "C")
            .stdin(if fed { Stdio::piped() } else { Stdio::null() })
            .stdout(if fed { Stdio::null() } else { Stdio::piped() })
            .stderr(Stdio::piped())
            // Its own group: an interrupt typed at the terminal must not tear a restore apart,
            // and a deadline must end what the program started too.
            .process_group(0)
            .kill_on_drop(true);
        command.spawn()
    }
}

impl Ending {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Signaled(signal.unwrap_or_default()),
        }
    }
}

async fn feed(stdin: Option<ChildStdin>, payload: Option<&mut dyn Payload>, fed: &mut Fed) {
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
        // The only error a pipe gives is that nobody reads it any more.
        if stdin.write_all(&chunk).await.is_err() {
            fed.cut_short = true;
            return;
        }
        fed.bytes += chunk.len() as u64;
    }
}

async fn keep_all(from: Option<impl AsyncRead + Unpin>, all: &mut Vec<u8>) {
    if let Some(mut from) = from {
        // Cut off by a read error it is cut off in the answer too, which then does not parse.
        let _ = from.read_to_end(all).await;
    }
}

/// The end of a text of any length.
#[derive(Default)]
struct Tail {
    kept: Vec<u8>,
    skipped: bool,
}

impl Tail {
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
        self.skipped = true;
    }

    fn into_text(self) -> String {
        let text = String::from_utf8_lossy(&self.kept).into_owned();
        if self.skipped {
            format!("[...] {text}")
        } else {
            text
        }
    }
}

/// The process group of a running program; dropped before [`Group::disarm`], it is killed whole.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|id| i32::try_from(id).ok());
        Self(pid.map(Pid::from_raw))
    }

    /// The program ended by itself, and its number may be another's soon.
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended in this very moment; then there is nobody to tell.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}
