//! The user's own program for differences, as `kubectl diff` runs it.
//!
//! Apart because it is the only program that a command runs besides those of iptables. It is given
//! two folders with a file for each family, which are gone afterwards, however it ends.
//!
//! Upstream: staging/src/k8s.io/kubectl/pkg/cmd/diff/diff.go, `getCommand` (v1.36)
//!
//! Differs from upstream: words are those of a shell, so that quotes hold blanks together. kubectl
//! splits at blanks, and drops parameters with quotes or anything else but letters, digits, `-` and
//! `=`. And here they stand before the folders, not behind them. A kubectl that is interrupted
//! leaves the folders behind.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::Context;
use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::process::Command;

use super::interrupt::Interrupts;
use super::sides::Sides;
use super::unified::sheets;

/// What is, and what is desired: names of folders, as kubectl has them with versions behind them.
pub(super) const NAMES: [&str; 2] = ["LIVE", "DESIRED"];

/// Shows the two sides. How a program that ends with 0 or 1 ends says nothing that we do not know.
///
/// # Errors
///
/// There is no such program, it ends with more than 1 because it could not compare, or a signal
/// ends both of us.
pub(super) fn show(program: &str, sides: &Sides) -> anyhow::Result<()> {
    let (name, parameters) = words(program)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let status = runtime.block_on(async {
        // From here on a signal ends nothing before the folders are gone.
        let interrupts = Interrupts::new()?;
        let folder = folder(sides).context("writing what the external diff is to read")?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the user's program is none of iptables'"
        )]
        let mut command = Command::new(&name);
        let started = command
            .args(parameters)
            .args(NAMES.map(|side| folder.path().join(side)))
            .spawn();
        let child = started.with_context(|| format!("KUBECTL_EXTERNAL_DIFF: starting `{name}`"))?;
        interrupts.wait(child).await
    })?;
    anyhow::ensure!(
        matches!(status.code(), Some(0 | 1)) || is_broken_pipe(status),
        "KUBECTL_EXTERNAL_DIFF: `{program}` ended with {status}"
    );
    Ok(())
}

/// The program and its parameters.
fn words(program: &str) -> anyhow::Result<(String, Vec<String>)> {
    let words = shlex::split(program).with_context(|| {
        format!(
            "KUBECTL_EXTERNAL_DIFF: a quote in `{program}` has no end\n\
             hint: it is read as a shell would read it"
        )
    })?;
    let mut words = words.into_iter();
    let name = words.next().filter(|name| !name.is_empty());
    let name = name.with_context(|| format!("KUBECTL_EXTERNAL_DIFF: no program in `{program}`"))?;
    Ok((name, words.collect()))
}

/// Whoever read its output had enough of it; or that of the last program of a script, as shells
/// tell it.
fn is_broken_pipe(status: ExitStatus) -> bool {
    let signal = Signal::SIGPIPE as i32;
    status.signal() == Some(signal) || status.code() == Some(128 + signal)
}

/// Both sides, where nobody else may look: rules tell who may reach what.
fn folder(sides: &Sides) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("deltaproxy-diff-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()?;
    let paths = NAMES.map(|side| folder.path().join(side));
    for path in &paths {
        DirBuilder::new().mode(0o700).create(path)?;
    }
    for family in sides.families() {
        for (path, sheet) in paths.iter().zip(sheets(sides, family)) {
            write(&path.join(family.as_str()), &sheet.to_string())?;
        }
    }
    Ok(folder)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file?.write_all(text.as_bytes())
}
