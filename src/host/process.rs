//! One run of one program: fed, drained, and ended by a deadline.
//!
//! Apart because this is where a stuck or talkative program could block the daemon: input, both
//! outputs and the deadline are served together, and nothing outlives the call.

use std::ffi::OsStr;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::rules::Payload;

use super::child_cpu;
use super::lock_wait::LockWait;
use super::lock_watch::LOCK_VARIABLE;
use super::oom::raise_oom_score_adj;
use super::run_error::Ending;
use super::tail::Tail;

/// How much text is gathered before it is written: the capacity of a pipe, so that one write
/// fills it and the program has a pipe full to read while the next piece is made.
const CHUNK: usize = 64 * 1024;

/// How long a killed program may take to be gone. One that hangs in the kernel is left behind.
const REAP: Duration = Duration::from_secs(1);

/// The `oom_score_adj` of programs, if the inherited one is lower: the default of the kernel. A
/// restore needs about a kilobyte for each rule. When memory runs out, the kernel is to kill the
/// restore, which is made again, and not the proxy or a Pod.
const OOM_SCORE_ADJ: i16 = 0;

/// One program with its arguments and how long it may take.
pub(super) struct Run<'a> {
    pub(super) program: &'a OsStr,
    pub(super) args: &'a [&'a str],
    pub(super) deadline: Duration,
    pub(super) lock: Lock,
}

/// What a program of legacy iptables does about the xtables lock. Those of nft take none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// It takes the lock if it wants it.
    Shared,
    /// It takes the lock, and how long it waits for it is measured.
    Measured,
    /// It only reads, which the kernel answers in one piece. It takes a lock that no other program
    /// holds, so that it need not wait, and the shared one is opened only by what changes rules.
    Separate,
}

/// Path of the lock that no other program holds: locks on devices are as good as those on files.
const SEPARATE_LOCK: &str = "/dev/null";

/// What came out of a run, however it ended.
pub(super) struct Finished {
    pub(super) ending: Ending,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
    pub(super) fed: Fed,
    pub(super) lock_wait: Duration,
    /// The process id that it had.
    pub(super) process: Option<u32>,
}

/// What becomes of what a program prints on stdout.
enum Printed<'a> {
    /// Nobody wants it.
    Dropped,
    /// It is kept whole.
    Kept,
    /// Each line is given away, without its end, and forgotten.
    Lines(&'a mut dyn FnMut(&str)),
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
        self.run(None, Printed::Kept).await
    }

    /// Runs it without input and gives away what it prints, line by line.
    pub(super) async fn lines(&self, each: &mut dyn FnMut(&str)) -> io::Result<Finished> {
        self.run(None, Printed::Lines(each)).await
    }

    /// Runs it with the payload as input and lets what it prints on stdout go.
    pub(super) async fn feed(&self, payload: &mut dyn Payload) -> io::Result<Finished> {
        self.run(Some(payload), Printed::Dropped).await
    }

    /// Runs it with the payload as input and keeps what it prints.
    pub(super) async fn ask(&self, payload: &mut dyn Payload) -> io::Result<Finished> {
        self.run(Some(payload), Printed::Kept).await
    }

    async fn run(
        &self,
        payload: Option<&mut dyn Payload>,
        printed: Printed<'_>,
    ) -> io::Result<Finished> {
        let stdin = if payload.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        let out = match printed {
            Printed::Dropped => Stdio::null(),
            Printed::Kept | Printed::Lines(_) => Stdio::piped(),
        };
        let mut child = self.spawn(stdin, out, OOM_SCORE_ADJ)?;
        let group = Group::of(&child);
        let process = child.id();
        let (mut stdout, mut stderr, mut fed) = (Vec::new(), Tail::default(), Fed::default());
        let measured = (self.lock == Lock::Measured).then(|| child.id()).flatten();
        let mut lock = LockWait::new(measured);
        let work = async {
            let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            tokio::join!(
                feed(stdin, payload, &mut fed),
                take(out, printed, &mut stdout),
                stderr.fill(err),
            );
            child_cpu::wait(&mut child).await
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
            // Its own group: an interrupt typed at the terminal must not tear a restore apart,
            // and a deadline must end what the program started too.
            .process_group(0)
            .kill_on_drop(true);
        if self.lock == Lock::Separate {
            command.env(LOCK_VARIABLE, SEPARATE_LOCK);
        }
        let child = command.spawn()?;
        if let Some(pid) = child.id() {
            // The parent writes it, since code between fork and exec would be unsafe. Without it
            // the program runs as well, with the score that it inherited.
            let _ = raise_oom_score_adj(pid, oom_score_adj);
        }
        Ok(child)
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

/// How much of an answer is kept, in bytes: a chain of 50,000 Services is a tenth of it. What may
/// be longer is read line by line.
const MOST_KEPT: u64 = 128 * 1024 * 1024;

/// The longest line of an answer, in bytes. A rule has some hundred.
const LONGEST_LINE: u64 = 1024 * 1024;

/// A read error cuts the answer off, which then does not parse. So does a program that does not
/// come to an end: nobody listens any more, and it is ended by that.
async fn take(from: Option<impl AsyncRead + Unpin>, printed: Printed<'_>, all: &mut Vec<u8>) {
    let Some(from) = from else { return };
    match printed {
        Printed::Dropped => {}
        Printed::Kept => drop(from.take(MOST_KEPT).read_to_end(all).await),
        Printed::Lines(each) => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::block_on;

    /// A higher score stands for 0 here, because a process without CAP_SYS_RESOURCE cannot give
    /// itself a lower one first.
    #[test]
    fn a_program_and_what_it_starts_have_a_score_of_their_own() {
        let script =
            "cat >/dev/null; cat /proc/$$/oom_score_adj; sh -c 'cat /proc/self/oom_score_adj'";
        let run = Run {
            program: OsStr::new("sh"),
            args: &["-c", script],
            deadline: Duration::from_secs(10),
            lock: Lock::Shared,
        };
        let printed = block_on(async {
            let mut child = run.spawn(Stdio::piped(), Stdio::piped(), 700).unwrap();
            // Until here the script waits for its input to end.
            drop(child.stdin.take());
            child.wait_with_output().await.unwrap().stdout
        });
        assert_eq!(String::from_utf8_lossy(&printed), "700\n700\n");
    }
}
