//! The user's own program for differences, as `kubectl diff` runs it.
//!
//! Apart because it is the only program that a command runs besides those of iptables. It is given
//! two folders with a file for each family.
//!
//! Source: `kubectl diff`, KUBECTL_EXTERNAL_DIFF: program and parameters, split at blanks.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::sheets;
use super::sides::Sides;

/// Shows the two sides. How a program that ends with 0 or 1 ends says nothing that we do not know.
///
/// # Errors
///
/// The program does not start, or ends with more than 1: it could not compare.
pub(super) fn show(program: &str, sides: &Sides) -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let (left, right) = (folder.0.join("LIVE"), folder.0.join("DESIRED"));
    write(&left, &right, sides).context("writing what the external diff is to read")?;
    let mut words = program.split_whitespace();
    let name = words.next().unwrap_or_default();
    #[expect(
        clippy::disallowed_methods,
        reason = "the user's program is none of iptables'"
    )]
    let mut command = Command::new(name);
    let status = command
        .args(words)
        .args([&left, &right])
        .status()
        .with_context(|| format!("KUBECTL_EXTERNAL_DIFF: starting `{name}`"))?;
    anyhow::ensure!(
        matches!(status.code(), Some(0 | 1)),
        "KUBECTL_EXTERNAL_DIFF: `{program}` ended with {status}"
    );
    Ok(())
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
