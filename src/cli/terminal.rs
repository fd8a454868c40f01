//! Output of commands: data on stdout, log and progress on stderr.

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};

use crate::config::{ColorWhen, environment};
use crate::telemetry::{self, Format, LogLevel, LogOptions};

/// Applies `--color` to the output of the process, which by itself depends on the terminal and the
/// environment.
pub(super) fn choose_color(when: ColorWhen) {
    match when {
        ColorWhen::Auto => {}
        ColorWhen::Always => ColorChoice::Always.write_global(),
        ColorWhen::Never => ColorChoice::Never.write_global(),
    }
}

/// Writes data to stdout, buffered. Commands always write colors; they are removed if stdout is
/// not a terminal or `NO_COLOR` is set, unless `--color` says otherwise.
///
/// # Errors
///
/// A broken pipe among others, which [`exit`](super::exit) counts as success.
pub(super) fn stdout(
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut data = Vec::new();
    write(&mut data)?;
    let mut out = BufWriter::new(AutoStream::auto(io::stdout().lock()));
    out.write_all(&data)?;
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
        None => install_log(Format::Plain, 0, Some("warn".to_owned()))?,
    };
    Ok(())
}

/// Time before the first progress line, and between updates of it.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Time before a note on what is waited for, where there is no terminal: more than a large list
/// takes, and less than the patience of a reader.
const NOTE_DELAY: Duration = Duration::from_secs(2);

/// Progress line on stderr, which is erased when this is dropped. Quick commands print none, and
/// neither do scripts, which have no terminal; of a server that does not answer they print a note.
#[derive(Debug)]
pub(super) struct Progress {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts to count seconds, if stderr is a terminal.
    pub(super) fn start(activity: &'static str) -> Self {
        if io::stderr().is_terminal() {
            Self::on(io::stderr(), activity.to_owned(), PROGRESS_INTERVAL)
        } else {
            Self {
                stop: None,
                thread: None,
            }
        }
    }

    /// Starts to count seconds, or prints a note after [`NOTE_DELAY`] if stderr is not a terminal.
    pub(super) fn of_server(activity: String) -> Self {
        if io::stderr().is_terminal() {
            Self::on(io::stderr(), activity, PROGRESS_INTERVAL)
        } else {
            Self::in_thread(move |stopped| {
                if stopped.recv_timeout(NOTE_DELAY) == Err(RecvTimeoutError::Timeout) {
                    write_now(&mut io::stderr(), &format!("note: {activity}\n"));
                }
            })
        }
    }

    fn on(mut out: impl Write + Send + 'static, activity: String, interval: Duration) -> Self {
        Self::in_thread(move |stopped| {
            let mut seconds = 0_u64;
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                seconds += 1;
                write_now(&mut out, &format!("\r{activity}, {seconds} s\x1b[K"));
            }
            // Without a line there is nothing to erase.
            if seconds > 0 {
                write_now(&mut out, "\r\x1b[K");
            }
        })
    }

    /// Starts a thread that ends when its channel does.
    fn in_thread(report: impl FnOnce(&Receiver<()>) + Send + 'static) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = thread::spawn(move || report(&stopped));
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

/// Writes text; a failure means that the terminal is gone, which needs no progress.
fn write_now(out: &mut impl Write, text: &str) {
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has no reason to panic, and no result.
            let _ = thread.join();
        }
    }
}

/// Escapes characters that a terminal acts on, as [`telemetry::escaped`] does, but for line ends.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if let Cow::Borrowed(text) = telemetry::escaped(text) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<_> = text.split('\n').map(telemetry::escaped).collect();
    if lines.iter().all(|line| matches!(line, Cow::Borrowed(_))) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lines(Sender<String>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn progress_counts_seconds_and_is_erased() {
        let (sender, lines) = mpsc::channel();
        let progress = Progress::on(
            Lines(sender),
            "reading".to_owned(),
            Duration::from_millis(1),
        );
        assert_eq!(lines.recv().unwrap(), "\rreading, 1 s\x1b[K");
        assert_eq!(lines.recv().unwrap(), "\rreading, 2 s\x1b[K");
        drop(progress);
        assert_eq!(lines.iter().last().unwrap(), "\r\x1b[K");
    }

    #[test]
    fn a_quick_command_prints_no_progress() {
        let (sender, lines) = mpsc::channel();
        drop(Progress::on(
            Lines(sender),
            "reading".to_owned(),
            Duration::from_secs(3600),
        ));
        assert_eq!(lines.iter().count(), 0);
    }

    #[test]
    fn what_a_terminal_acts_on_is_escaped() {
        assert_eq!(escaped("a\tb\né"), "a\tb\né");
        assert_eq!(escaped("\u{1b}[31m\rx\u{9b}"), "\\u{1b}[31m\\rx\\u{9b}");
        assert_eq!(escaped("\u{202e}txt"), "\\u{202e}txt");
    }
}
