//! Reads manifests when they may have changed, and stores the last valid content of each file.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

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
    /// Files that programs were writing when they were read last.
    incomplete: BTreeSet<PathBuf>,
    /// A changed text was not used yet when all were read last.
    is_unsettled: bool,
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
    unsettled: Option<UnsettledText>,
}

/// Changed text that is not used before it has stayed the same for a while.
#[derive(Debug, Clone, Copy)]
struct UnsettledText {
    hash: u64,
    /// First time that the text was read.
    since: Instant,
    /// First time that the text was not the one in use.
    first: Instant,
}

/// Result of reading a file again.
enum FileReread {
    /// The text, or the error of reading it, is the same as last time.
    Unchanged,
    /// A program has begun to write the file.
    Incomplete,
    /// The text is new, and may be incomplete.
    Unsettled,
    /// The text is new and valid.
    Changed,
    /// The file cannot be read or parsed, and the error is new.
    Unusable(ManifestError),
}

/// Reads manifests, and decides whether a changed text is complete.
pub(super) struct FileReading<'w> {
    pub(super) now: Instant,
    pub(super) completeness: Completeness,
    /// Reports whether a program is writing the file.
    pub(super) is_incomplete: &'w mut dyn FnMut(&Path) -> bool,
}

/// Way in which a changed text is known to be complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completeness {
    /// Events show which files programs are writing.
    Reported,
    /// There are no events of the change: a text is complete if it stays the same for
    /// [`SETTLE_TIME`].
    Settled,
}

/// Time for which a text stays the same if no program is writing it. Programs that pause longer are
/// read too early; a longer time would delay all changes that are found without events.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// Maximum time until a text that never stays the same is used.
const MAX_SETTLE_TIME: Duration = Duration::from_secs(300);

impl Store {
    /// Reads `found`, and drops all other files, except those at or below an unusable entry.
    /// Returns the errors that are new.
    pub(super) fn reread(
        &mut self,
        found: &ManifestFiles,
        mut reading: FileReading<'_>,
    ) -> Vec<ManifestError> {
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
        self.incomplete.clear();
        self.is_unsettled = false;
        for path in &found.files {
            errors.extend(self.reread_file(path, &mut reading));
        }
        errors
    }

    /// Reads a file again. Returns its error, if it is new.
    pub(super) fn reread_file(
        &mut self,
        path: &Path,
        reading: &mut FileReading<'_>,
    ) -> Option<ManifestError> {
        if (reading.is_incomplete)(path) {
            self.incomplete.insert(path.to_owned());
            return None;
        }
        self.incomplete.remove(path);
        let has_returned = self.has_returned;
        let file = self.files.entry(path.to_owned()).or_default();
        match file.reread(path, reading, has_returned) {
            FileReread::Unchanged => None,
            FileReread::Incomplete => {
                self.incomplete.insert(path.to_owned());
                None
            }
            FileReread::Unsettled => {
                self.is_unsettled = true;
                None
            }
            FileReread::Changed => {
                self.is_current = false;
                None
            }
            // Deleted since the directory was listed: the next listing will not have it.
            FileReread::Unusable(error) if !path.exists() => {
                let (file, reason) = (path.display(), &error.reason);
                tracing::debug!(%file, %reason, "manifest deleted while it was read");
                None
            }
            FileReread::Unusable(error) => Some(error),
        }
    }

    /// Drops a file that was deleted.
    pub(super) fn remove_file(&mut self, path: &Path) {
        self.incomplete.remove(path);
        self.is_current &= self.files.remove(path).is_none();
    }

    /// Returns after what time the files have to be read again, to find out whether changed texts
    /// have stayed the same.
    pub(super) fn settle_time(&self) -> Option<Duration> {
        self.is_unsettled.then_some(SETTLE_TIME)
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

    /// Reports whether the first list is blocked, because no file was ever valid, or because a
    /// program is writing one.
    pub(super) fn is_blocked(&self) -> bool {
        let is_invalid = || self.files.values().all(|file| file.valid.is_none());
        !self.has_returned
            && (!self.incomplete.is_empty() || !self.files.is_empty() && is_invalid())
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
    fn reread(
        &mut self,
        path: &Path,
        reading: &mut FileReading<'_>,
        has_returned: bool,
    ) -> FileReread {
        let text = bounded::read_regular_file(path, bounded::MAX_MANIFEST_BYTES);
        let hash = match &text {
            Ok(text) => hash(text),
            Err(error) => hash(error.to_string()),
        };
        if self.last_read == Some(hash) {
            self.unsettled = None;
            return FileReread::Unchanged;
        }
        if (reading.is_incomplete)(path) {
            return FileReread::Incomplete;
        }
        let is_settled = reading.completeness == Completeness::Reported
            // At the start, every text is new.
            || !has_returned
            || self.has_settled(hash, reading.now);
        if !is_settled {
            return FileReread::Unsettled;
        }
        (self.last_read, self.unsettled) = (Some(hash), None);
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

    /// Records a text that was read. Reports whether it has stayed the same for long enough.
    fn has_settled(&mut self, hash: u64, now: Instant) -> bool {
        let new = UnsettledText {
            hash,
            since: now,
            first: now,
        };
        let unsettled = self.unsettled.get_or_insert(new);
        if unsettled.hash != hash {
            (unsettled.hash, unsettled.since) = (hash, now);
        }
        now - unsettled.since >= SETTLE_TIME || now - unsettled.first >= MAX_SETTLE_TIME
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

    fn reread(store: &mut Store, directory: &Path) -> Vec<ManifestError> {
        let reading = FileReading {
            now: Instant::now(),
            completeness: Completeness::Reported,
            is_incomplete: &mut |_| false,
        };
        store.reread(&find(directory).unwrap(), reading)
    }

    /// Returns the Services, if they changed, after `text` became the content of file `name`.
    fn write(store: &mut Store, directory: &Path, name: &str, text: &str) -> Option<Vec<String>> {
        fs::write(directory.join(name), text).unwrap();
        reread(store, directory);
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
            let errors = reread(&mut store, directory.path());
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
            let errors = reread(&mut store, directory.path());
            assert_eq!(errors.len(), reported, "{text}");
        }
    }

    /// Without events of changes, as on file systems of a network.
    #[test]
    fn a_text_that_no_event_was_reported_for_has_to_settle() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::default();
        let start = Instant::now();
        let mut write = |text: &str, seconds: u64| {
            fs::write(directory.path().join("a.yaml"), text).unwrap();
            let reading = FileReading {
                now: start + Duration::from_secs(seconds),
                completeness: Completeness::Settled,
                is_incomplete: &mut |_| false,
            };
            store.reread(&find(directory.path()).unwrap(), reading);
            let changed = store.changed(&ManifestOptions::new("here".into()));
            let services = changed.map(|manifests| manifests.services.len());
            (services, store.settle_time().is_some())
        };
        let [one, two] =
            ["a", "b"].map(|name| format!("{{kind: Service, metadata: {{name: {name}}}}}\n"));
        let both = format!("{one}---\n{two}");
        assert_eq!(write(&both, 0), (Some(2), false));
        assert_eq!(write(&one, 60), (None, true));
        assert_eq!(write(&one, 64), (None, true));
        assert_eq!(write(&both, 65), (None, false));
        assert_eq!(write(&one, 70), (None, true));
        assert_eq!(write("", 74), (None, true));
        assert_eq!(write(&one, 78), (None, true));
        assert_eq!(write(&one, 83), (Some(1), false));
        for second in 90..390 {
            let text = format!("{one}# {second}");
            assert_eq!(write(&text, second), (None, true), "{second}");
        }
        assert_eq!(write(&both, 390), (Some(2), false));
    }
}
