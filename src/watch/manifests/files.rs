//! Which files a path stands for.
//!
//! Apart from reading them because one unreadable directory must not look like deleted files.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::error::ManifestError;
use super::load::STDIN;

/// Whether there is anything at `path`, without reading it.
///
/// # Errors
///
/// There is nothing, or a directory that cannot be looked into.
pub fn exist(path: &Path) -> Result<(), ManifestError> {
    if path == Path::new(STDIN) {
        return Ok(());
    }
    find(path).map(drop)
}

/// What is below a path.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Sorted by path.
    pub(super) files: BTreeSet<PathBuf>,
    /// Where to watch for changes of these files, and for new ones.
    pub(super) directories: BTreeSet<PathBuf>,
}

/// The manifests at `path`: itself if it is a file, else all below it, at any depth, that are
/// called `*.yaml`, `*.yml` or `*.json`. Symbolic links are followed. Hidden files and directories
/// are left out, which also hides the copies that a mounted `ConfigMap` is made of.
pub(super) fn find(path: &Path) -> Result<Found, ManifestError> {
    let mut found = Found::default();
    let mut entered = HashSet::new();
    found.watch_parent(path);
    let metadata = fs::metadata(path).map_err(|error| ManifestError::new(path, &error))?;
    if metadata.is_dir() {
        found.enter(path, &mut entered)?;
    } else {
        found.add(path.to_owned());
    }
    Ok(found)
}

impl Found {
    /// Adds what is below `directory`, unless a link has led here before.
    fn enter(
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
            // A link to nowhere is no file.
            let Ok(metadata) = fs::metadata(&path) else {
                continue;
            };
            if metadata.is_dir() {
                self.enter(&path, entered)?;
            } else if metadata.is_file() && is_manifest(&path) {
                // Reading a pipe or a device may never end.
                self.add(path);
            }
        }
        Ok(())
    }

    fn add(&mut self, file: PathBuf) {
        // Where a link leads to, writing in place is seen only there.
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
