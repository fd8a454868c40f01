//! Parses the text of a manifest, YAML or JSON, into objects.
//!
//! Sets the namespaces and port names that manifests leave out, as an API server does before it
//! stores an object: [`ingest`](crate::ingest) expects stored objects.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeSeed;
use serde_json::Value;

use super::document::{
    DecodedObject, DocumentSeed, ManifestDocument, ManifestObject, ParseOptions,
};
use super::files::ManifestError;
use super::schema::{FieldProblem, FieldSegment, RENDER_FIRST, is_helm_template};
use crate::ingest::yaml::{self, YamlError};
use crate::ingest::{EndpointSliceObject, Metadata, NodeObject, ObjectName, ServiceObject};
use crate::model::Kind;

/// Objects of one file, in its order.
#[derive(Debug, Default)]
pub(super) struct FileContent {
    pub(super) services: Vec<Arc<ServiceObject>>,
    pub(super) endpoint_slices: Vec<Arc<EndpointSliceObject>>,
    pub(super) nodes: Vec<Arc<NodeObject>>,
    /// Objects with problems. Those that are used in spite of them are also among those above.
    pub(super) faulty: Vec<FaultyObject>,
    /// Services and EndpointSlices as written, if [`ParseOptions::keeps_written`].
    pub(super) written: WrittenObjects,
    /// Number of `Endpoints`, which are also among the `ignored`.
    pub(super) endpoints_objects: usize,
    /// Number of objects of other kinds.
    pub(super) ignored: usize,
    pub(super) format: TextFormat,
}

/// Objects with all of their fields, by kind and name. Those of the daemon have only the fields
/// that rules depend on.
pub(crate) type WrittenObjects = BTreeMap<(Kind, ObjectName), Value>;

/// Object with problems.
#[derive(Debug)]
pub(super) struct FaultyObject {
    /// Kind as written.
    pub(super) kind: String,
    pub(super) name: ObjectName,
    pub(super) place: FieldPlace,
    /// The object is used without some of its fields. Only with [`Validation::Lenient`].
    pub(super) is_used: bool,
    /// At least one: reasons for which it is not used, or fields that are ignored.
    pub(super) problems: Vec<FieldProblem>,
}

/// Place of a field or an object in a file.
#[derive(Debug, Clone, Default)]
pub(super) struct FieldPlace {
    /// Number of the document, counted from 0.
    pub(super) document: usize,
    /// Path below the document: empty, or of an item of a list for an object.
    pub(super) path: Vec<FieldSegment>,
}

/// Format of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum TextFormat {
    Json,
    #[default]
    Yaml,
}

/// Parses all documents of the file `path`. The first syntax error, or `apiVersion`, `kind` or
/// `items` of a wrong type, makes the whole file unusable.
pub(super) fn parse(
    path: &Path,
    text: &[u8],
    options: ParseOptions,
) -> Result<FileContent, ManifestError> {
    let Some(text) = yaml::decode(text) else {
        let problem = "is not valid UTF-8, or UTF-16 with a byte order mark";
        return Err(ManifestError::new(path, &problem));
    };
    if is_dump(&text) {
        let problem = "is iptables-save output, not a manifest; `services`, `explain` and `diff` \
                       read it with --from-save";
        return Err(ManifestError::new(path, &problem));
    }
    if is_json(&text) {
        let content = parse_json(&text, options);
        return content.or_else(|error| {
            // Text in braces may still be YAML, with comments or a trailing comma.
            parse_yaml(path, &text, options).map_err(|_| json_error(path, &error))
        });
    }
    parse_yaml(path, &text, options)
}

fn parse_json(text: &str, options: ParseOptions) -> serde_json::Result<FileContent> {
    let mut content = FileContent::new(TextFormat::Json);
    let mut json = serde_json::Deserializer::from_str(text);
    for number in 0.. {
        // The stream of `serde_json` takes no seed, so the end is checked here.
        if json.end().is_ok() {
            break;
        }
        content.add_document(number, DocumentSeed(options).deserialize(&mut json)?);
    }
    Ok(content)
}

fn parse_yaml(
    path: &Path,
    text: &str,
    options: ParseOptions,
) -> Result<FileContent, ManifestError> {
    let mut content = FileContent::new(TextFormat::Yaml);
    for (number, mut document) in yaml::divide(text).enumerate() {
        let read = document.read(|_| DocumentSeed(options));
        if let Some(document) = read.map_err(|error| yaml_error(path, &error, text))? {
            content.add_document(number, document);
        }
    }
    Ok(content)
}

/// Reports whether to parse `text` as JSON, which is much faster. JSON is also YAML, and may then
/// be divided by `---`; and YAML may have braces, but then seldom quotes its keys.
fn is_json(text: &str) -> bool {
    let Some(inside) = text.trim_start().strip_prefix('{') else {
        return false;
    };
    let is_quoted = inside.trim_start().starts_with('"');
    is_quoted && memchr::memmem::find(inside.as_bytes(), b"\n---").is_none()
}

/// Reports whether the first line that is not a comment names a table, as in `iptables-save`
/// output. In YAML that is an undefined alias.
fn is_dump(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let tables = ["*filter", "*mangle", "*nat", "*raw", "*security"];
    first.is_some_and(|line| tables.contains(&line))
}

impl FileContent {
    /// Reports whether there is no object of any kind, as in the output of a command that failed.
    pub(super) fn is_empty(&self) -> bool {
        let known = self.services.len() + self.endpoint_slices.len() + self.nodes.len();
        known + self.faulty.len() + self.ignored == 0
    }

    fn new(format: TextFormat) -> Self {
        Self {
            format,
            ..Self::default()
        }
    }

    fn add_document(&mut self, number: usize, document: ManifestDocument) {
        let mut place = FieldPlace {
            document: number,
            path: Vec::new(),
        };
        self.add(document, &mut place);
    }

    fn add(&mut self, document: ManifestDocument, place: &mut FieldPlace) {
        match document {
            ManifestDocument::Object(object) => self.add_object(object, place),
            ManifestDocument::List(documents) => {
                place.path.push(FieldSegment::Name("items".to_owned()));
                for (index, document) in documents.into_iter().enumerate() {
                    place.path.push(FieldSegment::Index(index));
                    self.add(document, place);
                    place.path.pop();
                }
                place.path.pop();
            }
            ManifestDocument::Endpoints => {
                self.endpoints_objects += 1;
                self.ignored += 1;
            }
            ManifestDocument::Kindless(_) | ManifestDocument::Other => self.ignored += 1,
        }
    }

    fn add_object(&mut self, object: ManifestObject, place: &FieldPlace) {
        if !object.problems.is_empty() {
            self.faulty.push(FaultyObject {
                kind: object.kind,
                name: object.name.clone(),
                place: place.clone(),
                is_used: object.decoded.is_some(),
                problems: object.problems,
            });
        }
        let kind = match object.decoded {
            Some(DecodedObject::Service(mut object)) => {
                default_namespace(&mut object.metadata);
                self.services.push(Arc::from(object));
                Kind::Service
            }
            Some(DecodedObject::EndpointSlice(mut object)) => {
                default_namespace(&mut object.metadata);
                default_port_names(&mut object);
                self.endpoint_slices.push(Arc::from(object));
                Kind::EndpointSlice
            }
            Some(DecodedObject::Node(object)) => {
                self.nodes.push(Arc::from(object));
                return;
            }
            None => return,
        };
        if let Some(written) = object.written {
            self.written.insert((kind, object.name), written);
        }
    }
}

/// Sets the namespace `default` if the object has none.
fn default_namespace(metadata: &mut Metadata) {
    if metadata.namespace.is_empty() {
        "default".clone_into(&mut metadata.namespace);
    }
}

/// Sets the empty name of ports without a name.
fn default_port_names(object: &mut EndpointSliceObject) {
    for port in &mut object.ports {
        port.name.get_or_insert_default();
    }
}

fn json_error(path: &Path, error: &serde_json::Error) -> ManifestError {
    let line = u64::try_from(error.line()).ok().filter(|&line| line > 0);
    let reason = error.to_string();
    let reason = reason
        .rsplit_once(" at line ")
        .map_or(&*reason, |(reason, _)| reason);
    ManifestError {
        line,
        ..ManifestError::new(path, &one_line(reason))
    }
}

/// Describes an error of YAML; names a Helm template, which is the usual reason for one.
fn yaml_error(path: &Path, error: &YamlError, text: &str) -> ManifestError {
    let mut reason = one_line(&error.reason);
    if is_helm_template(text) {
        reason = format!("{reason}; this is a Helm template: {RENDER_FIRST}");
    }
    ManifestError {
        line: error.line,
        ..ManifestError::new(path, &reason)
    }
}

/// Maximum characters of a message, which may quote a text of any length.
const MAX_MESSAGE: usize = 300;

/// Returns the first line of a message, or the beginning of that if it is long.
fn one_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.trim_end_matches(':');
    match line.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}...", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
#[path = "../tests/hostile.rs"]
mod hostile;
