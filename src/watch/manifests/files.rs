//! Finds the manifests at a path, and describes errors of files.
//!
//! Finding is separate from reading: an unreadable directory must not look like deleted files.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use nix::errno::Errno;

use super::parse::SyntaxError;

/// Path that stands for standard input.
pub(super) const STDIN: &str = "-";

/// Fails unless there is a file or directory at `path`. Reads no file.
///
/// # Errors
///
/// There is nothing at the path, or a directory cannot be listed.
pub(crate) fn exist(path: &Path) -> Result<(), ManifestError> {
    if path == Path::new(STDIN) {
        return Ok(());
    }
    find(path).map(drop)
}

/// Manifests at a path.
#[derive(Debug, Default)]
pub(super) struct ManifestFiles {
    /// Sorted by path.
    pub(super) files: BTreeSet<PathBuf>,
    /// Directories to watch for changes of these files, and for new ones.
    pub(super) directories: BTreeSet<PathBuf>,
}

/// Returns the manifests at `path`: itself if it is a file, else all files below it, at any depth,
/// that are called `*.yaml`, `*.yml` or `*.json`. Symbolic links are followed. Hidden files and
/// directories are skipped, which includes the versions of a mounted `ConfigMap`.
pub(super) fn find(path: &Path) -> Result<ManifestFiles, ManifestError> {
    let mut files = ManifestFiles::default();
    let mut entered = HashSet::new();
    files.watch_parent(path);
    let metadata = fs::metadata(path).map_err(|error| ManifestError::new(path, &error))?;
    if metadata.is_dir() {
        files.add_directory(path, &mut entered)?;
    } else {
        files.add_file(path.to_owned());
    }
    Ok(files)
}

impl ManifestFiles {
    /// Adds the files below `directory`, unless a link has led to it before.
    fn add_directory(
        &mut self,
        directory: &Path,
        entered: &mut HashSet<PathBuf>,
    ) -> Result<(), ManifestError> {
        let at = |error: io::Error| ManifestError::new(directory, &error);
        if !entered.insert(fs::canonicalize(directory).map_err(at)?) {
            return Ok(());
        }
        self.directories.insert(directory.to_owned());
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory).map_err(at)? {
            paths.push(entry.map_err(at)?.path());
        }
        paths.sort();
        for path in paths {
            if is_hidden(&path) {
                continue;
            }
            let metadata = match fs::metadata(&path) {
                Ok(metadata) => metadata,
                Err(error) if leads_nowhere(&error) => continue,
                Err(error) => return Err(ManifestError::new(&path, &error)),
            };
            if metadata.is_dir() {
                self.add_directory(&path, entered)?;
            } else if metadata.is_file() && is_manifest(&path) {
                // A regular file only: reading a pipe or a device may never end.
                self.add_file(path);
            }
        }
        Ok(())
    }

    fn add_file(&mut self, file: PathBuf) {
        // A write in place to the target of a link is seen only in the directory of the target.
        if let Ok(target) = fs::canonicalize(&file) {
            self.watch_parent(&target);
        }
        self.files.insert(file);
    }

    fn watch_parent(&mut self, path: &Path) {
        if let Some(parent) = path.parent() {
            self.directories.insert(parent.to_owned());
        }
    }
}

fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_encoded_bytes);
    name.is_some_and(|name| name.starts_with(b"."))
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    matches!(extension, Some("yaml" | "yml" | "json"))
}

/// Error about one file or directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {reason}", shown(.file), line_shown(*.line))]
pub(crate) struct ManifestError {
    /// Path of the file or directory; `-` for standard input.
    pub file: PathBuf,
    /// Line of the problem, counted from 1, if it is about the text.
    pub line: Option<u64>,
    /// Problem in one line, without the place.
    pub reason: String,
}

impl ManifestError {
    pub(super) fn new(file: &Path, reason: &dyn fmt::Display) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            reason: reason.to_string(),
        }
    }

    pub(super) fn in_file(file: &Path, error: SyntaxError) -> Self {
        Self {
            file: file.to_owned(),
            line: error.line,
            reason: error.reason,
        }
    }
}

fn line_shown(line: Option<u64>) -> String {
    line.map(|line| format!(" line {line}")).unwrap_or_default()
}

/// Returns the quoted path, or `standard input`.
fn shown(file: &Path) -> String {
    if file == Path::new(STDIN) {
        "standard input".to_owned()
    } else {
        format!("`{}`", file.display())
    }
}

/// Reports whether an entry is a link without a target, or was deleted meanwhile. Any other error,
/// as of a network file system, must not look like the deletion of a file and its objects.
fn leads_nowhere(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ELOOP as i32)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_unreadable_entry_is_an_error_and_not_a_deleted_file() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("a.yaml"), "").unwrap();
        // Both lead nowhere.
        symlink("nothing", at("b.yaml")).unwrap();
        symlink("c.yaml", at("c.yaml")).unwrap();
        let found = find(directory.path()).unwrap();
        assert_eq!(found.files, BTreeSet::from([at("a.yaml")]));
        // The name is longer than any file system allows; root may read all others.
        symlink("x".repeat(300), at("d.yaml")).unwrap();
        let error = find(directory.path()).unwrap_err();
        assert_eq!(error.file, at("d.yaml"));
    }
}
