//! Recognizes kustomizations, which are not rendered, and reads which files are their patches.
//!
//! A patch has the kind and name of an object and only some of its fields, so it must not be read
//! as an object.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::files::ManifestError;
use super::parse::{FileContent, TextFormat, documents};
use crate::ingest::yaml;

/// Returns a note about each kustomization: it is not rendered, so its changes have no effect.
pub(super) fn unrendered<'a>(
    files: impl Iterator<Item = (&'a Path, &'a FileContent)>,
) -> impl Iterator<Item = String> {
    let unrendered = files.filter(|(path, content)| is_kustomization(path, content));
    unrendered.map(|(path, _)| format!("`{}` {}", path.display(), not_rendered(path)))
}

/// Reports whether a file is a kustomization, by its kind, or by its name if an object has no kind.
pub(super) fn is_kustomization(path: &Path, content: &FileContent) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let is_named = name.is_some_and(|name| KUSTOMIZATIONS.contains(&name));
    content.kustomizations > 0 || is_named && content.kindless > 0
}

/// Names of the file in which `kubectl kustomize` expects a kustomization.
///
/// Upstream: sigs.k8s.io/kustomize/api/konfig, `RecognizedKustomizationFileNames`
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Returns the problem of a kustomization.
pub(super) fn not_rendered(path: &Path) -> String {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let directory = parent.unwrap_or(Path::new(".")).display();
    format!("is a kustomization, which is not rendered: run `kubectl kustomize {directory}`")
}

/// Files that kustomizations name as patches.
#[derive(Debug, Default)]
pub(super) struct PatchFiles {
    /// [`normalized`] path of each patch, with the kustomization that names it.
    kustomizations: BTreeMap<PathBuf, PathBuf>,
}

impl PatchFiles {
    /// Adds what [`patches`] returned for the file at `kustomization`.
    pub(super) fn add(&mut self, kustomization: &Path, patches: impl IntoIterator<Item = PathBuf>) {
        let named = patches.into_iter();
        let named = named.map(|patch| (patch, kustomization.to_owned()));
        self.kustomizations.extend(named);
    }

    /// Returns an error if the file is a patch.
    pub(super) fn check(&self, file: &Path) -> Result<(), ManifestError> {
        if self.kustomizations.is_empty() {
            return Ok(());
        }
        let Some(kustomization) = self.kustomizations.get(&normalized(file)) else {
            return Ok(());
        };
        let kustomization = kustomization.display();
        let reason =
            format!("is a patch of the kustomization `{kustomization}`, and not a manifest");
        Err(ManifestError::new(file, &reason))
    }
}

/// Returns the [`normalized`] paths of the files that a file names as patches: none, if it is not a
/// kustomization.
pub(super) fn patches(path: &Path, text: &[u8], content: &FileContent) -> Vec<PathBuf> {
    if !is_kustomization(path, content) {
        return Vec::new();
    }
    let text = yaml::decode(text).unwrap_or_default();
    patches_in(path, &text, content.format)
}

/// Upstream: sigs.k8s.io/kustomize/api/types/kustomization.go, `Patches`, `PatchesStrategicMerge`,
/// `PatchesJson6902`
fn patches_in(path: &Path, text: &str, format: TextFormat) -> Vec<PathBuf> {
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut patches = Vec::new();
    for mut document in documents(text, format) {
        let Ok(Some(value)) = document.read(|_| PhantomData::<Value>) else {
            continue;
        };
        let items = |field| {
            let items = value.get(field).and_then(Value::as_array);
            items.into_iter().flatten()
        };
        let objects = items("patches").chain(items("patchesJson6902"));
        let files = objects.filter_map(|patch| patch.get("path"));
        // Names of files, or texts of patches. A text does no harm: no file has it as its name.
        let files = files.chain(items("patchesStrategicMerge"));
        let files = files.filter_map(Value::as_str);
        patches.extend(files.map(|file| normalized(&directory.join(file))));
    }
    patches
}

/// Returns a path without `.` and `..`, without following links.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if normalized.file_name().is_some() => {
                normalized.pop();
            }
            other => normalized.push(other),
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fields_of_patches_are_read() {
        let text = "patches: [{path: ./a.yaml}, {patch: '[]'}]\n\
                    patchesStrategicMerge: [../b.yaml]\npatchesJson6902:\n- path: c/d.yaml\n";
        let found = patches_in(Path::new("m/k/kustomization.yaml"), text, TextFormat::Yaml);
        let expected = ["m/k/a.yaml", "m/k/c/d.yaml", "m/b.yaml"];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
