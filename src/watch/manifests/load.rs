//! Reads manifests once: for commands, and standard input for the daemon.
//!
//! An unusable file or, with `Strict`, an invalid object is an error, and all others are used. With
//! `Lenient`, undecodable objects and patches are not used, and are notes.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::endpoints::assume_endpoints;
use super::files::{ManifestError, ManifestErrorScope, STDIN, find};
use super::locate::Locator;
use super::merge::{ManifestOptions, Manifests, merge};
use super::parse::{FileContent, Place, RENDER_FIRST, is_helm_template, may_be_manifest, parse};
use super::validation::{FieldPath, FieldProblem, Validation};
use super::written::{WrittenObjects, add_written};

use crate::ingest::yaml;
use crate::model::Kind;
use crate::watch::bounded;

/// Errors of manifests that could not be used at all. At least one.
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

/// Reads the manifests at `path` once. The errors of files and objects that are not used are in the
/// result.
///
/// # Errors
///
/// The path does not exist or cannot be listed, no file can be used, or standard input has no
/// objects.
pub(crate) fn load(
    path: &Path,
    options: &ManifestOptions,
    validation: Validation,
) -> Result<Manifests, ManifestErrors> {
    Ok(read(path, validation)?.merged(options))
}

/// Reads the manifests at `path` once, for a comparison: a missing object would be a difference.
///
/// # Errors
///
/// As [`load`], and for every file and object that cannot be used.
pub(crate) fn load_complete(
    path: &Path,
    options: &ManifestOptions,
    validation: Validation,
) -> Result<Manifests, ManifestErrors> {
    Ok(read_complete(path, validation)?.merged(options))
}

/// Reads manifests that are compared with others, and returns the objects as written as well.
/// Assumes two endpoints for each selector without EndpointSlices.
///
/// # Errors
///
/// As [`load_complete`].
pub(crate) fn load_compared(
    path: &Path,
    options: &ManifestOptions,
    validation: Validation,
) -> Result<(Manifests, WrittenObjects), ManifestErrors> {
    let loaded = read_complete(path, validation)?;
    let mut written = WrittenObjects::new();
    for file in &loaded.files {
        let text = yaml::decode(&file.text).unwrap_or_default();
        add_written(&text, file.content.format, &mut written);
    }
    let mut manifests = loaded.merged(options);
    assume_endpoints(&mut manifests, &written, &options.node_name);
    Ok((manifests, written))
}

fn read_complete(path: &Path, validation: Validation) -> Result<LoadedManifests, ManifestErrors> {
    let mut loaded = read(path, validation)?;
    loaded.report_undecodable();
    if loaded.errors.is_empty() {
        Ok(loaded)
    } else {
        Err(ManifestErrors(loaded.errors))
    }
}

/// Reads the files at `path`.
///
/// # Errors
///
/// As [`load`].
fn read(path: &Path, validation: Validation) -> Result<LoadedManifests, ManifestErrors> {
    let mut loaded = LoadedManifests::default();
    if path == Path::new(STDIN) {
        let stdin = io::stdin().lock();
        let text = bounded::read_all_while(stdin, bounded::MAX_MANIFEST_BYTES, may_be_manifest);
        loaded.add(path, text, validation);
        if loaded.files.iter().any(|file| file.content.is_empty()) {
            return Err(ManifestError::new(path, &"contains no objects").into());
        }
    } else {
        let found = find(path)?;
        loaded.errors = found.unusable;
        for file in found.files {
            let text = if file == path {
                // May be a pipe, as in `--manifests <(...)`.
                bounded::read_while(&file, bounded::MAX_MANIFEST_BYTES, may_be_manifest)
            } else {
                bounded::read_regular_file(&file, bounded::MAX_MANIFEST_BYTES)
            };
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
struct LoadedManifests {
    files: Vec<LoadedFile>,
    errors: Vec<ManifestError>,
}

/// File with valid syntax.
struct LoadedFile {
    path: PathBuf,
    /// Text of the file, to find the lines of errors.
    text: Vec<u8>,
    content: FileContent,
}

/// Index of a file, and index of an object among those of its kind in the file.
type ObjectIndex = (usize, usize);

impl LoadedManifests {
    fn add(&mut self, path: &Path, text: io::Result<Vec<u8>>, validation: Validation) {
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                self.errors.push(ManifestError::new(path, &error));
                return;
            }
        };
        match parse(&text, validation) {
            Ok(content) => self.files.push(LoadedFile {
                path: path.to_owned(),
                text,
                content,
            }),
            Err(error) => self.errors.push(ManifestError::in_file(path, error)),
        }
    }

    /// Adds an error for each problem of each invalid object.
    fn report_invalid(&mut self) {
        for file in &self.files {
            let text = yaml::decode(&file.text).unwrap_or_default();
            let mut locator = Locator::new(&text, file.content.format);
            for (place, object) in &file.content.invalid {
                let name = &object.name;
                for problem in &object.problems {
                    let kind = &object.kind;
                    let (namespace, name) = (&name.namespace, &name.name);
                    let problem_text = problem_text(problem);
                    self.errors.push(ManifestError {
                        file: file.path.clone(),
                        line: locator.line(place, &problem.path),
                        reason: format!("{kind} `{namespace}/{name}`: {problem_text}"),
                        scope: ManifestErrorScope::Object,
                    });
                }
            }
        }
    }

    /// Adds an error for each undecodable object, which is a note otherwise.
    fn report_undecodable(&mut self) {
        for file in &self.files {
            let errors = file.content.undecodable.iter().map(|object| {
                let kind = object.kind.as_str();
                let (namespace, name) = (&object.namespace, &object.name);
                let reason = format!("{kind} `{namespace}/{name}`: {}", object.reason);
                ManifestError {
                    scope: ManifestErrorScope::Object,
                    ..ManifestError::new(&file.path, &reason)
                }
            });
            self.errors.extend(errors);
        }
    }

    /// Removes each object that a later one of its kind and name replaces, as an API server stores
    /// the last one. Adds an error for each later one.
    fn report_duplicates(&mut self) {
        for kind in [Kind::Service, Kind::EndpointSlice] {
            let (mut replaced, errors) = self.duplicates(kind);
            self.errors.extend(errors);
            // From the last to the first, because each removal changes the indexes after it.
            replaced.sort_unstable();
            for (file, index) in replaced.into_iter().rev() {
                if let Some(file) = self.files.get_mut(file) {
                    file.remove(kind, index);
                }
            }
        }
    }

    /// Returns the objects of a kind that later ones replace, and an error for each later one.
    fn duplicates(&self, kind: Kind) -> (Vec<ObjectIndex>, Vec<ManifestError>) {
        let (mut replaced, mut errors) = (Vec::new(), Vec::new());
        let mut last: HashMap<(String, String), (ObjectIndex, &Path)> = HashMap::new();
        for (number, file) in self.files.iter().enumerate() {
            let text = yaml::decode(&file.text).unwrap_or_default();
            let mut locator = Locator::new(&text, file.content.format);
            for (index, (name, place)) in file.objects(kind).into_iter().enumerate() {
                let this = ((number, index), file.path.as_path());
                if let Some((earlier, path)) = last.insert(name.clone(), this) {
                    let (kind, (namespace, name)) = (kind.as_str(), name);
                    replaced.push(earlier);
                    errors.push(ManifestError {
                        file: file.path.clone(),
                        line: locator.line(&place, &FieldPath::default()),
                        reason: format!(
                            "{kind} `{namespace}/{name}`: metadata.name: Duplicate value: \
                             {name:?}; the one in `{}` is replaced",
                            path.display()
                        ),
                        scope: ManifestErrorScope::Object,
                    });
                }
            }
        }
        (replaced, errors)
    }

    /// Returns the objects of each file.
    fn contents(&self) -> impl Iterator<Item = (&Path, &FileContent)> + Clone {
        let files = self.files.iter();
        files.map(|file| (file.path.as_path(), &file.content))
    }

    /// Returns the merged manifests, with the notes and errors of the files.
    fn merged(self, options: &ManifestOptions) -> Manifests {
        let mut manifests = merge(self.contents(), options);
        if manifests.services.is_empty() && self.errors.is_empty() {
            manifests.notes.push(manifests.without_services());
        }
        manifests.errors = self.errors;
        manifests
    }
}

/// Returns the text of a problem. Of a value that is a Helm template, it says that and nothing
/// else.
fn problem_text(problem: &FieldProblem) -> String {
    let FieldProblem { path, text, .. } = problem;
    if is_helm_template(text) {
        format!("{path}: is a Helm template: {RENDER_FIRST}")
    } else {
        text.clone()
    }
}

impl LoadedFile {
    /// Returns namespace, name and place of each object of a kind, without Nodes.
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
