//! Output of commands: data on stdout, log and progress on stderr.

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};

#[cfg(feature = "tools")]
use crate::config::ColorWhen;
use crate::config::environment;
use crate::telemetry::{self, Format, LogLevel, LogOptions};

/// Applies `--color` to the output of the process, which by itself depends on the terminal and the
/// environment.
#[cfg(feature = "tools")]
pub(super) fn choose_color(when: ColorWhen) {
    match when {
        ColorWhen::Auto => {}
        ColorWhen::Always => ColorChoice::Always.write_global(),
        ColorWhen::Never => ColorChoice::Never.write_global(),
    }
}

/// Prints what a function writes, if it succeeds.
///
/// # Errors
///
/// As for [`print()`].
pub(super) fn stdout(
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut data = Vec::new();
    write(&mut data)?;
    print(&data)
}

/// Prints data on stdout. Commands always write colors; they are removed if stdout is not a
/// terminal or `NO_COLOR` is set, unless `--color` says otherwise.
///
/// # Errors
///
/// A broken pipe among others, which [`exit`](super::exit) counts as success.
pub(super) fn print(data: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(AutoStream::auto(io::stdout().lock()));
    out.write_all(data.as_ref())?;
    Ok(out.flush()?)
}

/// Installs the log; `filter` takes the place of the verbosity until that is changed.
pub(super) fn install_log(
    format: Format,
    verbosity: u8,
    filter: Option<String>,
) -> anyhow::Result<LogLevel> {
    let color = !environment::no_color() && io::stderr().is_terminal();
    let options = LogOptions {
        format,
        verbosity,
        filter,
    };
    Ok(telemetry::install(&options, color)?)
}

/// Installs the log of a command that prints data: warnings in the form of its errors. A filter in
/// the environment restores time and module, which are needed to look for a fault.
pub(super) fn install_quiet_log() -> anyhow::Result<()> {
    match environment::log_filter() {
        Some(filter) => install_log(Format::Text, 0, Some(filter))?,
        None => install_log(Format::Plain, 0, Some(QUIET.to_owned()))?,
    };
    Ok(())
}

/// Filter without a log line for each connection of an insecure kubeconfig, which its user chose.
const QUIET: &str = "warn,kube_client::client::tls=error";

/// Prints a note on stderr. A closed stderr is no error.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "note: {text}");
}

/// Time before a note on what is waited for.
const NOTE_DELAY: Duration = Duration::from_secs(1);

/// Note on stderr about something that takes long; none if this is dropped before [`NOTE_DELAY`].
#[derive(Debug)]
pub(super) struct Progress(Option<(Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// Starts to wait for an activity of this machine, which is noted on a terminal only: elsewhere
    /// the output would depend on the load of the machine.
    pub(super) fn start(activity: impl Into<String>) -> Self {
        if io::stderr().is_terminal() {
            Self::waiting_for(activity)
        } else {
            Self(None)
        }
    }

    /// Starts to wait for another program or machine, which may never answer.
    pub(super) fn waiting_for(activity: impl Into<String>) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let activity = activity.into();
        let thread = thread::spawn(move || {
            if stopped.recv_timeout(NOTE_DELAY) == Err(RecvTimeoutError::Timeout) {
                note(&activity);
            }
        });
        Self(Some((stop, thread)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            // It has no reason to panic, and no result.
            let _ = thread.join();
        }
    }
}

/// Line on a terminal that counts what is done; it is gone in the end. Elsewhere there is none.
#[cfg(feature = "tools")]
#[derive(Debug)]
pub(super) struct Count {
    done: usize,
    total: usize,
    what: &'static str,
    is_shown: bool,
}

#[cfg(feature = "tools")]
impl Count {
    /// Starts to count, up to a total.
    pub(super) fn start(total: usize, what: &'static str) -> Self {
        let count = Self {
            done: 0,
            total,
            what,
            is_shown: io::stderr().is_terminal(),
        };
        count.show();
        count
    }

    /// Counts one more.
    pub(super) fn add(&mut self) {
        self.done += 1;
        self.show();
    }

    fn show(&self) {
        let Self {
            done, total, what, ..
        } = self;
        if self.is_shown {
            // A failure means that the terminal is gone.
            let _ = write!(io::stderr(), "\r{done} of {total} {what}\x1b[K");
        }
    }
}

#[cfg(feature = "tools")]
impl Drop for Count {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Escapes characters that a terminal acts on, as [`telemetry::escaped`] does, but for line ends.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    // Rules of a node are megabytes of these.
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
    // Without branches inside, a piece is compared by wide instructions.
    let are_plain = |piece: &[u8]| piece.iter().fold(true, |all, byte| all & is_plain(byte));
    if text.as_bytes().chunks(256).all(are_plain) {
        return Cow::Borrowed(text);
    }
    let lines = || text.split('\n').map(telemetry::escaped);
    if lines().all(|line| matches!(line, Cow::Borrowed(_))) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(lines().collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
#[path = "tests/terminal.rs"]
mod tests;
