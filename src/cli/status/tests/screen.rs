//! Screens of nodes: well, failing, with a disabled family, of another version.

use super::*;
use crate::cli::status::StatusPage;
use crate::cli::terminal::escaped;
use crate::hostile::{WORDS, acts_on_a_terminal, everywhere};
use crate::status::sample::{failing_node, family, node};

/// Returns the screen, whose lines fit on one.
fn screen(status: &StatusDocument) -> String {
    let text = text(status);
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH, "{line}");
        assert_eq!(line, line.trim_end());
    }
    text
}

#[test]
fn a_node_that_is_well() {
    let status = node(vec![family("IPv4"), family("IPv6")]);
    assert!(status.is_well());
    assert_eq!(screen(&status), include_str!("well.txt"));
}

#[test]
fn a_node_that_fails_shows_failures_first() {
    let status = failing_node();
    assert!(!status.is_well());
    assert_eq!(screen(&status), include_str!("failing.txt"));
}

#[test]
fn texts_of_a_daemon_are_harmless_to_a_terminal() {
    let sample = failing_node();
    let long = "<script>".repeat(10_000);
    for text in WORDS.iter().copied().chain([&*long]) {
        let page = serde_json::to_string(&everywhere(&sample, text)).unwrap();
        let page = StatusPage::parse(page);
        // Without a version, it is not that of deltaproxy.
        let Ok(page) = page else {
            continue;
        };
        for shown in [&*super::text(&page.document), &*escaped(&page.text)] {
            assert!(!acts_on_a_terminal(shown), "{text:?}: {shown:?}");
        }
    }
}

#[test]
fn a_disabled_family_has_no_state() {
    let mut disabled = FamilyStatus {
        is_disabled: true,
        ..FamilyStatus::default()
    };
    disabled.family = "IPv6".to_owned();
    let mut legacy = family("IPv4");
    legacy.backend = "legacy".to_owned();
    legacy.verification = None;
    legacy.last_partial = None;
    let text = screen(&node(vec![legacy, disabled]));
    assert_eq!(text, include_str!("disabled.txt"));
}

#[test]
fn another_version_may_have_other_fields() {
    let document = r#"{
        "version": "9.0.0",
        "new": {"a": 1},
        "problems": [{"summary": "something new", "severity": "low"}],
        "families": [{"family": "IPv4", "backend": "nft", "new": [1]}]
    }"#;
    let status: StatusDocument = serde_json::from_str(document).unwrap();
    assert_eq!(screen(&status), include_str!("other_version.txt"));
}
