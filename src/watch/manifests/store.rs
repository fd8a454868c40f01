//! Reads manifests: once, or again and again while the last valid content of each file is kept.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::ManifestOptions;
use super::files::{ManifestError, ManifestFiles, STDIN, find};
use super::merge::{Manifests, merge};
use super::parse::{FileContent, SyntaxError, parse};
use crate::watch::bounded;

/// Reads the manifests at `path` once, for commands.
///
/// # Errors
///
/// The first file or directory that cannot be read or is invalid.
pub fn load(path: &Path, options: &ManifestOptions) -> Result<Manifests, ManifestError> {
    let read_one = |path: &Path, text: std::io::Result<Vec<u8>>| {
        let text = text.map_err(|error| ManifestError::new(path, &error))?;
        parse(&text).map_err(|error| in_file(path, error))
    };
    let mut contents = Vec::new();
    if path == Path::new(STDIN) {
        let read = bounded::read_all(std::io::stdin().lock(), bounded::MAX_MANIFEST_BYTES);
        let content = read_one(path, read)?;
        if content.is_empty() {
            return Err(ManifestError::new(path, &"contains no objects"));
        }
        contents.push((path.to_owned(), content));
    } else {
        for file in find(path)?.files {
            let content = read_one(&file, bounded::read(&file, bounded::MAX_MANIFEST_BYTES))?;
            contents.push((file, content));
        }
    }
    let files = contents.iter();
    let mut manifests = merge(
        files.map(|(file, content)| (file.as_path(), content)),
        options,
    );
    if manifests.services.is_empty() {
        let ignored = manifests.ignored;
        manifests.notes.push(format!(
            "no Services found; {ignored} objects of other kinds are ignored"
        ));
    }
    Ok(manifests)
}

/// Last valid content of every file.
///
/// # Invariants
///
/// A read error removes no objects: only a file that certainly does not exist any more does.
#[derive(Debug, Default)]
pub(super) struct Store {
    files: BTreeMap<PathBuf, StoredFile>,
    /// The last manifests that were returned are current.
    is_current: bool,
    /// Manifests were returned at least once.
    is_listed: bool,
}

#[derive(Debug, Default)]
struct StoredFile {
    /// Hash of the text that was read last, valid or not; the same text is not parsed twice.
    seen: Option<u64>,
    valid: Option<FileContent>,
}

impl Store {
    /// Reads `found`, and drops all other files. Returns the errors, unless the text of the file
    /// was rejected before.
    pub(super) fn reread(&mut self, found: &ManifestFiles) -> Vec<ManifestError> {
        let mut errors = Vec::new();
        let before = self.files.len();
        self.files.retain(|path, _| found.files.contains(path));
        self.is_current &= self.files.len() == before;
        for path in &found.files {
            let file = self.files.entry(path.clone()).or_default();
            match file.reread(path) {
                // Deleted since the directory was listed: the next listing will not have it.
                Err(Some(error)) if !path.exists() => {
                    let (file, reason) = (path.display(), &error.reason);
                    tracing::debug!(%file, %reason, "manifest deleted while it was read");
                }
                Ok(is_changed) => self.is_current &= !is_changed,
                Err(error) => errors.extend(error),
            }
        }
        errors
    }

    /// Reports whether objects of any file are in use.
    pub(super) fn has_content(&self) -> bool {
        self.is_listed && self.files.values().any(|file| file.valid.is_some())
    }

    /// Reports whether this file was valid before, so that its objects stay in use.
    pub(super) fn has_content_of(&self, path: &Path) -> bool {
        let file = self.files.get(path);
        file.is_some_and(|file| file.valid.is_some())
    }

    /// Reports whether a file that was never valid blocks the first list.
    pub(super) fn is_blocked(&self) -> bool {
        !self.is_listed && self.files.values().any(|file| file.valid.is_none())
    }

    /// Returns the objects of all files, if they have changed.
    ///
    /// The first time every file must be valid: objects that are missing then would count as
    /// deleted, and the rules that an earlier process left for them would be removed. Later a new
    /// file that is invalid blocks only itself.
    pub(super) fn changed(&mut self, options: &ManifestOptions) -> Option<Manifests> {
        let is_complete = self.files.values().all(|file| file.valid.is_some());
        if self.is_current || !(is_complete || self.is_listed) {
            return None;
        }
        (self.is_current, self.is_listed) = (true, true);
        let valid = self.files.iter();
        let valid = valid.filter_map(|(path, file)| Some((path.as_path(), file.valid.as_ref()?)));
        Some(merge(valid, options))
    }
}

impl StoredFile {
    /// Reports whether the content changed. The error is `None` if it was returned before.
    fn reread(&mut self, path: &Path) -> Result<bool, Option<ManifestError>> {
        let text = bounded::read(path, bounded::MAX_MANIFEST_BYTES);
        let seen = match &text {
            Ok(text) => hash(text),
            Err(error) => hash(error.to_string()),
        };
        let is_seen = self.seen.replace(seen) == Some(seen);
        if is_seen {
            return if text.is_ok() { Ok(false) } else { Err(None) };
        }
        let text = text.map_err(|error| ManifestError::new(path, &error))?;
        self.valid = Some(self.parse(&text).map_err(|error| in_file(path, error))?);
        Ok(true)
    }

    /// Parses the text. An empty file that had content before is one that is about to be written.
    fn parse(&self, text: &[u8]) -> Result<FileContent, SyntaxError> {
        if text.is_empty() && self.valid.is_some() {
            let reason = "is empty; delete the file to remove its objects".to_owned();
            return Err(SyntaxError { line: None, reason });
        }
        parse(text)
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn in_file(file: &Path, error: SyntaxError) -> ManifestError {
    ManifestError {
        file: file.to_owned(),
        line: error.line,
        reason: error.reason,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the Services, if they changed, after `text` became the content of file `name`.
    fn write(store: &mut Store, directory: &Path, name: &str, text: &str) -> Option<Vec<String>> {
        fs::write(directory.join(name), text).unwrap();
        store.reread(&find(directory).unwrap());
        let changed = store.changed(&ManifestOptions::new("here".into()))?;
        let names = changed.services.iter().map(|one| one.metadata.name.clone());
        Some(names.collect())
    }

    #[test]
    fn invalid_files_block_the_first_list_and_later_only_themselves() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::default();
        let mut write = |name: &str, text: &str| {
            write(&mut store, directory.path(), name, text).map(|names| names.join(" "))
        };
        assert_eq!(write("b.yaml", "spec: ["), None);
        assert_eq!(
            write("a.yaml", "{kind: Service, metadata: {name: a}}"),
            None
        );
        let b = "{kind: Service, metadata: {name: b}}";
        assert_eq!(write("b.yaml", b).as_deref(), Some("a b"));
        assert_eq!(write("b.yaml", b), None);
        assert_eq!(write("c.yaml", "spec: ["), None);
        assert_eq!(write("a.yaml", "kind: Pod").as_deref(), Some("b"));
        assert_eq!(write("b.yaml", "spec: ["), None);
    }

    #[test]
    fn each_invalid_text_is_reported_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::default();
        for (text, reported) in [
            ("a: [", 1),
            ("a: [", 0),
            ("a: {", 1),
            ("a: 1", 0),
            ("a: {", 1),
        ] {
            fs::write(directory.path().join("a.yaml"), text).unwrap();
            let errors = store.reread(&find(directory.path()).unwrap());
            assert_eq!(errors.len(), reported, "{text}");
        }
    }
}
