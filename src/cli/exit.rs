//! Exit codes of commands, and the only place that prints errors.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use super::terminal::escaped;
use crate::config::Unusable;
use crate::inspect::catalog::NoMatches;
use crate::watch::manifests::{ManifestError, ManifestErrors};

/// Unusable flags or files: sysexits' `EX_USAGE`. Nothing has been changed.
const UNUSABLE: u8 = 64;

/// Prints an error of clap, which may also be help or the version, and returns its code.
pub(super) fn unusable(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if error.use_stderr() {
        // If stderr is gone, the error is lost but the code remains.
        return ExitCode::from(UNUSABLE);
    }
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// A manifest cannot be used, whether or not others were.
const UNUSABLE_MANIFESTS: u8 = 2;

/// Errors of manifests that were printed while the command went on with others.
static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Prints errors of manifests, each once in the process, and makes the command fail in the end.
pub(super) fn report(errors: &[ManifestError]) {
    // Each change leaves the set whole.
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_first = reported.is_empty() && !errors.is_empty();
    for error in errors {
        let text = escaped(&error.to_string()).into_owned();
        if !reported.contains(&text) {
            let _ = writeln!(io::stderr(), "error: {text}");
            reported.insert(text);
        }
    }
    if is_first {
        let _ = writeln!(io::stderr(), "{LEFT_OUT}");
    }
}

/// Consequence of errors, which a difference alone does not show.
const LEFT_OUT: &str = "hint: what has errors is left out; the daemon, and --lenient, use the valid \
                        parts of invalid objects";

/// Returns the code of a command that did what it could.
fn done(code: ExitCode) -> ExitCode {
    let reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if reported.is_empty() {
        code
    } else {
        ExitCode::from(UNUSABLE_MANIFESTS)
    }
}

/// A comparison found differences.
const DIFFERENT: u8 = 1;

/// A comparison failed.
const COMPARISON_FAILED: u8 = 2;

/// Result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ComparisonResult {
    Equal,
    Different,
}

/// Returns the code of a finished comparison, and prints its error.
pub(super) fn compared(result: anyhow::Result<ComparisonResult>) -> ExitCode {
    match result {
        Ok(ComparisonResult::Equal) => done(ExitCode::SUCCESS),
        Ok(ComparisonResult::Different) => done(ExitCode::from(DIFFERENT)),
        Err(error) => failed(&error, ExitCode::from(COMPARISON_FAILED)),
    }
}

/// Returns the code of a finished command, and prints its error.
pub(super) fn code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => done(ExitCode::SUCCESS),
        Err(error) => failed(&error, done(ExitCode::FAILURE)),
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
            let _ = writeln!(io::stderr(), "error: {}", escaped(&name.to_string()));
        }
        return code;
    }
    if let Some(ManifestErrors(errors)) = error.downcast_ref::<ManifestErrors>() {
        report(errors);
        return done(code);
    }
    let _ = writeln!(io::stderr(), "error: {}", escaped(&with_causes(error)));
    code
}

/// Reports whether the reader of the output has closed it.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    io.into_iter()
        .any(|io| io.kind() == io::ErrorKind::BrokenPipe)
}

/// Renders the error with its causes in one line, without repeating a cause that the text before
/// it ends with.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(next) = cause {
        let cause_text = next.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        cause = next.source();
    }
    text
}
