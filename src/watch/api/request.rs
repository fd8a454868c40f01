//! Request lines of lists and watches.
//!
//! Apart because the parameters and how they depend on each other are the API's contract.
//!
//! # Source
//!
//! KEP: kep.k8s.io/3157 (streaming lists)

use std::fmt::Write as _;
use std::time::Duration;

use super::kind::{Kind, Selector};

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start<'a> {
    /// With the whole state, as new as the server can make it.
    Everything,
    /// After this resource version.
    After(&'a str),
}

/// One page of a list: a consistent read, never older than what was seen before.
pub(super) fn list<K: Kind>(
    selector: &Selector<K>,
    limit: Option<u32>,
    resume: Option<&str>,
) -> String {
    let mut uri = base(selector);
    if let Some(limit) = limit {
        push(&mut uri, "limit", &limit.to_string());
    }
    if let Some(token) = resume {
        push(&mut uri, "continue", token);
    }
    uri
}

/// A watch that the server ends after `timeout`.
pub(super) fn watch<K: Kind>(
    selector: &Selector<K>,
    start: Start<'_>,
    timeout: Duration,
) -> String {
    let mut uri = base(selector);
    push(&mut uri, "watch", "true");
    push(&mut uri, "allowWatchBookmarks", "true");
    push(&mut uri, "timeoutSeconds", &timeout.as_secs().to_string());
    match start {
        Start::Everything => {
            push(&mut uri, "sendInitialEvents", "true");
            push(&mut uri, "resourceVersionMatch", "NotOlderThan");
        }
        Start::After(version) => push(&mut uri, "resourceVersion", version),
    }
    uri
}

fn base<K: Kind>(selector: &Selector<K>) -> String {
    let mut uri = K::PATH.to_owned();
    if let Some(labels) = selector.labels {
        push(&mut uri, "labelSelector", labels);
    }
    if let Some(fields) = &selector.fields {
        push(&mut uri, "fieldSelector", fields);
    }
    uri
}

fn push(uri: &mut String, key: &str, value: &str) {
    uri.push(if uri.contains('?') { '&' } else { '?' });
    uri.push_str(key);
    uri.push('=');
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => {
                // Writing to a String can't fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
}
