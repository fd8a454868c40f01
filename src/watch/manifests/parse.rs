//! Parses the text of a manifest, YAML or JSON, into objects.
//!
//! Sets the namespaces and port names that manifests leave out, as an API server does before it
//! stores an object: [`ingest`](crate::ingest) expects stored objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeSeed;
use serde_json::Value;

use super::document::{
    DecodedObject, DocumentSeed, ManifestDocument, ManifestObject, ParseOptions,
};
use super::validation::{FieldProblem, FieldSegment};
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
    /// Names of `Endpoints`, which are also among the `ignored`.
    pub(super) endpoints_objects: Vec<ObjectName>,
    /// Number of objects of other kinds.
    pub(super) ignored: usize,
    pub(super) format: TextFormat,
}

/// Objects with all of their fields, by kind and name. Those of the daemon have only the fields that
/// rules depend on.
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

/// Error that makes a whole file unusable, mostly one of the syntax.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    /// Counted from 1.
    pub(super) line: Option<u64>,
    pub(super) reason: String,
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

/// Reports whether a piece of an input may be part of a manifest: YAML has keys, lists, comments or
/// indented lines, and JSON may be one line. Zeros, as from `/dev/zero`, are no line.
pub(super) fn may_be_manifest(piece: &[u8]) -> bool {
    let has = |part: &str| memchr::memmem::find(piece, part.as_bytes()).is_some();
    let is_one_line = !has("\n") && piece.iter().any(|byte| *byte != 0);
    is_one_line || [":", "\n ", "\n\t", "\n-", "\n#"].into_iter().any(has)
}

/// Parses all documents of `text`. The first syntax error, or `apiVersion`, `kind` or `items` of a
/// wrong type, makes the whole file unusable.
pub(super) fn parse(text: &[u8], options: ParseOptions) -> Result<FileContent, SyntaxError> {
    let Some(text) = yaml::decode(text) else {
        return Err(SyntaxError::new(
            "is not valid UTF-8, or UTF-16 with a byte order mark",
        ));
    };
    if is_dump(&text) {
        return Err(SyntaxError::new(
            "is iptables-save output, not a manifest; `services`, `explain` and `diff` read it \
             with --from-save",
        ));
    }
    if !is_json(&text) {
        return parse_yaml(&text, options);
    }
    // Text in braces may still be YAML, with comments or a trailing comma.
    parse_json(&text, options).or_else(|error| parse_yaml(&text, options).map_err(|_| error))
}

fn parse_json(text: &str, options: ParseOptions) -> Result<FileContent, SyntaxError> {
    let mut content = FileContent::new(TextFormat::Json);
    let mut json = serde_json::Deserializer::from_str(text);
    for number in 0.. {
        // The stream of `serde_json` takes no seed, so the end is checked here.
        if json.end().is_ok() {
            break;
        }
        let document = DocumentSeed::new(options).deserialize(&mut json);
        let document = document.map_err(|error| SyntaxError::json(&error))?;
        content.add_document(number, document);
    }
    Ok(content)
}

fn parse_yaml(text: &str, options: ParseOptions) -> Result<FileContent, SyntaxError> {
    let mut content = FileContent::new(TextFormat::Yaml);
    for (number, mut document) in yaml::divide(text).enumerate() {
        let read = document.read(|_| DocumentSeed::new(options));
        let read = read.map_err(|error| SyntaxError::yaml(&error, text))?;
        if let Some(document) = read {
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

/// Hint for a Helm template.
pub(super) const RENDER_FIRST: &str = "render it first with `helm template`";

/// Reports whether a text has an expression of a Helm template.
pub(super) fn is_helm_template(text: &str) -> bool {
    text.contains("{{") && text.contains("}}")
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
            ManifestDocument::Endpoints(name) => {
                self.endpoints_objects.push(name);
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

impl SyntaxError {
    pub(super) fn new(reason: &str) -> Self {
        Self {
            line: None,
            reason: reason.to_owned(),
        }
    }

    fn json(error: &serde_json::Error) -> Self {
        let line = u64::try_from(error.line()).ok().filter(|&line| line > 0);
        let reason = error.to_string();
        let reason = reason
            .rsplit_once(" at line ")
            .map_or(&*reason, |(reason, _)| reason);
        Self {
            line,
            reason: one_line(reason),
        }
    }

    /// Describes an error of YAML; names a Helm template, which is the usual reason for one.
    fn yaml(error: &YamlError, text: &str) -> Self {
        let reason = one_line(&error.reason);
        Self {
            line: error.line,
            reason: if is_helm_template(text) {
                format!("{reason}; this is a Helm template: {RENDER_FIRST}")
            } else {
                reason
            },
        }
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
