//! Parses the text of a manifest, YAML or JSON, into objects, by the kind of each document.
//!
//! Sets the namespaces and port names that manifests leave out, as an API server does before it
//! stores an object: [`ingest`](crate::ingest) expects stored objects.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::files::ManifestError;
use super::validation::{
    self, FieldProblem, FieldProblemKind, RENDER_FIRST, Validation, is_helm_template, wrong_type,
};
use crate::ingest::yaml::{self, DocumentText, SyntaxError};
use crate::ingest::{
    EndpointSliceObject, Metadata, NodeObject, ObjectName, ServiceObject, WrongType, decode_used,
    shortened,
};
use crate::model::Kind;

/// Way in which documents are decoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParseOptions {
    pub(super) validation: Validation,
    /// Keep Services and EndpointSlices with all of their fields.
    pub(super) keeps_written: bool,
}

impl ParseOptions {
    /// Options of the daemon.
    pub(super) const LENIENT: Self = Self {
        validation: Validation::Lenient,
        keeps_written: false,
    };
}

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
    document: usize,
    /// Path below the document, as in `items[3].kind`; empty for the document itself.
    path: String,
}

impl FieldPlace {
    /// Returns the place of a field, or of what is at an empty path, within this one.
    pub(super) fn within(&self, path: &str) -> Self {
        let parts = [self.path.as_str(), path];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Self {
            document: self.document,
            path: parts.join("."),
        }
    }
}

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
    if !is_json(&text) {
        return parse_as(TextFormat::Yaml, path, &text, options);
    }
    let content = parse_as(TextFormat::Json, path, &text, options);
    // Text in braces may still be YAML, with comments or a trailing comma.
    content.or_else(|error| parse_as(TextFormat::Yaml, path, &text, options).map_err(|_| error))
}

fn parse_as(
    format: TextFormat,
    path: &Path,
    text: &str,
    options: ParseOptions,
) -> Result<FileContent, ManifestError> {
    let mut content = FileContent {
        format,
        ..FileContent::default()
    };
    let mut add = |document, value| {
        let path = String::new();
        content.add(value, None, &FieldPlace { document, path }, options)
    };
    let added = match format {
        TextFormat::Json => {
            let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
            documents.enumerate().try_for_each(|(number, document)| {
                add(number, document.map_err(SyntaxError::from)?)
            })
        }
        TextFormat::Yaml => {
            let mut documents = yaml::divide(text).enumerate();
            documents.try_for_each(|(number, document)| match document.read(false)? {
                Some(document) => add(number, document.value),
                None => Ok(()),
            })
        }
    };
    match added {
        Ok(()) => Ok(content),
        Err(UnusableText::Syntax(error)) => Err(syntax_error(path, text, &error)),
        Err(UnusableText::Field(place, reason)) => Err(ManifestError {
            line: lines(text, format, &[place]).pop().flatten(),
            ..ManifestError::new(path, &reason)
        }),
    }
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

    /// Adds an object, or those of a list. `implied` is the kind of an object without one.
    fn add(
        &mut self,
        mut document: Value,
        implied: Option<Kind>,
        place: &FieldPlace,
        options: ParseOptions,
    ) -> Result<(), UnusableText> {
        let at = |field: InvalidField| UnusableText::Field(place.within(field.name), field.reason);
        match DocumentKind::read(&document, implied).map_err(at)? {
            DocumentKind::Ingested(kind) => self.add_object(kind, document, place, options),
            DocumentKind::List(item_kind) => {
                let items = take_items(&mut document).map_err(at)?;
                for (index, item) in items.into_iter().enumerate() {
                    let place = place.within(&format!("items[{index}]"));
                    self.add(item, item_kind, &place, options)?;
                }
            }
            DocumentKind::Unserved { kind, version }
                if options.validation == Validation::Strict =>
            {
                let problem = format!("no matches for kind {kind:?} in version {version:?}");
                self.faulty.push(FaultyObject {
                    name: object_name(&kind, &document),
                    kind,
                    place: place.clone(),
                    is_used: false,
                    problems: vec![FieldProblem::new(
                        FieldProblemKind::InvalidValue,
                        "kind",
                        problem,
                    )],
                });
            }
            DocumentKind::Endpoints => {
                self.endpoints_objects += 1;
                self.ignored += 1;
            }
            DocumentKind::Unserved { .. } | DocumentKind::Other => self.ignored += 1,
        }
        Ok(())
    }

    /// Adds an object from which rules follow. One with a field of a wrong type does not affect
    /// other objects.
    fn add_object(
        &mut self,
        kind: Kind,
        mut object: Value,
        place: &FieldPlace,
        options: ParseOptions,
    ) {
        // Items of a list may be without them.
        if let Some(fields) = object.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        let mut problems = match options.validation {
            Validation::Strict => validation::problems(kind, &object),
            Validation::Lenient => Vec::new(),
        };
        if problems.is_empty()
            && let Err(wrong) = self.add_decoded(kind, &object)
        {
            problems.push(FieldProblem::wrong_type(wrong));
        }
        let is_used = problems.is_empty();
        if is_used && options.validation == Validation::Lenient {
            problems = validation::ignored_fields(kind, &object);
        }
        let name = object_name(kind.as_str(), &object);
        if !problems.is_empty() {
            self.faulty.push(FaultyObject {
                kind: kind.as_str().to_owned(),
                name: name.clone(),
                place: place.clone(),
                is_used,
                problems,
            });
        }
        if is_used && options.keeps_written && kind != Kind::Node {
            self.written.insert((kind, name), object);
        }
    }

    fn add_decoded(&mut self, kind: Kind, object: &Value) -> Result<(), WrongType> {
        match kind {
            Kind::Service => {
                let mut service: ServiceObject = decode_used(object)?;
                default_namespace(&mut service.metadata);
                self.services.push(Arc::new(service));
            }
            Kind::EndpointSlice => {
                let mut slice: EndpointSliceObject = decode_used(object)?;
                default_namespace(&mut slice.metadata);
                for port in &mut slice.ports {
                    port.name.get_or_insert_default();
                }
                self.endpoint_slices.push(Arc::new(slice));
            }
            Kind::Node => self.nodes.push(Arc::new(decode_used(object)?)),
        }
        Ok(())
    }
}

/// Sets the namespace `default` if the object has none.
fn default_namespace(metadata: &mut Metadata) {
    if metadata.namespace.is_empty() {
        "default".clone_into(&mut metadata.namespace);
    }
}

/// Returns the line of each field, or of the innermost node around it that is in the text. Parsing
/// does not record lines: the documents of the fields are read once more.
pub(super) fn lines(text: &str, format: TextFormat, fields: &[FieldPlace]) -> Vec<Option<u64>> {
    let mut lines = vec![None; fields.len()];
    let documents: Box<dyn Iterator<Item = DocumentText<'_>>> = match format {
        TextFormat::Yaml => Box::new(yaml::divide(text)),
        TextFormat::Json => Box::new(json_documents(text).into_iter()),
    };
    for (number, document) in documents.enumerate() {
        let wanted = lines.iter_mut().zip(fields);
        let mut wanted = wanted
            .filter(|(_, field)| field.document == number)
            .peekable();
        if wanted.peek().is_none() {
            continue;
        }
        // JSON with escapes that are invalid in YAML is an error here, and has no lines.
        if let Ok(Some(document)) = document.read(true) {
            wanted.for_each(|(line, field)| *line = innermost(&document.lines, &field.path));
        }
    }
    lines
}

fn innermost(lines: &HashMap<String, u64>, path: &str) -> Option<u64> {
    if let Some(line) = lines.get(path) {
        return Some(*line);
    }
    let outer = path.rfind(['.', '[']).and_then(|end| path.get(..end));
    (!path.is_empty()).then(|| innermost(lines, outer.unwrap_or_default()))?
}

/// Divides JSON documents in a row.
fn json_documents(text: &str) -> Vec<DocumentText<'_>> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let (mut documents, mut start) = (Vec::new(), 0);
    while let Some(Ok(_)) = stream.next() {
        let end = stream.byte_offset();
        let [before, document] =
            [0..start, start..end].map(|range| text.get(range).unwrap_or_default());
        let lines = memchr::memchr_iter(b'\n', before.as_bytes()).count();
        documents.push(DocumentText::new(1 + lines as u64, document));
        start = end;
    }
    documents
}

/// Reason for which no object of a file is used.
enum UnusableText {
    Syntax(SyntaxError),
    Field(FieldPlace, String),
}

impl From<SyntaxError> for UnusableText {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

/// Describes a syntax error; names a Helm template, which is the usual reason for one.
fn syntax_error(path: &Path, text: &str, error: &SyntaxError) -> ManifestError {
    let line = error.reason.lines().next().unwrap_or_default();
    let mut reason = shortened(line.trim_end_matches(':'), MAX_QUOTED_CHARS).into_owned();
    if is_helm_template(text) {
        reason = format!("{reason}; this is a Helm template: {RENDER_FIRST}");
    }
    ManifestError {
        line: error.line,
        ..ManifestError::new(path, &reason)
    }
}

/// Maximum characters of a reason, which may quote a text of any length.
const MAX_QUOTED_CHARS: usize = 300;

/// Field of a document for which the whole file is unusable.
#[derive(Debug)]
struct InvalidField {
    /// Empty for the document itself.
    name: &'static str,
    reason: String,
}

const SLICES_API_VERSION: &str = "discovery.k8s.io/v1";

#[derive(Debug, Clone, PartialEq, Eq)]
enum DocumentKind {
    /// Object from which rules follow.
    Ingested(Kind),
    /// List, with the kind of its items if its own kind implies one.
    List(Option<Kind>),
    Endpoints,
    /// Kind or version that no API server has, and that is probably meant to be one of those above.
    Unserved {
        kind: String,
        version: String,
    },
    /// Any other, or an object without `kind`.
    Other,
}

impl DocumentKind {
    /// Returns the kind of a document. API servers leave out the kind in the items of a typed list,
    /// such as `ServiceList`: `implied` is the kind of the items of the list around the document.
    fn read(document: &Value, implied: Option<Kind>) -> Result<Self, InvalidField> {
        if !document.is_object() {
            return Err(not_an_object(document));
        }
        let api_version = text_field(document, "apiVersion")?;
        Ok(match text_field(document, "kind")? {
            Some(kind) => Self::of(api_version, kind),
            None => implied.map_or(Self::Other, Self::Ingested),
        })
    }

    /// Returns the kind of a document. Another API group may have a kind of the same name, as
    /// Knative has a Service. Without `apiVersion`, the kind decides.
    fn of(api_version: Option<&str>, kind: &str) -> Self {
        let unserved = |version: &str| Self::Unserved {
            kind: kind.to_owned(),
            version: version.to_owned(),
        };
        let (document, served_version) = match kind {
            "Service" => (Self::Ingested(Kind::Service), "v1"),
            "Node" => (Self::Ingested(Kind::Node), "v1"),
            "EndpointSlice" => (Self::Ingested(Kind::EndpointSlice), SLICES_API_VERSION),
            "List" => (Self::List(None), "v1"),
            "ServiceList" => (Self::List(Some(Kind::Service)), "v1"),
            "NodeList" => (Self::List(Some(Kind::Node)), "v1"),
            "EndpointSliceList" => (Self::List(Some(Kind::EndpointSlice)), SLICES_API_VERSION),
            "Endpoints" => (Self::Endpoints, "v1"),
            _ => {
                let misspelt = api_version.filter(|version| is_misspelt(kind, version));
                return misspelt.map_or(Self::Other, unserved);
            }
        };
        match api_version {
            None => document,
            Some(version) if version == served_version => document,
            Some(version) if is_kubernetes_group(version) => unserved(version),
            Some(_) => Self::Other,
        }
    }
}

/// Returns a field that must be a text; `None` if it is absent or `null`.
fn text_field<'v>(
    document: &'v Value,
    name: &'static str,
) -> Result<Option<&'v str>, InvalidField> {
    match document.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(InvalidField {
            name,
            reason: format!("{name}: {}", wrong_type("a string", other)),
        }),
    }
}

/// Takes the items out of a list.
fn take_items(list: &mut Value) -> Result<Vec<Value>, InvalidField> {
    match list.get_mut("items").map(Value::take) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(InvalidField {
            name: "items",
            reason: format!("items: {}", wrong_type("an array of objects", &other)),
        }),
    }
}

/// Describes a document that is not an object; names the usual reason for an array.
fn not_an_object(document: &Value) -> InvalidField {
    let reason = match document {
        Value::Array(items) => {
            let first = items.first().unwrap_or(&Value::Null);
            if first.get("op").is_some() && first.get("path").is_some() {
                "is a JSON patch, as kustomize uses, and not a manifest".to_owned()
            } else {
                "is a list; give several objects as the `items` of a `kind: List`".to_owned()
            }
        }
        other => wrong_type("a Kubernetes object", other),
    };
    InvalidField { name: "", reason }
}

/// Returns the name of an object: in the namespace `default` if it names none and is not a Node,
/// and empty if it has none.
fn object_name(kind: &str, object: &Value) -> ObjectName {
    let field = |name| object.get("metadata")?.get(name)?.as_str();
    let namespace = match field("namespace").unwrap_or_default() {
        _ if kind == Kind::Node.as_str() => "",
        "" => "default",
        namespace => namespace,
    };
    ObjectName {
        namespace: namespace.to_owned(),
        name: field("name").unwrap_or_default().to_owned(),
    }
}

/// Reports whether a kind differs from Service or EndpointSlice by one or two letters. No existing
/// kind of the same version does.
fn is_misspelt(kind: &str, api_version: &str) -> bool {
    let is_near = |right| strsim::osa_distance(right, kind) <= 2;
    match api_version {
        "v1" => is_near("Service"),
        SLICES_API_VERSION => is_near("EndpointSlice"),
        _ => false,
    }
}

/// Reports whether the API group of a version belongs to the Kubernetes project: it has no dot, or
/// is below `k8s.io`. Some of these groups are of CRDs, such as `gateway.networking.k8s.io`; none
/// has a kind that is read here.
fn is_kubernetes_group(api_version: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    !group.contains('.') || group.ends_with(".k8s.io")
}

#[cfg(test)]
#[path = "../tests/hostile.rs"]
mod hostile;
