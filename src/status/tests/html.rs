//! Pages in HTML: golden files, hostile texts and sizes.

use std::fs;
use std::time::Duration;

use data_encoding::BASE64;
use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use http_body_util::BodyExt;
use jiff::Timestamp;
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
use crate::status::service_condition::ServiceCondition;
use crate::status::summary::{
    EndpointCondition, EndpointSummary, FrontendSummary, PortSummary, RulesSummary, Shown,
};
use crate::status::{
    ConflictRecord, ConntrackStatus, DriftRecord, FailureRecord, FamilyStatus, LimitRecord,
    QuarantinedService, StatusDocument, SyncRecord, UndetectedPods, Verification, WatchStatus,
};

/// Texts that would add a tag, an attribute or an entity if they were not escaped.
const TAGS: &[&str] = &[
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</style><style>*{}",
    "&lt;",
    "--><!--",
];

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_764_000_000 + second).unwrap()
}

fn sync(position: usize) -> SyncRecord {
    SyncRecord {
        at: at(0),
        scope: if position.is_multiple_of(50) {
            "full"
        } else {
            "partial"
        }
        .to_owned(),
        reason: String::new(),
        took_ms: f64::from(u32::try_from(position % 7).unwrap()) + 1.5,
        bytes: 12_345,
        chains: 17,
        services: 3,
        lock_wait_ms: 0.0,
    }
}

fn conflict(text: &str) -> ConflictRecord {
    ConflictRecord {
        service: text.to_owned(),
        kind: "ExternalIP".to_owned(),
        ip: "10.0.0.1".to_owned(),
        port: 80,
        protocol: "tcp".to_owned(),
        owner: text.to_owned(),
        ..ConflictRecord::default()
    }
}

/// Returns a family with every kind of content, and with `text` in all texts that come from the
/// API or from programs.
fn family(text: &str, count: usize) -> FamilyStatus {
    FamilyStatus {
        family: "IPv4".to_owned(),
        backend: "nft".to_owned(),
        iptables_version: text.to_owned(),
        generation: 17,
        endpoints: 24,
        rules: 128,
        pending_services: 2,
        waiting_since: Some(at(-5)),
        last_full: Some(SyncRecord {
            reason: "first".to_owned(),
            ..sync(0)
        }),
        last_partial: Some(sync(1)),
        last_failure: Some(FailureRecord {
            at: at(-1),
            scope: "partial".to_owned(),
            error: format!("rejected line 2; > 2 | {text}"),
            consequence: "a full restore follows".to_owned(),
        }),
        failed_syncs: 3,
        verification: Some(Verification {
            at: at(-300),
            is_clean: true,
        }),
        drift: vec![
            DriftRecord {
                at: at(-7300),
                chains: 2,
                names: text.to_owned(),
                program: text.to_owned(),
            };
            count.min(20)
        ],
        quarantined: vec![
            QuarantinedService {
                service: text.to_owned(),
                error: text.to_owned(),
                consequence: "it has no rules".to_owned(),
            };
            count
        ],
        conflicts: vec![conflict(text); count.min(10)],
        conflict_count: count as u64,
        over_limits: vec![LimitRecord {
            limit: "endpoints".to_owned(),
            services: 1,
        }],
        unreadable_tables: vec!["nat".to_owned()],
        recent_syncs: (0..count.min(200)).map(sync).collect(),
        ..FamilyStatus::default()
    }
}

/// Returns a document with such a family, and one that is disabled.
fn status(text: &str, count: usize) -> StatusDocument {
    let disabled = FamilyStatus {
        family: "IPv6".to_owned(),
        is_disabled: true,
        ..FamilyStatus::default()
    };
    let mut status = StatusDocument {
        node: text.to_owned(),
        version: "1.2.3".to_owned(),
        started_at: at(-90_000),
        observed_at: at(0),
        families: vec![family(text, count), disabled],
        watches: vec![WatchStatus {
            kind: "Service".to_owned(),
            age_seconds: 12.3,
        }],
        conntrack: Some(ConntrackStatus {
            entries: 5,
            max: 100,
        }),
        configuration_changed: true,
        unknown_settings: vec![text.to_owned()],
        ..StatusDocument::default()
    };
    status.find_problems();
    status
}

fn port(number: u16) -> Port {
    Port::new(number).unwrap()
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
        frontends: Shown {
            first: (0..count.min(5)).map(frontend).collect(),
            count,
        },
        endpoints: Shown {
            first: (0..count).map(endpoint).collect(),
            count,
        },
        in_cluster: count - 1,
        in_local: 1,
    };
    RulesSummary {
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Local,
        affinity: Some(Duration::from_secs(10_800)),
        source_ranges: Shown {
            first: vec!["192.0.2.0/24".parse().unwrap()],
            count: 2,
        },
        health_check: None,
        allowance: Allowance::Full,
        ports_over_limit: 1,
        ports: Shown {
            first: vec![summary],
            count: 2,
        },
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

/// Returns all pages with a text in them.
fn documents(text: &str) -> [String; 3] {
    let page = |main: &Markup| document(Audience::Node, text, main).into_string();
    [
        page(&overview(&status(text, 3), Audience::Node)),
        page(&services(&service_list(text, 2))),
        page(&service(&service_page(text, 3, 1))),
    ]
}

/// Returns the paths of the golden files, each with a page in which each tag has a line.
fn golden() -> impl Iterator<Item = (String, String)> {
    let names = ["overview", "services", "service"].into_iter();
    names.zip(documents("shop")).map(|(name, page)| {
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
    let [_, list, _] = documents("a b?c#d/e%f");
    let link = "href=\"/services/a+b%3Fc%23d/e%25f%2Fa+b%3Fc%23d%2Fe%25f\"";
    assert!(list.contains(link), "{list}");
}

#[test]
fn no_text_of_a_state_adds_a_tag() {
    let mut state = status("shop", 3);
    state.families[0].undetected_pods = Some(UndetectedPods::default());
    state.families[0].other_backend = "legacy".to_owned();
    state.families[0].backend_reason = "plain names in PATH".to_owned();
    state.find_problems();
    let page = |state: &StatusDocument| {
        let main = overview(state, Audience::Node);
        document(Audience::Node, &state.node, &main).into_string()
    };
    let expected = tags(&page(&state));
    for text in TAGS.iter().chain(WORDS) {
        let found = page(&everywhere(&state, text));
        assert_eq!(tags(&found), expected, "{text:?}");
    }
}

#[test]
fn pages_stay_below_100_kb() {
    const MOST: usize = 100_000;
    let longest = "a".repeat(63);
    let page = |main: &Markup| document(Audience::Node, &longest, main).into_string().len();
    let mut busy = status(&longest, 200);
    busy.families[1] = busy.families[0].clone();
    let size = page(&overview(&busy, Audience::Node));
    assert!((20_000..MOST).contains(&size), "{size}");
    let size = page(&services(&service_list(&longest, 50)));
    assert!((20_000..MOST).contains(&size), "{size}");
    // All endpoints are of one port of each family.
    let size = page(&service(&service_page(&longest, 100, 1000)));
    assert!((20_000..MOST).contains(&size), "{size}");
}

#[test]
fn others_get_no_names() {
    let secret = "the-secret-name";
    let mut status = status(secret, 3).without_names();
    status.node = "node1".to_owned();
    status.unknown_settings.clear();
    for family in &mut status.families {
        family.iptables_version = "1.8.9".to_owned();
        for drift in &mut family.drift {
            drift.program = "iptables".to_owned();
        }
    }
    status.find_problems();
    let main = overview(&status, Audience::Others);
    let page = document(Audience::Others, "Node node1", &main).into_string();
    assert!(!page.contains(secret), "{page}");
    assert!(!page.contains("\"/services\""), "{page}");
    assert!(page.contains("Last failed restore") && page.contains("in quarantine: 3"));
}

#[tokio::test]
async fn a_page_allows_its_style_sheet_and_nothing_else() {
    let reply = page(StatusCode::OK, Audience::Node, "shop", &html! { "shop" });
    let policy = reply.headers()[CONTENT_SECURITY_POLICY]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
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
    assert_eq!(
        texts,
        [
            "0 s",
            "59 s",
            "1 min",
            "59 min",
            "1 h",
            "23 h 59 min",
            "1 d",
            "1 d 3 h"
        ]
    );
    let texts = [0.04, 9.96, 123.4, 12_345.6].map(milliseconds);
    assert_eq!(texts, ["0.0 ms", "10.0 ms", "123 ms", "12.3 s"]);
    let texts = [999, 1_000, 9_940_000, 31_200_000_000].map(bytes);
    assert_eq!(texts, ["999 B", "1.0 kB", "9.9 MB", "31.2 GB"]);
}
