//! Text and JSON of results.

use super::{CheckGroup, CheckReport, CheckResult};

fn report() -> CheckReport {
    CheckReport::new(vec![
        CheckGroup::new(
            "programs",
            vec![
                CheckResult::ok("IPv4: iptables 1.8.9 (nft)"),
                CheckResult::warning("kube-router runs", "stop it", "deploy/docs/replace.md"),
            ],
        ),
        CheckGroup::new(
            "cluster",
            vec![
                CheckResult::skipped("no cluster", ""),
                CheckResult::failed("no Node `a\u{1b}[2J\n  ok   b`", "set a name", ""),
            ],
        ),
    ])
}

#[test]
fn text_has_a_mark_per_line_and_counts() {
    let plain = anstream::adapter::strip_str(&report().text()).to_string();
    assert_eq!(
        plain,
        "programs
  ok   IPv4: iptables 1.8.9 (nft)
  WARN kube-router runs
       hint: stop it
       see: deploy/docs/replace.md

cluster
  skip no cluster
  FAIL no Node `a\\u{1b}[2J\\n  ok   b`
       hint: set a name

1 failed, 1 warning, 1 ok, 1 skipped
"
    );
}

#[test]
fn only_failures_fail() {
    assert!(!report().is_passed());
    let group = CheckGroup::new(
        "x",
        vec![CheckResult::warning("w", "h", ""), CheckResult::ok("o")],
    );
    assert!(CheckReport::new(vec![group]).is_passed());
}

#[test]
fn json_has_all_and_no_control_characters() {
    let json = report().json();
    assert!(!json.contains('\u{1b}'), "{json}");
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["groups"][0]["checks"][1]["status"], "warning");
    assert_eq!(value["groups"][1]["checks"][1]["hint"], "set a name");
    assert_eq!(value["groups"][0]["checks"][0].get("hint"), None);
}

#[test]
fn the_hint_of_an_error_is_apart() {
    let check = CheckResult::error(&"cannot start `iptables`\nhint: install it", "page");
    assert_eq!(
        check,
        CheckResult::failed("cannot start `iptables`", "install it", "page")
    );
}
