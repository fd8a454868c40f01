//! The text of a manifest, as objects.
//!
//! Apart from [`document`](super::document) because the syntax, YAML or JSON, is no matter of
//! kinds.

use std::sync::Arc;

use super::defaults;
use super::document::{Document, Unreadable};
use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};

/// The objects of one file, in the order written.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) services: Vec<Arc<ServiceObject>>,
    pub(super) endpoint_slices: Vec<Arc<EndpointSliceObject>>,
    pub(super) nodes: Vec<Arc<NodeObject>>,
    /// Objects of these kinds that have fields of wrong types.
    pub(super) unreadable: Vec<Unreadable>,
    /// How many objects of other kinds there were.
    pub(super) ignored: usize,
}

/// Why a text is no manifest.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// Counted from 1.
    pub(super) line: Option<u64>,
    pub(super) reason: String,
}

/// Reads all documents of `text`; the first that cannot be read breaks the whole file.
pub(super) fn parse(text: &[u8]) -> Result<Content, Broken> {
    let mut content = Content::default();
    if is_json(text) {
        for document in serde_json::Deserializer::from_slice(text).into_iter() {
            content.add(document.map_err(|error| Broken::json(&error))?);
        }
        return Ok(content);
    }
    if is_dump(text) {
        return Err(Broken {
            line: None,
            reason: "holds rules, as iptables-save prints them, and no objects; `services`, \
                     `explain` and `diff` read them with --from-save"
                .to_owned(),
        });
    }
    // The budget guards against hostile files; ours are written by whoever runs us, and may be
    // larger than any useful default.
    let options = serde_saphyr::options! { budget: None };
    let mut reader = text;
    for document in serde_saphyr::read_with_options(&mut reader, options) {
        content.add(document.map_err(|error| Broken::yaml(&error))?);
    }
    Ok(content)
}

/// Whether to read `text` as JSON, which is much faster. JSON is YAML, too, and may then be
/// divided by `---`; and YAML may have braces, but then seldom quotes its keys.
fn is_json(text: &[u8]) -> bool {
    let Some(inside) = text.trim_ascii_start().strip_prefix(b"{") else {
        return false;
    };
    let is_quoted = inside.trim_ascii_start().starts_with(b"\"");
    is_quoted && memchr::memmem::find(inside, b"\n---").is_none()
}

/// Whether the first line that is no comment begins a table: in YAML that is an alias of nothing.
fn is_dump(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#"));
    let tables = [&b"*filter"[..], b"*mangle", b"*nat", b"*raw", b"*security"];
    first.is_some_and(|line| tables.contains(&line))
}

impl Content {
    /// Not one object, of whatever kind: mostly the output of a command that failed.
    pub(super) fn is_empty(&self) -> bool {
        let known = self.services.len() + self.endpoint_slices.len() + self.nodes.len();
        known + self.unreadable.len() + self.ignored == 0
    }

    fn add(&mut self, document: Document) {
        match document {
            Document::Service(mut object) => {
                defaults::namespace(&mut object.metadata);
                self.services.push(Arc::from(object));
            }
            Document::EndpointSlice(mut object) => {
                defaults::namespace(&mut object.metadata);
                defaults::slice_ports(&mut object);
                self.endpoint_slices.push(Arc::from(object));
            }
            Document::Node(object) => self.nodes.push(Arc::from(object)),
            Document::List(documents) => documents.into_iter().for_each(|one| self.add(one)),
            Document::Unreadable(object) => self.unreadable.push(object),
            Document::Kindless(_) | Document::Other => self.ignored += 1,
        }
    }
}

impl Broken {
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

/// The first line of a message, without the place, which is told apart.
fn one_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let reason = line
        .rsplit_once(" at line ")
        .map_or(line, |(reason, _)| reason);
    // What the library advises its caller is no use to whoever wrote the file.
    match reason.split_once(", set DuplicateKeyPolicy") {
        Some((what, _)) => format!("{what}; is a `---` missing between two objects?"),
        None => reason.trim_end_matches(':').to_owned(),
    }
}

#[cfg(test)]
#[path = "../tests/hostile.rs"]
mod hostile;
