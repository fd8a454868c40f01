//! Which names may go into rules.
//!
//! Apart because it is about `iptables-restore`, not about Services: names end up in quoted rule
//! comments, where a quote or a line break would change the meaning of a payload, and a comment of
//! more than 255 bytes makes the kernel refuse all of it. Names from an API server are always
//! fine; manifests may hold anything.

use super::diagnostic::{Findings, quoted};

/// Whether `text` can be the name of a namespace, a Service or a port; says so if not.
///
/// More lenient than the API (capitals, underscores, dots) where that does no harm. Not at the
/// beginning: a comment that is a single word would look like an option.
pub(super) fn is_sound(text: &str, field: &str, findings: &mut Findings<'_>) -> bool {
    let problem = match text {
        "" => "is missing".to_owned(),
        text if text.len() > LONGEST => format!("{} is too long for a name", quoted(text)),
        text if !is_name(text) => format!("{} is no name", quoted(text)),
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

/// In bytes: what the API allows for each of the three. Together with the longest wording around
/// them (`route LOCAL traffic for … external destinations`) they stay below 255.
const LONGEST: usize = 63;

/// Whether `text` is there at all, for names that never go into a rule.
pub(super) fn is_present(text: &str, field: &str, findings: &mut Findings<'_>) -> bool {
    if text.is_empty() {
        findings.note(field, "is missing; the object is skipped");
    }
    !text.is_empty()
}
