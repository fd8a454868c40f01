//! Reads manifests again and again, and keeps the last valid content of each file.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::files::{ManifestError, ManifestFiles};
use super::merge::{Manifests, merge};
use super::parse::{FileContent, SyntaxError, parse};
use super::{ManifestOptions, Validation, notes};
use crate::watch::bounded;

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
    /// The text that was read last is not valid.
    is_unusable: bool,
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

    /// Returns the number of files without valid text now, whether or not their last valid content
    /// is in use.
    pub(super) fn unusable_files(&self) -> usize {
        self.files.values().filter(|file| file.is_unusable).count()
    }

    /// Reports whether the first list is blocked, because no file was ever valid.
    pub(super) fn is_blocked(&self) -> bool {
        !self.is_listed
            && !self.files.is_empty()
            && self.files.values().all(|file| file.valid.is_none())
    }

    /// Returns the objects of all files, if they have changed.
    ///
    /// A file that is invalid costs only itself, unless none is valid at the start: then the rules
    /// that an earlier process left would all be removed.
    pub(super) fn changed(&mut self, options: &ManifestOptions) -> Option<Manifests> {
        if self.is_current || self.is_blocked() {
            return None;
        }
        (self.is_current, self.is_listed) = (true, true);
        let valid = self.files.iter();
        let valid = valid.filter_map(|(path, file)| Some((path.as_path(), file.valid.as_ref()?)));
        let mut manifests = merge(valid.clone(), options);
        manifests.notes.extend(notes::notes(valid));
        Some(manifests)
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
        self.is_unusable = true;
        let text = text.map_err(|error| ManifestError::new(path, &error))?;
        let parsed = self.parse(&text);
        self.valid = Some(parsed.map_err(|error| ManifestError::in_file(path, error))?);
        self.is_unusable = false;
        Ok(true)
    }

    /// Parses the text. An empty file that had content before is one that is about to be written.
    fn parse(&self, text: &[u8]) -> Result<FileContent, SyntaxError> {
        if text.is_empty() && self.valid.is_some() {
            let reason = "is empty; delete the file to remove its objects";
            return Err(SyntaxError::new(reason));
        }
        parse(text, Validation::Lenient)
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::files::find;
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
    fn an_invalid_file_costs_only_itself() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::default();
        let mut write = |name: &str, text: &str| {
            let names = write(&mut store, directory.path(), name, text);
            (names.map(|names| names.join(" ")), store.unusable_files())
        };
        let some = |names: &str| Some(names.to_owned());
        // As long as no file is valid, nothing is known.
        assert_eq!(write("b.yaml", "spec: ["), (None, 1));
        let a = "{kind: Service, metadata: {name: a}}";
        assert_eq!(write("a.yaml", a), (some("a"), 1));
        let b = "{kind: Service, metadata: {name: b}}";
        assert_eq!(write("b.yaml", b), (some("a b"), 0));
        assert_eq!(write("b.yaml", b), (None, 0));
        assert_eq!(write("c.yaml", "spec: ["), (None, 1));
        assert_eq!(write("a.yaml", "kind: Pod"), (some("b"), 1));
        // The last valid content stays in use.
        assert_eq!(write("b.yaml", "spec: ["), (None, 2));
        assert_eq!(write("a.yaml", a), (some("a b"), 2));
    }

    #[test]
    fn a_directory_without_manifests_is_an_empty_list() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::default();
        assert_eq!(
            write(&mut store, directory.path(), "a.txt", ""),
            Some(Vec::new())
        );
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
