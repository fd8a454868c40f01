//! Services in quarantine, as the proxy on this node reports them.
//!
//! The rules in the kernel do not tell that changes of a Service are not applied; health does.
//! Without an answer nothing is said.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::cli::snapshot::Origin;

/// The proxy's health server, at the port where kubelet and load balancers look for it. It answers
/// on localhost unless it was given another address.
const HEALTH: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10256);

/// Wait for an answer. A proxy of this node answers in a millisecond, even if it is busy.
const PATIENCE: Duration = Duration::from_millis(500);

/// An answer has some hundred bytes.
const LONGEST: u64 = 64 * 1024;

/// A line for each family with Services in quarantine, if the rules shown are the kernel's.
pub(super) fn note(origin: &Origin) -> String {
    let Origin::Live(_) = origin else {
        return String::new();
    };
    let body = ask().unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let json = text.split_once("\r\n\r\n").map_or("", |(_, json)| json);
    note_of(json)
}

fn ask() -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&HEALTH, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut body = Vec::new();
    stream.take(LONGEST).read_to_end(&mut body)?;
    Ok(body)
}

fn note_of(json: &str) -> String {
    let report: Value = serde_json::from_str(json).unwrap_or_default();
    let families = report.get("status").and_then(Value::as_object);
    let families = families.into_iter().flatten();
    let notes = families.filter_map(|(family, report)| {
        let quarantined = report.get("quarantinedServices")?;
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
        is_name(family).then(|| {
            format!(
                "note: quarantined because they make restores fail ({family}): {count}: \
                 {names}{more}; their changes are not applied, the log of the proxy says why\n"
            )
        })
    });
    notes.collect()
}

/// Whatever answers at that port, the terminal is given text.
fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-./".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
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
