//! Pages in HTML: golden files, hostile texts and sizes.

use std::fs;
use std::time::Duration;

use data_encoding::BASE64;
use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use http_body_util::BodyExt;
use maud::{Markup, html};
use sha2::{Digest, Sha256};

use super::document::{STYLE, document};
use super::*;
use crate::hostile::{WORDS, everywhere};
use crate::model::{Allowance, Frontend, ServiceName, TrafficPolicy};
use crate::net::{IpFamily, Port, Protocol};
use crate::render::Disposition;
use crate::select::EndpointText;
use crate::status::family_requests::{FamilyService, ServiceRulesText};
use crate::status::quantities::{bytes, duration, milliseconds};
use crate::status::sample::failing_node;
use crate::status::service_condition::ServiceCondition;
use crate::status::summary::{
    EndpointCondition, EndpointSummary, FrontendSummary, PortSummary, RulesSummary, Shown,
};
use crate::status::{FamilyStatus, StatusDocument, UndetectedPods};

/// Texts that would add a tag, an attribute or an entity if they were not escaped.
const TAGS: &[&str] = &[
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</style><style>*{}",
    "&lt;",
    "--><!--",
];

/// Returns the state of a node that fails, with so many of each record, and with a family that is
/// disabled.
fn status(count: usize) -> StatusDocument {
    let mut status = failing_node();
    status.families[1] = FamilyStatus {
        family: "IPv6".to_owned(),
        is_disabled: true,
        ..FamilyStatus::default()
    };
    let family = &mut status.families[0];
    family.drift = vec![family.drift[0].clone(); count.min(20)];
    family.quarantined = vec![family.quarantined[0].clone(); count];
    family.conflicts = vec![family.conflicts[0].clone(); count.min(10)];
    let syncs = family.recent_syncs.clone().into_iter().cycle();
    family.recent_syncs = syncs.take(count).collect();
    family.unreadable_tables = vec!["nat".to_owned()];
    family.verification.as_mut().unwrap().is_clean = true;
    (status.configuration_invalid, status.configuration_changed) = (false, true);
    status.unknown_settings = vec!["featureGates.Later".to_owned()];
    status.find_problems();
    status
}

fn port(number: u16) -> Port {
    Port::new(number).unwrap()
}

fn shown<T>(first: Vec<T>, count: usize) -> Shown<T> {
    Shown { first, count }
}

fn summary(text: &str, count: usize) -> RulesSummary {
    let ip = "10.96.0.1".parse().unwrap();
    let frontend = |position: usize| FrontendSummary {
        kind: ["ClusterIP", "ExternalIP", "LoadBalancer"][position % 3],
        frontend: Frontend::Address(ip, port(80), Protocol::Tcp),
        disposition: [Some(Disposition::Forward), Some(Disposition::Drop), None][position % 3],
    };
    let endpoint = |position: usize| EndpointSummary {
        text: EndpointText::new(ip, port(8080)),
        condition: match position {
            1 => EndpointCondition::NotReady,
            2 => EndpointCondition::Terminating,
            _ => EndpointCondition::Ready,
        },
        is_local: position == 0,
        in_cluster: position != 1,
        in_local: position == 0,
    };
    let summary = PortSummary {
        name: text.into(),
        protocol: Protocol::Tcp,
        frontends: shown((0..count.min(5)).map(frontend).collect(), count),
        endpoints: shown((0..count).map(endpoint).collect(), count),
        in_cluster: count - 1,
        in_local: 1,
    };
    RulesSummary {
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Local,
        affinity: Some(Duration::from_secs(10_800)),
        source_ranges: shown(vec!["192.0.2.0/24".parse().unwrap()], 2),
        health_check: None,
        allowance: Allowance::Full,
        ports_over_limit: 1,
        ports: shown(vec![summary], 2),
    }
}

fn families(text: &str, count: usize, rules: usize) -> Vec<(IpFamily, FamilyService)> {
    let service = |family| {
        let service = FamilyService {
            summary: summary(text, count),
            is_pending: true,
            rules: ServiceRulesText::Known(format!("-A KUBE-SERVICES \"{text}\"\n").repeat(rules)),
        };
        (family, service)
    };
    IpFamily::ALL.map(service).into()
}

fn service_page(text: &str, count: usize, rules: usize) -> ServicePage {
    ServicePage {
        name: ServiceName::new(text, text),
        condition: ServiceCondition::Quarantined,
        quarantine: vec![(text.to_owned(), "it has no rules".to_owned())],
        families: families(text, count, rules),
    }
}

fn service_list(text: &str, rows: usize) -> ServiceList {
    let row = |_| ServiceRow {
        name: ServiceName::new(text, text),
        condition: ServiceCondition::NoLocalEndpoint,
        families: families(text, 3, 0),
    };
    ServiceList {
        search: text.to_owned(),
        found: 250,
        first: 50,
        rows: (0..rows).map(row).collect(),
        page: 2,
        pages: 5,
    }
}

fn page_of(text: &str, main: &Markup) -> String {
    document(Audience::Node, text, main).into_string()
}

fn overview_of(status: &StatusDocument) -> String {
    page_of(&status.node, &overview(status, Audience::Node))
}

/// Returns the pages about Services with a text in them.
fn documents(text: &str) -> [String; 2] {
    [
        page_of(text, &services(&service_list(text, 2))),
        page_of(text, &service(&service_page(text, 3, 1))),
    ]
}

/// Returns the paths of the golden files, each with a page in which each tag has a line.
fn golden() -> impl Iterator<Item = (String, String)> {
    let [list, one] = documents("shop");
    let pages = [
        ("overview", overview_of(&status(3))),
        ("services", list),
        ("service", one),
    ];
    pages.into_iter().map(|(name, page)| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/status/tests/golden");
        let (head, main) = page.split_once(STYLE).unwrap();
        let lines = format!("{head}{main}\n").replace('<', "\n<");
        (
            format!("{folder}/{name}.html"),
            lines.trim_start().to_owned(),
        )
    })
}

#[test]
fn pages_have_their_golden_html() {
    for (path, page) in golden() {
        let expected = fs::read_to_string(&path).unwrap();
        assert_eq!(page, expected, "{path}");
    }
}

/// `cargo test --lib -- --ignored html::tests::record`, after a change that is meant.
#[test]
#[ignore = "writes the golden files"]
fn record() {
    for (path, page) in golden() {
        fs::write(path, page).unwrap();
    }
}

/// Returns the tags of a page, with the names of their attributes.
fn tags(page: &str) -> Vec<String> {
    let mut tags = Vec::new();
    for rest in page.split('<').skip(1) {
        let (tag, _) = rest.split_once('>').unwrap();
        let outside_of_values = tag.split('"').step_by(2);
        tags.push(outside_of_values.collect::<Vec<_>>().join("\"\""));
    }
    tags
}

#[test]
fn hostile_texts_add_no_tag_and_no_attribute() {
    let expected = documents("shop").map(|page| tags(&page));
    for text in TAGS.iter().chain(WORDS) {
        let found = documents(text).map(|page| tags(&page));
        assert_eq!(found, expected, "{text:?}");
    }
    let [list, _] = documents("a b?c#d/e%f");
    let link = "href=\"/services/a+b%3Fc%23d/e%25f%2Fa+b%3Fc%23d%2Fe%25f\"";
    assert!(list.contains(link), "{list}");
}

#[test]
fn no_text_of_a_state_adds_a_tag() {
    let mut state = status(3);
    state.families[0].undetected_pods = Some(UndetectedPods::default());
    state.families[0].other_backend = "legacy".to_owned();
    state.families[0].backend_reason = "plain names in PATH".to_owned();
    state.find_problems();
    let expected = tags(&overview_of(&state));
    for text in TAGS.iter().chain(WORDS) {
        let found = overview_of(&everywhere(&state, text));
        assert_eq!(tags(&found), expected, "{text:?}");
    }
}

#[test]
fn pages_stay_below_100_kb() {
    const MOST: usize = 100_000;
    let longest = "a".repeat(63);
    let mut busy = everywhere(&status(200), &longest);
    busy.families[1] = busy.families[0].clone();
    let size = overview_of(&busy).len();
    assert!((20_000..MOST).contains(&size), "{size}");
    let size = page_of(&longest, &services(&service_list(&longest, 50))).len();
    assert!((20_000..MOST).contains(&size), "{size}");
    // All endpoints are of one port of each family.
    let size = page_of(&longest, &service(&service_page(&longest, 100, 1000))).len();
    assert!((20_000..MOST).contains(&size), "{size}");
}

#[test]
fn others_get_no_names() {
    let status = status(3).without_names();
    let main = overview(&status, Audience::Others);
    let page = document(Audience::Others, "Node node1", &main).into_string();
    for secret in ["shop/", "KUBE-SVC", "192.0.2.7", "\"/services\""] {
        assert!(!page.contains(secret), "{secret}: {page}");
    }
    assert!(page.contains("Last failed restore") && page.contains("in quarantine: 3"));
}

#[tokio::test]
async fn a_page_allows_its_style_sheet_and_nothing_else() {
    let reply = page(StatusCode::OK, Audience::Node, "shop", &html! { "shop" });
    let policy = &reply.headers()[CONTENT_SECURITY_POLICY];
    let policy = policy.to_str().unwrap().to_owned();
    let start = "default-src 'none'; style-src 'sha256-";
    assert!(policy.starts_with(start), "{policy}");
    assert_eq!(reply.headers()[REFERRER_POLICY], "no-referrer");
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    let text = str::from_utf8(&body).unwrap();
    // The digest is of what is between the tags.
    let (_, rest) = text.split_once("<style>").unwrap();
    let (style, _) = rest.split_once("</style>").unwrap();
    let digest = BASE64.encode(&Sha256::digest(style));
    assert!(policy.contains(&format!("'sha256-{digest}'")), "{policy}");
    for other in ["://", "url(", "@import", "<script", " style=", "http-equiv"] {
        assert!(!text.contains(other), "{other}");
    }
}

#[test]
fn numbers_have_units_and_few_digits() {
    let seconds = [0, 59, 60, 3599, 3600, 86_399, 86_400, 97_200];
    let texts = seconds.map(|seconds| duration(Duration::from_secs(seconds)));
    let expected = "0 s, 59 s, 1 min, 59 min, 1 h, 23 h 59 min, 1 d, 1 d 3 h";
    assert_eq!(texts.join(", "), expected);
    let texts = [0.04, 9.96, 123.4, 12_345.6].map(milliseconds);
    assert_eq!(texts, ["0.0 ms", "10.0 ms", "123 ms", "12.3 s"]);
    let texts = [999, 1_000, 9_940_000, 31_200_000_000].map(bytes);
    assert_eq!(texts, ["999 B", "1.0 kB", "9.9 MB", "31.2 GB"]);
}
