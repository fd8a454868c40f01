//! Exit codes of commands, and the only place that prints errors.
//!
//! 0: done. 1: failed, or a source is missing, or nothing is selected. 2: a part of the source
//! cannot be used. 64: unusable flags. Commands that compare: 0: equal. 1: different. 2: the
//! comparison failed, or a manifest or live rule cannot be used. `status`: 0: well. 1: degraded. 2:
//! no daemon answers. `check`: 0: nothing failed. 1: something did.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use super::terminal::{self, escaped};
use crate::config::Unusable;
use crate::telemetry::{self, Format, with_causes};
use crate::watch::manifests::{ManifestError, ManifestErrorScope, ManifestErrors};

/// Unusable flags or files: sysexits' `EX_USAGE`. Nothing has been changed.
const UNUSABLE: u8 = 64;

/// Prints an error of clap, which may also be help or the version, and returns its code.
pub(super) fn unusable(error: &clap::Error, args: &[OsString]) -> ExitCode {
    // Errors repeat arguments, which may be of an untrusted file.
    let is_harmful = |arg: &OsString| matches!(escaped(&arg.to_string_lossy()), Cow::Owned(_));
    let printed = if error.use_stderr() && args.iter().any(is_harmful) {
        io::stderr().write_all(escaped(&error.to_string()).as_bytes())
    } else {
        error.print()
    };
    if error.use_stderr() {
        // If stderr is gone, the error is lost but the code remains.
        return ExitCode::from(UNUSABLE);
    }
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// A part of the input cannot be used, whether or not others were.
const INCOMPLETE: u8 = 2;

/// Errors about parts of the input that a command printed while it went on with others.
#[derive(Debug, Default)]
pub(super) struct ErrorReport(RefCell<BTreeSet<String>>);

impl ErrorReport {
    /// Prints errors of manifests, each once, and makes the command fail in the end.
    pub(super) fn print(&self, errors: &[ManifestError]) {
        let is_first = self.0.borrow().is_empty();
        for error in errors {
            self.print_one(error);
        }
        let mut scopes = errors.iter().map(|error| error.scope);
        if is_first && scopes.any(|scope| scope == ManifestErrorScope::Object) {
            let _ = writeln!(io::stderr(), "{LEFT_OUT}");
        }
    }

    /// Prints an error once, and makes the command fail in the end.
    pub(super) fn print_one(&self, error: &impl Display) {
        let text = escaped(&error.to_string()).into_owned();
        let mut printed = self.0.borrow_mut();
        if !printed.contains(&text) {
            let _ = writeln!(io::stderr(), "error: {text}");
            printed.insert(text);
        }
    }

    /// Returns the code of a command that did what it could.
    fn done(&self, code: ExitCode) -> ExitCode {
        if self.0.borrow().is_empty() {
            code
        } else {
            ExitCode::from(INCOMPLETE)
        }
    }
}

/// Consequence of errors, which a difference alone does not show.
const LEFT_OUT: &str = "hint: what has errors is not used; the daemon, and --lenient, use the valid \
                        parts of invalid objects";

/// The comparison failed, or the state of the node is unknown.
#[cfg(feature = "tools")]
const UNKNOWN: u8 = 2;

/// Returns the code of a command that reports whether two sides are equal or a node is well, and
/// prints its error: that is not known.
#[cfg(feature = "tools")]
pub(super) fn judged(is_passed: anyhow::Result<bool>, report: &ErrorReport) -> ExitCode {
    match is_passed {
        Ok(true) => report.done(ExitCode::SUCCESS),
        Ok(false) => report.done(ExitCode::FAILURE),
        Err(error) => failed(&error, ExitCode::from(UNKNOWN), report),
    }
}

/// Returns the code of a finished command, and prints its error.
pub(super) fn code(result: anyhow::Result<()>, report: &ErrorReport) -> ExitCode {
    match result {
        Ok(()) => report.done(ExitCode::SUCCESS),
        #[cfg(feature = "tools")]
        Err(error) if error.is::<NotANode>() => failed(&error, ExitCode::from(INCOMPLETE), report),
        Err(error) => failed(&error, report.done(ExitCode::FAILURE), report),
    }
}

/// There is nothing to look at on this machine.
#[cfg(feature = "tools")]
#[derive(Debug, thiserror::Error)]
pub(super) enum NotANode {
    /// Its kernel can be read.
    #[error(
        "this machine is not a node: it has neither deltaproxy nor rules of a kube-proxy in iptables mode\n\
         hint: use --node NAME to read a node of a cluster; on a node in nftables mode, \
         `nft list table ip kube-proxy` lists its rules"
    )]
    Rules,
    /// The iptables binaries are missing.
    #[error(
        "this machine is not a node: cannot start `{program}`: {cause}\n\
         hint: use --node NAME to read a node of a cluster; on a node, install the package `iptables`"
    )]
    Programs {
        /// Name or path of the program.
        program: String,
        /// Error of the system call.
        cause: io::Error,
    },
}

/// Error that is in the log already.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
struct Logged(anyhow::Error);

/// Logs an error of the daemon in the format of its log, in place of printing it.
///
/// Upstream: staging/src/k8s.io/component-base/cli/run.go, `Run` (v1.37)
pub(super) fn log_fatal(error: anyhow::Error, format: Format) -> anyhow::Error {
    if is_broken_pipe(&error) {
        return error;
    }
    // An error of flags or of the filter precedes the log. Of two loggers, the first one stays.
    let _ = terminal::install_log(format, 0, None);
    if let Some(unusable) = error.downcast_ref::<Unusable>() {
        for problem in &unusable.problems {
            tracing::error!(error = %problem, "command failed");
        }
    } else {
        tracing::error!(error = %with_causes(error.as_ref()), "command failed");
    }
    Logged(error).into()
}

fn failed(error: &anyhow::Error, code: ExitCode, report: &ErrorReport) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if let Some(Logged(cause)) = error.downcast_ref::<Logged>() {
        let is_unusable = cause.is::<Unusable>();
        return if is_unusable {
            ExitCode::from(UNUSABLE)
        } else {
            code
        };
    }
    if let Some(unusable) = error.downcast_ref::<Unusable>() {
        for problem in &unusable.problems {
            let problem = problem.to_string();
            let _ = writeln!(io::stderr(), "error: {}", telemetry::escaped(&problem));
        }
        return ExitCode::from(UNUSABLE);
    }
    if let Some(ManifestErrors(errors)) = error.downcast_ref::<ManifestErrors>() {
        report.print(errors);
        let mut scopes = errors.iter().map(|error| error.scope);
        return if scopes.any(|scope| scope == ManifestErrorScope::Source) {
            code
        } else {
            report.done(code)
        };
    }
    let _ = writeln!(
        io::stderr(),
        "error: {}",
        escaped(&with_causes(error.as_ref()))
    );
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
