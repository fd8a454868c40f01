//! Reads manifests once, for commands.
//!
//! A file that cannot be used, or an object that an API server would reject, is an error and is
//! left out; everything else is used.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::files::{ManifestError, STDIN, find};
use super::locate::Locator;
use super::merge::{Manifests, merge};
use super::parse::{FileContent, Place, parse};
use super::raw::{RawKey, RawObject, add_raw};
use super::validation::FieldPath;
use super::{ManifestOptions, Validation, notes, text};
use crate::model::Kind;
use crate::watch::bounded;

/// Errors of manifests, of which none could be used. At least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct ManifestErrors(pub Vec<ManifestError>);

impl fmt::Display for ManifestErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            let separator = if number > 0 { "\n" } else { "" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl From<ManifestError> for ManifestErrors {
    fn from(error: ManifestError) -> Self {
        Self(vec![error])
    }
}

/// Reads the manifests at `path` once, for commands. The errors of files and objects that are left
/// out are in the result.
///
/// # Errors
///
/// The path does not exist, or no file can be used.
pub(crate) fn load(
    path: &Path,
    options: &ManifestOptions,
    validation: Validation,
) -> Result<Manifests, ManifestErrors> {
    let loaded = read(path, validation)?;
    let manifests = merge(loaded.contents(), options);
    Ok(loaded.annotate(manifests))
}

/// Reads the files at `path`, for [`load`] and for the comparison of two paths.
///
/// # Errors
///
/// As [`load`].
pub(super) fn read(path: &Path, validation: Validation) -> Result<LoadedManifests, ManifestErrors> {
    let mut loaded = LoadedManifests::default();
    if path == Path::new(STDIN) {
        let text = bounded::read_all(io::stdin().lock(), bounded::MAX_MANIFEST_BYTES);
        loaded.add(path, text, validation);
        if loaded.files.iter().any(|file| file.content.is_empty()) {
            return Err(ManifestError::new(path, &"contains no objects").into());
        }
    } else {
        for file in find(path)?.files {
            let text = bounded::read(&file, bounded::MAX_MANIFEST_BYTES);
            loaded.add(&file, text, validation);
        }
    }
    if loaded.files.is_empty() && !loaded.errors.is_empty() {
        return Err(ManifestErrors(loaded.errors));
    }
    if validation == Validation::Strict {
        loaded.report_invalid();
        loaded.report_duplicates();
    }
    Ok(loaded)
}

/// Files that were read.
#[derive(Default)]
pub(super) struct LoadedManifests {
    files: Vec<LoadedFile>,
    errors: Vec<ManifestError>,
}

/// File with valid syntax.
struct LoadedFile {
    path: PathBuf,
    /// Kept to find the lines of errors.
    text: Vec<u8>,
    content: FileContent,
}

/// Index of a file, and index of an object among those of its kind in the file.
type ObjectIndex = (usize, usize);

impl LoadedManifests {
    fn add(&mut self, path: &Path, text: io::Result<Vec<u8>>, validation: Validation) {
        let read = text
            .map_err(|error| ManifestError::new(path, &error))
            .and_then(|text| match parse(&text, validation) {
                Ok(content) => Ok((text, content)),
                Err(error) => Err(ManifestError::in_file(path, error)),
            });
        match read {
            Ok((text, content)) => self.files.push(LoadedFile {
                path: path.to_owned(),
                text,
                content,
            }),
            Err(error) => self.errors.push(error),
        }
    }

    /// Adds an error for each problem of each invalid object.
    fn report_invalid(&mut self) {
        for file in &self.files {
            let text = text::decode(&file.text).unwrap_or_default();
            let mut locator = Locator::new(&text, file.content.format);
            for (place, object) in &file.content.invalid {
                let name = &object.name;
                for problem in &object.problems {
                    let (kind, problem_text) = (&object.kind, &problem.text);
                    let (namespace, name) = (&name.namespace, &name.name);
                    self.errors.push(ManifestError {
                        file: file.path.clone(),
                        line: locator.line(place, &problem.path),
                        reason: format!("{kind} `{namespace}/{name}`: {problem_text}"),
                    });
                }
            }
        }
    }

    /// Adds an error for each object whose name an earlier one of its kind has, and removes the
    /// earlier one, as the API server stores the later one.
    fn report_duplicates(&mut self) {
        for kind in [Kind::Service, Kind::EndpointSlice] {
            let (mut replaced, errors) = self.duplicates(kind);
            self.errors.extend(errors);
            // From the last to the first, so that the indexes before stay as they are.
            replaced.sort_unstable();
            for (file, index) in replaced.into_iter().rev() {
                if let Some(file) = self.files.get_mut(file) {
                    file.remove(kind, index);
                }
            }
        }
    }

    /// Returns the objects of a kind that later ones replace, and an error for each of the latter.
    fn duplicates(&self, kind: Kind) -> (Vec<ObjectIndex>, Vec<ManifestError>) {
        let (mut replaced, mut errors) = (Vec::new(), Vec::new());
        let mut last: HashMap<(String, String), (ObjectIndex, &Path)> = HashMap::new();
        for (number, file) in self.files.iter().enumerate() {
            let text = text::decode(&file.text).unwrap_or_default();
            let mut locator = Locator::new(&text, file.content.format);
            for (index, (object, place)) in file.objects(kind).into_iter().enumerate() {
                let this = ((number, index), file.path.as_path());
                if let Some((earlier, path)) = last.insert(object.clone(), this) {
                    let (kind, (namespace, name)) = (kind.as_str(), object);
                    replaced.push(earlier);
                    errors.push(ManifestError {
                        file: file.path.clone(),
                        line: locator.line(&place, &FieldPath::default()),
                        reason: format!(
                            "{kind} `{namespace}/{name}`: metadata.name: Duplicate value: \
                             {name:?}; the one in `{}` is replaced",
                            path.display()
                        ),
                    });
                }
            }
        }
        (replaced, errors)
    }

    /// Returns the objects of each file.
    pub(super) fn contents(&self) -> impl Iterator<Item = (&Path, &FileContent)> + Clone {
        let files = self.files.iter();
        files.map(|file| (file.path.as_path(), &file.content))
    }

    /// Returns all objects with all of their fields.
    pub(super) fn raw_objects(&self) -> BTreeMap<RawKey, RawObject> {
        let mut objects = BTreeMap::new();
        for file in &self.files {
            let text = text::decode(&file.text).unwrap_or_default();
            add_raw(&text, file.content.format, &mut objects);
        }
        objects
    }

    /// Adds the notes and errors of files to what was made of them.
    pub(super) fn annotate(self, mut manifests: Manifests) -> Manifests {
        manifests.notes.extend(notes::notes(self.contents()));
        if manifests.services.is_empty() && self.errors.is_empty() {
            let ignored = manifests.ignored;
            manifests.notes.push(format!(
                "no Services found; {ignored} objects of other kinds are ignored"
            ));
        }
        manifests.errors = self.errors;
        manifests
    }
}

impl LoadedFile {
    /// Returns namespace, name and place of each object of a kind.
    fn objects(&self, kind: Kind) -> Vec<((String, String), Place)> {
        let content = &self.content;
        let services = content.services.iter().map(|one| &one.metadata);
        let slices = content.endpoint_slices.iter().map(|one| &one.metadata);
        let named: Vec<_> = match kind {
            Kind::Service => services.zip(&content.service_places).collect(),
            Kind::EndpointSlice => slices.zip(&content.slice_places).collect(),
            Kind::Node => Vec::new(),
        };
        let objects = named.into_iter().map(|(metadata, place)| {
            let name = (metadata.namespace.clone(), metadata.name.clone());
            (name, *place)
        });
        objects.collect()
    }

    fn remove(&mut self, kind: Kind, index: usize) {
        match kind {
            Kind::Service => {
                self.content.services.remove(index);
                self.content.service_places.remove(index);
            }
            Kind::EndpointSlice => {
                self.content.endpoint_slices.remove(index);
                self.content.slice_places.remove(index);
            }
            Kind::Node => {}
        }
    }
}
