//! Parses the text of a manifest, YAML or JSON, into objects.
//!
//! Sets the namespaces and port names that manifests leave out, as an API server does before it
//! stores an object: [`ingest`](crate::ingest) expects stored objects.

use std::sync::Arc;

use serde::de::{DeserializeSeed, IgnoredAny};

use super::document::{DocumentSeed, ManifestDocument, ObjectProblems, UndecodableObject};
use super::validation::Validation;
use crate::ingest::yaml::{self, DocumentText, YamlError};
use crate::ingest::{EndpointSliceObject, Metadata, NodeObject, ObjectName, ServiceObject};

/// Objects of one file, in its order.
#[derive(Debug, Default)]
pub(super) struct FileContent {
    pub(super) services: Vec<Arc<ServiceObject>>,
    pub(super) endpoint_slices: Vec<Arc<EndpointSliceObject>>,
    pub(super) nodes: Vec<Arc<NodeObject>>,
    /// Places of `services`, by index.
    pub(super) service_places: Vec<Place>,
    /// Places of `endpoint_slices`, by index.
    pub(super) slice_places: Vec<Place>,
    /// Services, EndpointSlices and Nodes with a field of a wrong type that the proxy reads. Only
    /// with [`Validation::Lenient`].
    pub(super) undecodable: Vec<UndecodableObject>,
    /// Objects with fields that cannot be used. Only with [`Validation::Strict`].
    pub(super) invalid: Vec<(Place, ObjectProblems)>,
    /// Objects that are used without some of their fields. Only with [`Validation::Lenient`].
    pub(super) reduced: Vec<ObjectProblems>,
    /// Names of `Endpoints`, which are also among the `ignored`.
    pub(super) endpoints_objects: Vec<ObjectName>,
    /// Number of objects of other kinds.
    pub(super) ignored: usize,
    pub(super) format: TextFormat,
    /// Place of the next object.
    next: Place,
}

/// Error that makes a whole file unusable, mostly one of the syntax.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    /// Counted from 1.
    pub(super) line: Option<u64>,
    pub(super) reason: String,
}

/// Place of an object in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the document, counted from 0.
    pub(super) document: usize,
    /// Number of the object in the document, counted from 0: more than 0 only in a list.
    pub(super) object: usize,
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
pub(super) fn parse(text: &[u8], validation: Validation) -> Result<FileContent, SyntaxError> {
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
        return parse_yaml(&text, validation);
    }
    // Text in braces may still be YAML, with comments or a trailing comma.
    parse_json(&text, validation).or_else(|error| parse_yaml(&text, validation).map_err(|_| error))
}

fn parse_json(text: &str, validation: Validation) -> Result<FileContent, SyntaxError> {
    let mut content = FileContent::new(TextFormat::Json);
    let mut json = serde_json::Deserializer::from_str(text);
    for number in 0.. {
        // The stream of `serde_json` takes no seed, so the end is checked here.
        if json.end().is_ok() {
            break;
        }
        let document = DocumentSeed::new(validation).deserialize(&mut json);
        let document = document.map_err(|error| SyntaxError::json(&error))?;
        content.add_document(number, document);
    }
    Ok(content)
}

fn parse_yaml(text: &str, validation: Validation) -> Result<FileContent, SyntaxError> {
    let mut content = FileContent::new(TextFormat::Yaml);
    for (number, mut document) in yaml::divide(text).enumerate() {
        let read = document.read(|_| DocumentSeed::new(validation));
        let read = read.map_err(|error| SyntaxError::yaml(&error, text))?;
        if let Some(document) = read {
            content.add_document(number, document);
        }
    }
    Ok(content)
}

/// Returns the texts of all documents, in the order of [`Place::document`].
pub(super) fn documents(
    text: &str,
    format: TextFormat,
) -> Box<dyn Iterator<Item = DocumentText<'_>> + '_> {
    match format {
        TextFormat::Yaml => Box::new(yaml::divide(text)),
        TextFormat::Json => Box::new(json_documents(text)),
    }
}

fn json_documents(text: &str) -> impl Iterator<Item = DocumentText<'_>> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    std::iter::from_fn(move || {
        let start = stream.byte_offset();
        stream.next()?.ok()?;
        let (before, rest) = text.split_at_checked(start)?;
        let document = rest.get(..stream.byte_offset() - start)?;
        Some(DocumentText {
            first_line: 1 + memchr::memchr_iter(b'\n', before.as_bytes()).count() as u64,
            text: document.into(),
        })
    })
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
        known + self.undecodable.len() + self.invalid.len() + self.ignored == 0
    }

    fn new(format: TextFormat) -> Self {
        Self {
            format,
            ..Self::default()
        }
    }

    fn add_document(&mut self, number: usize, document: ManifestDocument) {
        self.next = Place {
            document: number,
            object: 0,
        };
        self.add(document);
    }

    fn add(&mut self, document: ManifestDocument) {
        if let ManifestDocument::List(documents) = document {
            for one in documents {
                self.add(one);
            }
            return;
        }
        if let ManifestDocument::Reduced(document, problems) = document {
            self.reduced.push(problems);
            self.add(*document);
            return;
        }
        let place = self.next;
        self.next.object += 1;
        match document {
            ManifestDocument::Service(mut object) => {
                default_namespace(&mut object.metadata);
                self.services.push(Arc::from(object));
                self.service_places.push(place);
            }
            ManifestDocument::EndpointSlice(mut object) => {
                default_namespace(&mut object.metadata);
                default_port_names(&mut object);
                self.endpoint_slices.push(Arc::from(object));
                self.slice_places.push(place);
            }
            ManifestDocument::Node(object) => self.nodes.push(Arc::from(object)),
            ManifestDocument::Undecodable(object) => self.undecodable.push(object),
            ManifestDocument::Invalid(object) => self.invalid.push((place, object)),
            ManifestDocument::Endpoints(name) => {
                self.endpoints_objects.push(name);
                self.ignored += 1;
            }
            ManifestDocument::List(_)
            | ManifestDocument::Reduced(..)
            | ManifestDocument::Kindless(_)
            | ManifestDocument::Other => self.ignored += 1,
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
