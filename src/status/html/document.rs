//! Frame of all pages, and their headers.

use std::sync::LazyLock;

use data_encoding::BASE64;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::telemetry::{Reply, reply};

pub(super) const STYLE: &str = include_str!("style.css");

/// Allows the style sheet of the pages, and the icon in their head, which keeps a browser from
/// requesting one.
static POLICY: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let digest = BASE64.encode(&Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).ok()
});

/// Clients that a page is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::status) enum Audience {
    /// Clients on the node, which get names and addresses of Services.
    Node,
    Others,
}

pub(in crate::status) fn page(
    status: StatusCode,
    audience: Audience,
    title: &str,
    main: &Markup,
) -> Reply {
    let mut reply = reply(
        status,
        "text/html; charset=utf-8",
        document(audience, title, main).into_string(),
    );
    let headers = reply.headers_mut();
    if let Some(policy) = &*POLICY {
        headers.insert(CONTENT_SECURITY_POLICY, policy.clone());
    }
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// Returns a page that says why there is no other one.
pub(in crate::status) fn refusal(status: StatusCode, audience: Audience, text: &str) -> Reply {
    let title = status.canonical_reason().unwrap_or("Error");
    let main = html! {
        h1 { (title) }
        p { (text) }
    };
    page(status, audience, title, &main)
}

/// Heading of a column, and whether it has numbers.
pub(super) type PageColumn = (&'static str, bool);

/// Returns a table that scrolls by itself in a narrow window; `label` names it among those of the
/// page.
pub(super) fn table(
    label: &str,
    caption: Option<&str>,
    columns: &[PageColumn],
    rows: &Markup,
) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(label) {
            table {
                @if let Some(caption) = caption { caption { (caption) } }
                thead {
                    tr {
                        @for (heading, has_numbers) in columns {
                            th scope="col" class=[has_numbers.then_some("number")] { (heading) }
                        }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}

pub(super) fn document(audience: Audience, title: &str, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " - deltaproxy" }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                a class="skip" href="#main" { "Skip to content" }
                header {
                    p { "deltaproxy" }
                    nav aria-label="Pages" {
                        ul {
                            li { a href="/" { "Status" } }
                            @if audience == Audience::Node {
                                li { a href="/services" { "Services" } }
                                li { a href="/rules" { "Rules" } }
                            }
                            li { a href="/status" { "Status as JSON" } }
                            li { a href="/metrics" { "Metrics" } }
                        }
                    }
                }
                main id="main" tabindex="-1" { (main) }
                footer {
                    @match audience {
                        Audience::Node => "Load the page again for a newer state: it does not change by itself.",
                        Audience::Others => "Names and addresses of Services are for clients on this node alone, for example with kubectl port-forward.",
                    }
                }
            }
        }
    }
}
