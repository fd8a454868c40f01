//! Pages `/flagz` and `/statusz`: the flags of the command line, and version and uptime.
//!
//! Both are text, unless `Accept` names kind, group and version of an object in full.
//!
//! # Source
//!
//! Upstream: `staging/src/k8s.io/apiserver/pkg/server/flagz/flagz.go`,
//! `staging/src/k8s.io/apiserver/pkg/server/statusz/statusz.go`,
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go` (v1.37)
//!
//! Differs from upstream: the separator between names and values is fixed, which upstream picks at
//! random; there is no Go version; the deprecated version `v1alpha1` of the objects is not served;
//! and the first acceptable type wins, as `q` is ignored.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;
use serde::Serialize;

use super::server::{Reply, TEXT, reply};
use crate::telemetry::metrics::{KUBE_PROXY_MINOR_VERSION, KUBE_PROXY_VERSION};

/// Component that this program stands in for.
const COMPONENT: &str = "kube-proxy";

/// API group and version of the objects.
const API_VERSION: &str = "config.k8s.io/v1beta1";

const JSON: &str = "application/json";

/// Second line of both text pages.
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no \
                       formatting compatibility guarantees and is for debugging purposes only.";

/// Pages that `/statusz` lists, as upstream does.
const PATHS: [&str; 5] = ["/configz", "/flagz", "/healthz", "/metrics", "/proxyMode"];

/// Object with the fields that all API objects have.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiObject<T> {
    kind: &'static str,
    api_version: &'static str,
    metadata: PageMetadata,
    #[serde(flatten)]
    fields: T,
}

#[derive(Debug, Serialize)]
struct PageMetadata {
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

/// Returns `/flagz`: the flags of the command line with their values or defaults.
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

/// Returns `/statusz`: start time, uptime and versions.
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
             Binary version= {KUBE_PROXY_VERSION}\n\
             Emulation version= {KUBE_PROXY_MINOR_VERSION}\n\
             Paths= {}\n",
            PATHS.join(" ")
        )
    };
    let fields = Statusz {
        start_time: started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        uptime_seconds: up,
        go_version: "",
        binary_version: KUBE_PROXY_VERSION,
        emulation_version: KUBE_PROXY_MINOR_VERSION,
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
    let Some(format) = accepted_format(headers, kind) else {
        return not_acceptable();
    };
    let object = ApiObject {
        kind,
        api_version: API_VERSION,
        metadata: PageMetadata { name: COMPONENT },
        fields,
    };
    // Strings and numbers can always be serialized.
    match format {
        PageFormat::Text => reply(StatusCode::OK, TEXT, text()),
        PageFormat::Json => {
            let text = serde_json::to_string(&object).unwrap_or_default() + "\n";
            reply(StatusCode::OK, JSON, text)
        }
        PageFormat::Yaml => {
            let text = serde_saphyr::to_string(&object).unwrap_or_default();
            reply(StatusCode::OK, "application/yaml", text)
        }
    }
}

/// Returns the `Status` object that the API server sends in this case.
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

/// Format of a page: text for people, or an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageFormat {
    Text,
    Json,
    Yaml,
}

/// Returns the first format of this kind of object that the client accepts.
fn accepted_format(headers: &HeaderMap, kind: &str) -> Option<PageFormat> {
    let lines = headers.get_all(header::ACCEPT).iter();
    let mut lines = lines.filter_map(|line| line.to_str().ok()).peekable();
    if lines.peek().is_none_or(|line| line.trim().is_empty()) {
        return Some(PageFormat::Text);
    }
    let mut ranges = lines.flat_map(|line| line.split(','));
    ranges.find_map(|range| range_format(range, kind))
}

fn range_format(range: &str, kind: &str) -> Option<PageFormat> {
    let mut parts = range.split(';').map(str::trim);
    let format = match parts.next()? {
        "*/*" | "text/*" | "text/plain" => return Some(PageFormat::Text),
        "application/json" => PageFormat::Json,
        "application/yaml" => PageFormat::Yaml,
        _ => return None,
    };
    let parameters: BTreeMap<&str, &str> = parts.filter_map(|part| part.split_once('=')).collect();
    let parameter = |key| parameters.get(key).copied().unwrap_or_default();
    let api_version = format!("{}/{}", parameter("g"), parameter("v"));
    (api_version == API_VERSION && parameter("as") == kind).then_some(format)
}

#[cfg(test)]
#[path = "tests/zpages.rs"]
mod tests;
