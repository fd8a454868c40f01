//! Reads manifests when they may have changed, and stores the last valid content of each file.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::files::{ManifestError, ManifestFiles};
use super::kustomization::{self, PatchFiles};
use super::merge::{Manifests, merge};
use super::parse::{FileContent, SyntaxError, parse};
use super::{ManifestOptions, Validation, notes};
use crate::watch::bounded;

/// Last valid content of every file.
///
/// # Invariants
///
/// An object is removed only if its file no longer exists, if new valid content of the file lacks
/// it, or if a kustomization names the file as a patch. A file that has become unusable removes no
/// objects.
#[derive(Debug, Default)]
pub(super) struct Store {
    files: BTreeMap<PathBuf, StoredFile>,
    /// Nothing has changed since [`Self::changed`] last returned manifests.
    is_current: bool,
    /// [`Self::changed`] has returned manifests at least once.
    has_returned: bool,
}

#[derive(Debug, Default)]
struct StoredFile {
    /// Hash of the text that was read last, valid or not, or of the error. The same text is not
    /// parsed twice.
    last_read: Option<u64>,
    valid: Option<FileContent>,
    /// Files that the valid content names as patches.
    patches: Vec<PathBuf>,
    /// The file could not be read or parsed when it was read last.
    is_unusable: bool,
}

/// Result of reading a file again.
enum FileReread {
    /// The text, or the error of reading it, is the same as last time.
    Unchanged,
    /// The text is new and valid.
    Changed,
    /// The file cannot be read or parsed, and the error is new.
    Unusable(ManifestError),
}

impl Store {
    /// Reads `found`, and drops all other files, except those at or below an unusable entry.
    /// Returns the errors that are new.
    pub(super) fn reread(&mut self, found: &ManifestFiles) -> Vec<ManifestError> {
        let mut errors = Vec::new();
        let before = self.files.len();
        // The target of a link may be missing for a while, and with it the files below the link.
        let is_unusable =
            |path: &Path| found.unusable.iter().any(|one| path.starts_with(&one.file));
        self.files
            .retain(|path, _| found.files.contains(path) || is_unusable(path));
        self.is_current &= self.files.len() == before;
        for error in &found.unusable {
            let file = self.files.entry(error.file.clone()).or_default();
            if file.reject(error) {
                errors.push(error.clone());
            }
        }
        for path in &found.files {
            let file = self.files.entry(path.clone()).or_default();
            match file.reread(path) {
                FileReread::Unchanged => {}
                FileReread::Changed => self.is_current = false,
                // Deleted since the directory was listed: the next listing will not have it.
                FileReread::Unusable(error) if !path.exists() => {
                    let (file, reason) = (path.display(), &error.reason);
                    tracing::debug!(%file, %reason, "manifest deleted while it was read");
                }
                FileReread::Unusable(error) => errors.push(error),
            }
        }
        errors
    }

    /// Reports whether objects of any file are in use.
    pub(super) fn has_content(&self) -> bool {
        self.has_returned && self.files.values().any(|file| file.valid.is_some())
    }

    /// Reports whether this file, or one below this path, was valid before, so that its objects
    /// stay in use.
    pub(super) fn has_content_of(&self, path: &Path) -> bool {
        let mut files = self.files.iter();
        files.any(|(file, stored)| file.starts_with(path) && stored.valid.is_some())
    }

    /// Returns the number of files that cannot be used now, including those whose last valid
    /// content stays in use.
    pub(super) fn unusable_files(&self) -> usize {
        self.files.values().filter(|file| file.is_unusable).count()
    }

    /// Reports whether the first list is blocked, because no file was ever valid.
    pub(super) fn is_blocked(&self) -> bool {
        !self.has_returned
            && !self.files.is_empty()
            && self.files.values().all(|file| file.valid.is_none())
    }

    /// Returns the objects of all files, if they have changed.
    ///
    /// An unusable file does not affect other files, unless no file is valid at the start: then
    /// nothing is returned, since all rules of an earlier process would be removed.
    pub(super) fn changed(&mut self, options: &ManifestOptions) -> Option<Manifests> {
        if self.is_current || self.is_blocked() {
            return None;
        }
        (self.is_current, self.has_returned) = (true, true);
        let mut patches = PatchFiles::default();
        for (path, file) in &self.files {
            patches.add(path, file.patches.iter().cloned());
        }
        let mut patch_notes = Vec::new();
        let valid = self.files.iter();
        let valid = valid.filter_map(|(path, file)| Some((path.as_path(), file.valid.as_ref()?)));
        let valid: Vec<_> = valid
            .filter(|(path, _)| {
                let checked = patches.check(path);
                let checked = checked.map_err(|error| patch_notes.push(error.to_string()));
                checked.is_ok()
            })
            .collect();
        let valid = valid.iter().copied();
        let mut manifests = merge(valid.clone(), options);
        let found = &mut manifests.notes;
        found.extend(kustomization::unrendered(valid.clone()));
        found.extend(patch_notes);
        found.extend(notes::unused_endpoints_objects(valid));
        Some(manifests)
    }
}

impl StoredFile {
    fn reread(&mut self, path: &Path) -> FileReread {
        let text = bounded::read_regular_file(path, bounded::MAX_MANIFEST_BYTES);
        let last_read = match &text {
            Ok(text) => hash(text),
            Err(error) => hash(error.to_string()),
        };
        if self.last_read.replace(last_read) == Some(last_read) {
            return FileReread::Unchanged;
        }
        let text = text.map_err(|error| ManifestError::new(path, &error));
        let parsed = text.and_then(|text| {
            let content = self.parse(&text);
            let content = content.map_err(|error| ManifestError::in_file(path, error))?;
            let patches = kustomization::patches(path, &text, &content);
            Ok((content, patches))
        });
        self.is_unusable = parsed.is_err();
        match parsed {
            Ok((content, patches)) => {
                self.valid = Some(content);
                self.patches = patches;
                FileReread::Changed
            }
            Err(error) => FileReread::Unusable(error),
        }
    }

    /// Records an entry that is not a regular file. Reports whether its error is new.
    fn reject(&mut self, error: &ManifestError) -> bool {
        let last_read = hash(&error.reason);
        self.is_unusable = true;
        self.last_read.replace(last_read) != Some(last_read)
    }

    /// Parses the text. An empty file is an error: a program may be writing it.
    fn parse(&self, text: &[u8]) -> Result<FileContent, SyntaxError> {
        if text.is_empty() {
            let reason = match self.valid {
                Some(_) => "is empty; delete the file to remove its objects",
                None => "is empty; a comment in it shows that this is intended",
            };
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
    fn an_unusable_file_does_not_affect_other_files() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::default();
        let mut write = |name: &str, text: &str| {
            let names = write(&mut store, directory.path(), name, text);
            (names.map(|names| names.join(" ")), store.unusable_files())
        };
        let some = |names: &str| Some(names.to_owned());
        // Nothing is returned before a file was valid.
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
    fn a_file_that_became_a_dangling_link_keeps_its_objects() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("a.yaml");
        let mut store = Store::default();
        let options = ManifestOptions::new("here".into());
        let mut reread = || {
            let errors = store.reread(&find(directory.path()).unwrap());
            let changed = store.changed(&options).map(|one| one.services.len());
            (errors.len(), changed, store.unusable_files())
        };
        std::os::unix::fs::symlink("b", &link).unwrap();
        // Nothing is returned, so the rules of an earlier process stay.
        assert_eq!(reread(), (1, None, 1));
        assert_eq!(reread(), (0, None, 1));
        let target = directory.path().join("b");
        fs::write(&target, "{kind: Service, metadata: {name: a}}").unwrap();
        assert_eq!(reread(), (0, Some(1), 0));
        fs::remove_file(&target).unwrap();
        assert_eq!(reread(), (1, None, 1));
        fs::remove_file(&link).unwrap();
        assert_eq!(reread(), (0, Some(0), 0));
    }

    #[test]
    fn a_patch_of_a_kustomization_is_not_an_object() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::default();
        let mut write = |name: &str, text: &str| {
            let names = write(&mut store, directory.path(), name, text);
            names.map(|names| names.join(" "))
        };
        let some = |names: &str| Some(names.to_owned());
        let service = "{kind: Service, metadata: {name: a}}";
        assert_eq!(write("a.yaml", service), some("a"));
        assert_eq!(
            write("b.yaml", "{kind: Service, metadata: {name: b}}"),
            some("a b")
        );
        let kustomization = "kind: Kustomization\npatches: [{path: b.yaml}]\n";
        assert_eq!(write("kustomization.yaml", kustomization), some("a"));
        // What the last valid content names stays a patch.
        assert_eq!(write("kustomization.yaml", "patches: ["), None);
        assert_eq!(
            write("b.yaml", "{kind: Service, metadata: {name: c}}"),
            some("a")
        );
        assert_eq!(
            write("kustomization.yaml", "kind: Kustomization\n"),
            some("a c")
        );
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

    /// A program that writes it was just interrupted, for example.
    #[test]
    fn an_empty_file_at_the_start_is_not_an_empty_list() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::default();
        let mut write = |text: &str| write(&mut store, directory.path(), "a.yaml", text);
        assert_eq!(write(""), None);
        assert_eq!(write("# nothing yet"), Some(Vec::new()));
        let service = "{kind: Service, metadata: {name: a}}";
        assert_eq!(write(service), Some(vec!["a".to_owned()]));
        assert_eq!(write(""), None);
    }

    #[test]
    fn each_unusable_text_is_reported_once() {
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
