//! Services in quarantine, as the proxy on this node reports them.
//!
//! The rules in the kernel do not tell that changes of a Service are not applied; health does.
//! Without an answer nothing is said.

use serde_json::Value;

use crate::cli::snapshot::Origin;
use crate::cli::snapshot::proxy::{self, is_name};

/// A line for each family with Services in quarantine, if the rules shown are the kernel's.
pub(super) fn note(origin: &Origin) -> String {
    let Origin::Live(_) = origin else {
        return String::new();
    };
    note_of(&proxy::livez())
}

fn note_of(json: &str) -> String {
    let families = proxy::of_families(json, "quarantinedServices").into_iter();
    let notes = families.filter_map(|(family, quarantined)| {
        let count = quarantined.get("count")?.as_u64()?;
        let names = quarantined.get("names")?.as_array()?.iter();
        let names = names.filter_map(Value::as_str).filter(|name| is_name(name));
        let names: Vec<&str> = names.collect();
        let more = if count > names.len() as u64 {
            ", ..."
        } else {
            ""
        };
        let names = names.join(", ");
        Some(format!(
            "note: quarantined because they make restores fail ({family}): {count}: \
             {names}{more}; their changes are not applied, the log of the proxy says why\n"
        ))
    });
    notes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_in_quarantine_are_named() {
        let json = r#"{"status":{
            "IPv4":{"healthy":true,"quarantinedServices":{"count":3,"names":["shop/a","shop/b"]}},
            "IPv6":{"healthy":true}}}"#;
        let expected = "note: quarantined because they make restores fail (IPv4): 3: shop/a, \
                        shop/b, ...; their changes are not applied, the log of the proxy says \
                        why\n";
        assert_eq!(note_of(json), expected);
    }

    #[test]
    fn other_answers_say_nothing() {
        for json in [
            "",
            "not found",
            r#"{"status":{"IPv4":{"healthy":true}}}"#,
            r#"{"status":{"IPv4":{"quarantinedServices":[]}}}"#,
            "[1]",
        ] {
            assert_eq!(note_of(json), "", "{json}");
        }
        let odd =
            r#"{"status":{"IPv4":{"quarantinedServices":{"count":1,"names":["\u001b[2J"]}}}}"#;
        assert!(!note_of(odd).contains('\u{1b}'));
    }
}
