//! Signals while the user's program runs.
//!
//! Apart because none of them may end us before our folders are gone. Those of the keyboard go to
//! the program as well, and it is a pager's own business whether they end it; with the others
//! somebody may have meant us alone.

use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio::signal::unix::{self, SignalKind};

/// How long a program that is told to end may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The signals that end programs, caught from the beginning on.
pub(super) struct Interrupts {
    /// Nothing is done about them: they are only not ours to die of.
    _keyboard: [unix::Signal; 2],
    terminate: unix::Signal,
    hangup: unix::Signal,
}

impl Interrupts {
    /// Starts to catch them.
    pub(super) fn new() -> anyhow::Result<Self> {
        let caught = |kind| unix::signal(kind).context("catching signals");
        Ok(Self {
            _keyboard: [
                caught(SignalKind::interrupt())?,
                caught(SignalKind::quit())?,
            ],
            terminate: caught(SignalKind::terminate())?,
            hangup: caught(SignalKind::hangup())?,
        })
    }

    /// Waits for the program, and ends it if we are to end.
    ///
    /// # Errors
    ///
    /// A signal ended both.
    pub(super) async fn wait(mut self, mut child: Child) -> anyhow::Result<ExitStatus> {
        let signal = tokio::select! {
            status = child.wait() => return Ok(status?),
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = self.hangup.recv() => Signal::SIGHUP,
        };
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id {
            // It may have got one already, and be gone.
            let _ = kill(Pid::from_raw(id), signal);
        }
        // One that goes on is left alone, without anything to show.
        let _ = tokio::time::timeout(PATIENCE, child.wait()).await;
        anyhow::bail!("KUBECTL_EXTERNAL_DIFF: ended by {signal}, and we with it")
    }
}
