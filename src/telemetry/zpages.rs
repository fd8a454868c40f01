//! `/flagz` and `/statusz`: what was typed, and what is running since when.
//!
//! Apart because both are text for people or an object for programs, as the client wishes.
//!
//! # Source
//!
//! Upstream: `staging/src/k8s.io/component-base/zpages/flagz/flagz.go`,
//! `staging/src/k8s.io/component-base/zpages/statusz/statusz.go` (v1.36)
//!
//! Differs from upstream: between names and values there is always the same, which upstream chooses
//! by lot. There is no Go.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use serde::Serialize;

use super::accept::{Form, GROUP, Syntax, Version, form};
use super::build_info::BINARY_VERSION;
use super::http::{Reply, TEXT, reply};

/// Whom this program stands in for.
const COMPONENT: &str = "kube-proxy";

const JSON: &str = "application/json";

/// What both pages of text begin with, after their names.
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no \
                       formatting compatibility guarantees and is for debugging purposes only.";

/// The pages that `/statusz` lists, as upstream does.
const PATHS: [&str; 5] = ["/configz", "/flagz", "/healthz", "/metrics", "/proxyMode"];

/// An object, with what all objects have.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<T> {
    kind: &'static str,
    api_version: String,
    metadata: Metadata,
    #[serde(flatten)]
    fields: T,
}

#[derive(Debug, Serialize)]
struct Metadata {
    name: &'static str,
}

#[derive(Debug, Serialize)]
struct Flagz<'a> {
    flags: &'a BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Statusz {
    start_time: String,
    uptime_seconds: i64,
    go_version: &'static str,
    binary_version: &'static str,
    emulation_version: &'static str,
    paths: [&'static str; 5],
}

/// The flags of the command line and their values, also those that nobody gave.
pub(super) fn flagz(headers: &HeaderMap, flags: &BTreeMap<String, String>) -> Reply {
    let text = || {
        let mut text = format!("\n{COMPONENT} flagz\n{WARNING}\n");
        for (name, value) in flags {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}:{value}");
        }
        text
    };
    page(headers, "Flagz", text, &Flagz { flags })
}

/// Since when this runs, and as what.
pub(super) fn statusz(headers: &HeaderMap, started: Timestamp, now: Timestamp) -> Reply {
    let up = now.as_second().saturating_sub(started.as_second()).max(0);
    let text = || {
        let since = started.strftime("%a %b %e %H:%M:%S UTC %Y");
        let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
        let (program, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        format!(
            "\n{COMPONENT} statusz\n{WARNING}\n\n\
             Started= {since}\n\
             Up= {hours} hr {minutes:02} min {seconds:02} sec\n\
             Go version= none, this is {program} {version}\n\
             Binary version= {BINARY_VERSION}\n\
             Emulation version= {BINARY_VERSION}\n\
             Paths= {}\n",
            PATHS.join(" ")
        )
    };
    let fields = Statusz {
        start_time: started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        uptime_seconds: up,
        go_version: "",
        binary_version: BINARY_VERSION,
        emulation_version: BINARY_VERSION,
        paths: PATHS,
    };
    page(headers, "Statusz", text, &fields)
}

fn page(
    headers: &HeaderMap,
    kind: &'static str,
    text: impl FnOnce() -> String,
    fields: &impl Serialize,
) -> Reply {
    let (syntax, version) = match form(headers, kind) {
        Some(Form::Text) => return reply(StatusCode::OK, TEXT, text()),
        Some(Form::Object(syntax, version)) => (syntax, version),
        None => return not_acceptable(),
    };
    let object = Object {
        kind,
        api_version: format!("{GROUP}/{}", version.name()),
        metadata: Metadata { name: COMPONENT },
        fields,
    };
    // Texts and numbers alone: nothing can fail.
    let mut reply = match syntax {
        Syntax::Json => {
            let text = serde_json::to_string(&object).unwrap_or_default() + "\n";
            reply(StatusCode::OK, JSON, text)
        }
        Syntax::Yaml => {
            let text = serde_saphyr::to_string(&object).unwrap_or_default();
            reply(StatusCode::OK, "application/yaml", text)
        }
    };
    if version == Version::V1Alpha1 {
        let warning = match kind {
            "Flagz" => r#"299 - "config.k8s.io/v1alpha1 Flagz is deprecated; use v1beta1""#,
            _ => r#"299 - "config.k8s.io/v1alpha1 Statusz is deprecated; use v1beta1""#,
        };
        let warning = HeaderValue::from_static(warning);
        reply.headers_mut().insert(header::WARNING, warning);
    }
    reply
}

/// As the API server says it.
fn not_acceptable() -> Reply {
    let status = concat!(
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
        r#""message":"only the following media types are accepted: "#,
        r#"application/json, application/yaml, text/plain","#,
        r#""reason":"NotAcceptable","code":406}"#,
        "\n"
    );
    reply(StatusCode::NOT_ACCEPTABLE, JSON, status)
}

#[cfg(test)]
#[path = "tests/zpages.rs"]
mod tests;
