//! Parses the text of a manifest, YAML or JSON, into objects.

use std::sync::Arc;

use super::defaults;
use super::document::{ManifestDocument, UndecodableObject};
use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};

/// Objects of one file, in its order.
#[derive(Debug, Default)]
pub(super) struct FileContent {
    pub(super) services: Vec<Arc<ServiceObject>>,
    pub(super) endpoint_slices: Vec<Arc<EndpointSliceObject>>,
    pub(super) nodes: Vec<Arc<NodeObject>>,
    /// Objects of these kinds with fields of wrong types.
    pub(super) undecodable: Vec<UndecodableObject>,
    /// Number of objects of other kinds.
    pub(super) ignored: usize,
}

/// Syntax error in a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    /// Counted from 1.
    pub(super) line: Option<u64>,
    pub(super) reason: String,
}

/// Parses all documents of `text`. The first syntax error makes the whole file invalid.
pub(super) fn parse(text: &[u8]) -> Result<FileContent, SyntaxError> {
    let mut content = FileContent::default();
    if is_json(text) {
        for document in serde_json::Deserializer::from_slice(text).into_iter() {
            content.add(document.map_err(|error| SyntaxError::json(&error))?);
        }
        return Ok(content);
    }
    if is_dump(text) {
        return Err(SyntaxError {
            line: None,
            reason:
                "is iptables-save output, not a manifest; `services`, `explain` and `diff` read \
                     it with --from-save"
                    .to_owned(),
        });
    }
    // The budget is for untrusted files. Manifests come from the operator, and may be larger than
    // any useful default.
    let options = serde_saphyr::options! { budget: None };
    let mut reader = text;
    for document in serde_saphyr::read_with_options(&mut reader, options) {
        content.add(document.map_err(|error| SyntaxError::yaml(&error))?);
    }
    Ok(content)
}

/// Reports whether to parse `text` as JSON, which is much faster. JSON is also YAML, and may then
/// be divided by `---`; and YAML may have braces, but then seldom quotes its keys.
fn is_json(text: &[u8]) -> bool {
    let Some(inside) = text.trim_ascii_start().strip_prefix(b"{") else {
        return false;
    };
    let is_quoted = inside.trim_ascii_start().starts_with(b"\"");
    is_quoted && memchr::memmem::find(inside, b"\n---").is_none()
}

/// Reports whether the first line that is not a comment names a table, as in `iptables-save`
/// output. In YAML that is an undefined alias.
fn is_dump(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#"));
    let tables = [&b"*filter"[..], b"*mangle", b"*nat", b"*raw", b"*security"];
    first.is_some_and(|line| tables.contains(&line))
}

impl FileContent {
    /// Reports whether there is no object of any kind, as in the output of a command that failed.
    pub(super) fn is_empty(&self) -> bool {
        let known = self.services.len() + self.endpoint_slices.len() + self.nodes.len();
        known + self.undecodable.len() + self.ignored == 0
    }

    fn add(&mut self, document: ManifestDocument) {
        match document {
            ManifestDocument::Service(mut object) => {
                defaults::default_namespace(&mut object.metadata);
                self.services.push(Arc::from(object));
            }
            ManifestDocument::EndpointSlice(mut object) => {
                defaults::default_namespace(&mut object.metadata);
                defaults::default_port_names(&mut object);
                self.endpoint_slices.push(Arc::from(object));
            }
            ManifestDocument::Node(object) => self.nodes.push(Arc::from(object)),
            ManifestDocument::List(documents) => {
                for one in documents {
                    self.add(one);
                }
            }
            ManifestDocument::Undecodable(object) => self.undecodable.push(object),
            ManifestDocument::Kindless(_) | ManifestDocument::Other => self.ignored += 1,
        }
    }
}

impl SyntaxError {
    fn json(error: &serde_json::Error) -> Self {
        let line = u64::try_from(error.line()).ok().filter(|&line| line > 0);
        Self {
            line,
            reason: one_line(&error.to_string()),
        }
    }

    fn yaml(error: &serde_saphyr::Error) -> Self {
        let location = error.location();
        Self {
            line: location.map(|location| location.line()),
            reason: one_line(&error.without_snippet().to_string()),
        }
    }
}

/// Returns the first line of a message, without the place, which is a field of its own.
fn one_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let reason = line
        .rsplit_once(" at line ")
        .map_or(line, |(reason, _)| reason);
    // The advice of the library to its caller does not help the author of the file.
    match reason.split_once(", set DuplicateKeyPolicy") {
        Some((what, _)) => format!("{what}; is a `---` missing between two objects?"),
        None => reason.trim_end_matches(':').to_owned(),
    }
}

#[cfg(test)]
#[path = "../tests/hostile.rs"]
mod hostile;
