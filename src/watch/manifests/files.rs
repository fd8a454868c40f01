//! Finds the manifests at a path, and describes errors of files.
//!
//! Finds all of them or fails, before any is read: an unreadable directory must not look like
//! deleted files.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::FileType;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use nix::errno::Errno;

/// Path that stands for standard input.
pub(super) const STDIN: &str = "-";

/// Checks that there is a regular file or a directory at `path`, or that it is standard input.
/// Reads no file.
pub(crate) fn check_path(path: &Path) -> Result<(), ManifestError> {
    if path == Path::new(STDIN) {
        return Ok(());
    }
    let at = |error: io::Error| ManifestError::new(path, &error);
    let type_ = fs::metadata(path).map_err(at)?.file_type();
    if !type_.is_file() && !type_.is_dir() {
        return Err(ManifestError::new(path, &NOT_A_FILE));
    }
    find(path).map(drop)
}

/// Manifests at a path.
#[derive(Debug, Default)]
pub(super) struct ManifestFiles {
    /// Sorted by path.
    pub(super) files: BTreeSet<PathBuf>,
    /// Canonical paths of the directories to watch for changes of these files, and for new ones.
    pub(super) directories: BTreeSet<PathBuf>,
    /// Entries with the name of a manifest that are not files, links without a target that may
    /// have been a manifest or a directory, and kustomizations. Sorted by path.
    pub(super) unusable: Vec<ManifestError>,
}

/// Returns the manifests at `path`: itself if it is a file, else all files below it, at any depth,
/// that are called `*.yaml`, `*.yml`, `*.json` or `Kustomization`. Symbolic links are followed.
/// Hidden files and directories are skipped, which includes the versions of a mounted `ConfigMap`.
pub(super) fn find(path: &Path) -> Result<ManifestFiles, ManifestError> {
    let mut files = ManifestFiles::default();
    let metadata = fs::metadata(path).map_err(|error| ManifestError {
        scope: ManifestErrorScope::Source,
        ..ManifestError::new(path, &error)
    })?;
    // A file is often replaced by renaming, and the kubelet updates a mounted `ConfigMap` by
    // replacing the symbolic link `..data` next to its files.
    let parent = path.parent().map(fs::canonicalize).and_then(Result::ok);
    files.directories.extend(parent);
    if metadata.is_dir() {
        files.add_directory(path, &mut HashSet::new())?;
    } else {
        files.add_link(path.to_owned());
    }
    Ok(files)
}

impl ManifestFiles {
    /// Adds the files below `directory`, unless they were added by another path to it.
    fn add_directory(
        &mut self,
        directory: &Path,
        entered: &mut HashSet<PathBuf>,
    ) -> Result<(), ManifestError> {
        let at = |error: io::Error| ManifestError::new(directory, &error);
        let listed =
            fs::canonicalize(directory).and_then(|path| Ok((path, fs::read_dir(directory)?)));
        let (canonical, listed) = match listed {
            // Deleted since its parent was listed.
            Err(error) if is_absent(&error) && !entered.is_empty() => return Ok(()),
            listed => listed.map_err(at)?,
        };
        if !entered.insert(canonical.clone()) {
            return Ok(());
        }
        self.directories.insert(canonical);
        let mut entries = Vec::new();
        for entry in listed {
            let entry = entry.map_err(at)?;
            if !is_hidden(&entry.path()) {
                entries.push((entry.path(), entry.file_type().map_err(at)?));
            }
        }
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (path, type_) in entries {
            if type_.is_symlink() {
                self.add_linked_entry(path, entered)?;
            } else {
                self.add_entry(path, type_, entered)?;
            }
        }
        Ok(())
    }

    /// Adds the target of a symbolic link in a directory.
    fn add_linked_entry(
        &mut self,
        link: PathBuf,
        entered: &mut HashSet<PathBuf>,
    ) -> Result<(), ManifestError> {
        match fs::metadata(&link) {
            Ok(metadata) if metadata.is_file() && is_manifest(&link) => self.add_link(link),
            Ok(metadata) => self.add_entry(link, metadata.file_type(), entered)?,
            Err(error) if is_absent(&error) => self.add_dangling_link(&link),
            Err(error) => return Err(ManifestError::new(&link, &error)),
        }
        Ok(())
    }

    /// Adds an entry of a directory. The type is that of the entry, or of the target if the entry
    /// is a link: the directory has it, so that no file has to be looked up.
    fn add_entry(
        &mut self,
        path: PathBuf,
        type_: FileType,
        entered: &mut HashSet<PathBuf>,
    ) -> Result<(), ManifestError> {
        if type_.is_dir() {
            self.add_directory(&path, entered)?;
        } else if type_.is_file() && is_manifest(&path) {
            self.add_file(path);
        } else if is_manifest(&path) {
            // Reading a pipe or a device may never end.
            self.unusable.push(ManifestError::new(&path, &NOT_A_FILE));
        }
        Ok(())
    }

    /// Adds the error of a link without a target. Ignores an entry that was deleted since the
    /// directory was listed.
    fn add_dangling_link(&mut self, link: &Path) {
        let Ok(target) = fs::read_link(link) else {
            return;
        };
        // Without an extension it may have been a directory of manifests.
        if is_manifest(link) || link.extension().is_none() {
            let target = target.display();
            let reason = format!("is a symbolic link to `{target}`, which does not exist");
            self.unusable.push(ManifestError::new(link, &reason));
        }
    }

    fn add_link(&mut self, file: PathBuf) {
        // A write in place to the target of a link is seen only in the directory of the target.
        if let Ok(target) = fs::canonicalize(&file) {
            self.directories.extend(target.parent().map(Path::to_owned));
        }
        self.add_file(file);
    }

    /// Adds a file. A kustomization is unusable: it names other files, and changes to their
    /// objects.
    fn add_file(&mut self, file: PathBuf) {
        if is_kustomization(&file) {
            let parent = file.parent().filter(|parent| *parent != Path::new(""));
            let directory = parent.unwrap_or(Path::new(".")).display();
            let reason = format!(
                "is a kustomization, which is not rendered: run `kubectl kustomize {directory}`"
            );
            self.unusable.push(ManifestError::new(&file, &reason));
        } else {
            self.files.insert(file);
        }
    }
}

fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_encoded_bytes);
    name.is_some_and(|name| name.starts_with(b"."))
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    is_kustomization(path) || matches!(extension, Some("yaml" | "yml" | "json"))
}

/// Upstream: sigs.k8s.io/kustomize/api/konfig, `RecognizedKustomizationFileNames`
fn is_kustomization(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    matches!(
        name,
        Some("kustomization.yaml" | "kustomization.yml" | "Kustomization")
    )
}

/// Problem of a pipe, a socket or a device.
const NOT_A_FILE: &str = "is neither a regular file nor a directory";

/// Error about one file or directory, or one object in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {reason}", shown(.file), line_shown(*.line))]
pub(crate) struct ManifestError {
    /// Path of the file or directory; `-` for standard input.
    pub file: PathBuf,
    /// Line of the problem, counted from 1, if it is about the text.
    pub line: Option<u64>,
    /// Problem in one line, without file and line.
    pub reason: String,
    /// Part of the manifests that the error is about, most of which is not used.
    pub scope: ManifestErrorScope,
}

/// Part of manifests that an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManifestErrorScope {
    /// Path that was given: there is nothing else to use.
    Source,
    /// File or directory.
    File,
    /// Object in a file.
    Object,
}

impl ManifestError {
    pub(super) fn new(file: &Path, reason: &dyn fmt::Display) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            reason: reason.to_string(),
            scope: ManifestErrorScope::File,
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

/// Reports whether an error means that an entry is a link without a target, or was deleted since
/// its directory was listed. Any other error, as of a network file system, must not look like the
/// deletion of a file and its objects.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ELOOP as i32)
}

#[cfg(test)]
#[path = "tests/files.rs"]
mod tests;
