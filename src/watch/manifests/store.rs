//! The last good content of every file.
//!
//! Apart from the watching because what a broken, deleted or unreadable file means can be told,
//! and tested, without waiting for anything.
//!
//! # Invariants
//!
//! Nothing is dropped because it could not be read: only a file that is certainly gone takes its
//! objects with it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::ManifestOptions;
use super::error::ManifestError;
use super::files::Found;
use super::merge::{Manifests, merge};
use super::parse::{self, Broken, Content};
use crate::watch::bounded;

/// What is known of each file.
#[derive(Debug, Default)]
pub(super) struct Store {
    files: BTreeMap<PathBuf, File>,
    /// What was handed out last is still all there is.
    is_sent: bool,
    /// Something was handed out.
    is_listed: bool,
}

#[derive(Debug, Default)]
struct File {
    /// A hash of the text read last, good or not; the same text is not read twice.
    seen: Option<u64>,
    good: Option<Content>,
}

impl Store {
    /// Reads the files found, and drops the others. Returns why files could not be used, unless
    /// their text is the one last complained about.
    pub(super) fn reread(&mut self, found: &Found) -> Vec<ManifestError> {
        let mut errors = Vec::new();
        let before = self.files.len();
        self.files.retain(|path, _| found.files.contains(path));
        self.is_sent &= self.files.len() == before;
        for path in &found.files {
            let file = self.files.entry(path.clone()).or_default();
            match file.reread(path) {
                // Gone since the folder was listed: the next look will not find it at all.
                Err(Some(error)) if !path.exists() => tracing::debug!("{error}"),
                Ok(is_changed) => self.is_sent &= !is_changed,
                Err(error) => errors.extend(error),
            }
        }
        errors
    }

    /// Whether a file that was never good holds back everything.
    pub(super) fn holds_back(&self) -> bool {
        !self.is_listed && self.files.values().any(|file| file.good.is_none())
    }

    /// All files together, if that is news.
    ///
    /// The first time every file must be good: what is missing then would be taken for unwanted,
    /// and the rules that an earlier process left for it would go. Later a new file that is broken
    /// holds back only itself.
    pub(super) fn news(&mut self, options: &ManifestOptions) -> Option<Manifests> {
        let is_complete = self.files.values().all(|file| file.good.is_some());
        if self.is_sent || !(is_complete || self.is_listed) {
            return None;
        }
        (self.is_sent, self.is_listed) = (true, true);
        let good = self.files.iter();
        let good = good.filter_map(|(path, file)| Some((path.as_path(), file.good.as_ref()?)));
        Some(merge(good, options))
    }
}

impl File {
    /// Whether the content changed; an error of `None` is one that was told before.
    fn reread(&mut self, path: &Path) -> Result<bool, Option<ManifestError>> {
        let text = bounded::read(path, bounded::LARGEST_MANIFEST);
        let seen = match &text {
            Ok(text) => hash(text),
            Err(error) => hash(error.to_string()),
        };
        let is_seen = self.seen.replace(seen) == Some(seen);
        if is_seen {
            return if text.is_ok() { Ok(false) } else { Err(None) };
        }
        let text = text.map_err(|error| ManifestError::new(path, &error))?;
        self.good = Some(self.read(&text).map_err(|broken| {
            // Not `?` on the error itself: the place belongs to it.
            ManifestError::broken(path, broken)
        })?);
        Ok(true)
    }

    /// An empty file where there was content is one that is about to be written.
    fn read(&self, text: &[u8]) -> Result<Content, Broken> {
        if text.is_empty() && self.good.is_some() {
            let reason = "is empty; delete the file to remove its objects".to_owned();
            return Err(Broken { line: None, reason });
        }
        parse::parse(text)
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

    /// The Services handed out, if any, after `text` became the content of file `name`.
    fn write(store: &mut Store, directory: &Path, name: &str, text: &str) -> Option<Vec<String>> {
        fs::write(directory.join(name), text).unwrap();
        store.reread(&find(directory).unwrap());
        let news = store.news(&ManifestOptions::new("here".into()))?;
        let names = news.services.iter().map(|one| one.metadata.name.clone());
        Some(names.collect())
    }

    #[test]
    fn broken_files_hold_back_the_first_list_and_later_only_themselves() {
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
    fn each_broken_text_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::default();
        for (text, told) in [
            ("a: [", 1),
            ("a: [", 0),
            ("a: {", 1),
            ("a: 1", 0),
            ("a: {", 1),
        ] {
            fs::write(directory.path().join("a.yaml"), text).unwrap();
            let errors = store.reread(&find(directory.path()).unwrap());
            assert_eq!(errors.len(), told, "{text}");
        }
    }
}
