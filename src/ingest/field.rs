//! Reads values that Services and EndpointSlices both have: names, protocols, port numbers, and
//! texts that many objects repeat.

use std::collections::HashSet;
use std::sync::Arc;

use super::diagnostic::{DiagnosticList, quoted};
use crate::net::{Port, Protocol};

/// Reports whether `text` is usable as the name of a namespace, a Service or a port, and adds a
/// diagnostic if it is not.
///
/// Accepts capitals, underscores and dots, which the API does not, except as first character: a
/// comment of one word that begins with `-` would be read as an option.
pub(super) fn is_valid_name(text: &str, field: &str, diagnostics: &mut DiagnosticList<'_>) -> bool {
    let problem = match text {
        "" => "is missing".to_owned(),
        text if text.len() > LONGEST => format!("{} is too long for a name", quoted(text)),
        text if !is_name(text) => format!("{} is not a valid name", quoted(text)),
        _ => return true,
    };
    diagnostics.note(field, format!("{problem}; the object is skipped"));
    false
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.bytes().all(is_name_byte)
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// Maximum of the API for each of the three, in bytes. With the longest text around them (`route
/// LOCAL traffic for … external destinations`) a comment stays below 255 bytes.
const LONGEST: usize = 63;

/// Reports whether a name is not empty, for names that are in no rule, and adds a diagnostic if it
/// is.
pub(super) fn is_present(text: &str, field: &str, diagnostics: &mut DiagnosticList<'_>) -> bool {
    if text.is_empty() {
        diagnostics.note(field, "is missing; the object is skipped");
    }
    !text.is_empty()
}

/// Returns the protocol, TCP if absent. `place` is its path, for the diagnostic.
pub(super) fn protocol<'a, 'b: 'a>(
    text: &str,
    place: impl FnOnce() -> (String, &'a mut DiagnosticList<'b>),
) -> Option<Protocol> {
    let text = if text.is_empty() { "TCP" } else { text };
    let protocol = Protocol::from_api(text);
    if protocol.is_none() {
        let (field, diagnostics) = place();
        let problem = format!(
            "{} is not a valid protocol; the port is skipped",
            quoted(text)
        );
        diagnostics.note(field, problem);
    }
    protocol
}

/// Returns `number` as a port; `None` outside 1 to 65535.
pub(super) fn port_number(number: i64) -> Option<Port> {
    u16::try_from(number).ok().and_then(Port::new)
}

/// Set of shared texts.
///
/// # Invariants
///
/// Unused texts are dropped before the set doubles, so that it holds at most twice the used ones.
#[derive(Debug, Default)]
pub struct Interner {
    texts: HashSet<Arc<str>>,
    /// Size at which unused texts are dropped.
    sweep_at: usize,
}

impl Interner {
    /// Returns the shared copy of `text`.
    pub fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        if self.texts.len() >= self.sweep_at.max(SMALLEST_SWEEP) {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = self.texts.len().saturating_mul(2);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }
}

/// Minimum size for that, in texts: below it the search costs more than the memory it frees.
const SMALLEST_SWEEP: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_one_copy() {
        let mut interner = Interner::default();
        let (first, second) = (interner.intern("http"), interner.intern("http"));
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn texts_out_of_use_do_not_pile_up() {
        let mut interner = Interner::default();
        let kept = interner.intern("kept");
        for number in 0..10_000 {
            interner.intern(&number.to_string());
        }
        assert!(interner.texts.len() <= SMALLEST_SWEEP + 1);
        assert!(Arc::ptr_eq(&kept, &interner.intern("kept")));
    }
}
