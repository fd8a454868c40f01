//! The user's own program for differences, as `kubectl diff` runs it.
//!
//! Apart because it is the only program that a command runs besides those of iptables. It is given
//! two folders with a file for each family.
//!
//! Upstream: staging/src/k8s.io/kubectl/pkg/cmd/diff/diff.go, `getCommand` (v1.36)
//!
//! Differs from upstream: words are those of a shell, so that quotes hold blanks together. kubectl
//! splits at blanks, and drops parameters with quotes or anything else but letters, digits, `-` and
//! `=`. And here they stand before the folders, not behind them.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::Context;
use nix::sys::signal::Signal;

use super::sheets;
use super::sides::Sides;

/// Shows the two sides. How a program that ends with 0 or 1 ends says nothing that we do not know.
///
/// # Errors
///
/// There is no such program, or it ends with more than 1: it could not compare.
pub(super) fn show(program: &str, sides: &Sides) -> anyhow::Result<()> {
    let (name, parameters) = words(program)?;
    let folder = Folder::new()?;
    let (left, right) = (folder.0.join("LIVE"), folder.0.join("DESIRED"));
    write(&left, &right, sides).context("writing what the external diff is to read")?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the user's program is none of iptables'"
    )]
    let mut command = Command::new(&name);
    let status = command
        .args(parameters)
        .args([&left, &right])
        .status()
        .with_context(|| format!("KUBECTL_EXTERNAL_DIFF: starting `{name}`"))?;
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

fn write(left: &Path, right: &Path, sides: &Sides) -> std::io::Result<()> {
    fs::create_dir(left)?;
    fs::create_dir(right)?;
    for family in sides.families() {
        let [old, new] = sheets(sides, family);
        fs::write(left.join(family.as_str()), old.to_string())?;
        fs::write(right.join(family.as_str()), new.to_string())?;
    }
    Ok(())
}

/// A folder that nobody else may look into, and that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let name = format!("deltaproxy-diff-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut builder = DirBuilder::new();
        // Fails if it is there already, whoever made it.
        let made = builder.mode(0o700).create(&path);
        made.with_context(|| format!("making `{}`", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind is in the folder for such.
        let _ = fs::remove_dir_all(&self.0);
    }
}
