//! How a command ends.
//!
//! Apart because exit codes are an interface, and because an error is printed here and nowhere
//! else.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::config::Unusable;
use crate::inspect::catalog::NoMatches;

/// Unusable flags or files: sysexits' `EX_USAGE`. Nothing has been touched.
const UNUSABLE: u8 = 64;

/// Flags that clap refused; help and version come here, too.
pub(super) fn unusable(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if error.use_stderr() {
        // If stderr is gone, nobody reads the exit code's reason either.
        return ExitCode::from(UNUSABLE);
    }
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// Differences were found.
const DIFFERENT: u8 = 1;

/// A comparison came to nothing.
const UNCOMPARED: u8 = 2;

/// What a comparison came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    Equal,
    Different,
}

/// The code of a finished comparison, having said what was wrong.
pub(super) fn compared(result: anyhow::Result<Compared>) -> ExitCode {
    match result {
        Ok(Compared::Equal) => ExitCode::SUCCESS,
        Ok(Compared::Different) => ExitCode::from(DIFFERENT),
        Err(error) => failed(&error, ExitCode::from(UNCOMPARED)),
    }
}

/// The code of a finished command, having said what was wrong.
pub(super) fn code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error, ExitCode::FAILURE),
    }
}

fn failed(error: &anyhow::Error, code: ExitCode) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if let Some(unusable) = error.downcast_ref::<Unusable>() {
        for problem in &unusable.problems {
            let _ = writeln!(io::stderr(), "error: {problem}");
        }
        return ExitCode::from(UNUSABLE);
    }
    if let Some(NoMatches(names)) = error.downcast_ref::<NoMatches>() {
        for name in names {
            let _ = writeln!(io::stderr(), "error: {}", harmless(&name.to_string()));
        }
        return code;
    }
    let _ = writeln!(io::stderr(), "error: {}", harmless(&said_once(error)));
    code
}

/// A text from a file, perhaps somebody else's, without what a terminal would obey.
fn harmless(text: &str) -> String {
    let escaped = |c: char| match c {
        '\n' | '\t' => c.to_string(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// Whoever read our output had enough of it.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    io.into_iter()
        .any(|io| io.kind() == io::ErrorKind::BrokenPipe)
}

/// The error with its causes in one line; a cause that the text before it ends with is not said
/// again.
fn said_once(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
        cause = next.source();
    }
    text
}
