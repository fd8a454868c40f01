//! A line on stderr for whoever waits.
//!
//! Apart because it must never be in the way: not of a script, which has no terminal, and not of a
//! quick answer, which is there before the first line would be.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long people wait without asking themselves why, and how often the line is renewed.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says what is waited for until it is dropped; nothing is left of it then.
#[derive(Debug)]
pub(super) struct Progress {
    ended: Option<Sender<()>>,
    teller: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins to count, if stderr is a terminal.
    pub(super) fn start(what: &'static str) -> Self {
        if io::stderr().is_terminal() {
            Self::on(io::stderr(), what, PATIENCE)
        } else {
            Self {
                ended: None,
                teller: None,
            }
        }
    }

    fn on(mut out: impl Write + Send + 'static, what: &'static str, patience: Duration) -> Self {
        let (ended, end) = mpsc::channel::<()>();
        let teller = thread::spawn(move || {
            let mut seconds = 0_u64;
            while end.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                seconds += 1;
                say(&mut out, &format!("\r{what}, {seconds} s\x1b[K"));
            }
            // Quick enough: nothing was said, and nothing is to be wiped away.
            if seconds > 0 {
                say(&mut out, "\r\x1b[K");
            }
        });
        Self {
            ended: Some(ended),
            teller: Some(teller),
        }
    }
}

/// A terminal that is gone needs no progress.
fn say(out: &mut impl Write, text: &str) {
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.ended.take());
        if let Some(teller) = self.teller.take() {
            // It has no reason to panic, and no result.
            let _ = teller.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Told(Sender<String>);

    impl Write for Told {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_waits_is_told_and_nothing_is_left_of_it() {
        let (told, lines) = mpsc::channel();
        let progress = Progress::on(Told(told), "reading", Duration::from_millis(1));
        assert_eq!(lines.recv().unwrap(), "\rreading, 1 s\x1b[K");
        assert_eq!(lines.recv().unwrap(), "\rreading, 2 s\x1b[K");
        drop(progress);
        assert_eq!(lines.iter().last().unwrap(), "\r\x1b[K");
    }

    #[test]
    fn a_quick_answer_comes_alone() {
        let (told, lines) = mpsc::channel();
        drop(Progress::on(
            Told(told),
            "reading",
            Duration::from_secs(3600),
        ));
        assert_eq!(lines.iter().count(), 0);
    }
}
