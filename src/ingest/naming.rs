//! Checks names that are written into rules.
//!
//! Names are in the quoted comments of rules: a quote or a line break would change the meaning of
//! a payload, and the kernel rejects a payload with a comment of more than 255 bytes. Names from
//! an API server are valid; manifests may hold any text.

use super::diagnostic::{Findings, quoted};

/// Reports whether `text` is usable as the name of a namespace, a Service or a port, and adds a
/// diagnostic if it is not.
///
/// Accepts capitals, underscores and dots, which the API does not, except as first character: a
/// comment of one word that begins with `-` would be read as an option.
pub(super) fn is_sound(text: &str, field: &str, findings: &mut Findings<'_>) -> bool {
    let problem = match text {
        "" => "is missing".to_owned(),
        text if text.len() > LONGEST => format!("{} is too long for a name", quoted(text)),
        text if !is_name(text) => format!("{} is not a valid name", quoted(text)),
        _ => return true,
    };
    findings.note(field, format!("{problem}; the object is skipped"));
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
pub(super) fn is_present(text: &str, field: &str, findings: &mut Findings<'_>) -> bool {
    if text.is_empty() {
        findings.note(field, "is missing; the object is skipped");
    }
    !text.is_empty()
}
