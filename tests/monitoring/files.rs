//! Rules, their tests, docs and dashboards, without a Prometheus.
//!
//! `UPDATE_GOLDEN=1` writes `prometheus-rule.yaml`, and the dashboards with sorted keys.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::process::run;
use crate::support::{Need, has_program, machine_has};

pub(super) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/monitoring");
pub(super) const DASHBOARDS: [&str; 2] = ["fleet.json", "node.json"];
const PAGE: &str = include_str!("../../deploy/docs/alerts.md");

pub(super) fn text(name: &str) -> String {
    fs::read_to_string(format!("{FOLDER}/{name}")).unwrap()
}

pub(super) fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&text(name)).unwrap()
}

/// The alerts of `rules.yaml`.
pub(super) fn alerts() -> Vec<Value> {
    let rules = yaml("rules.yaml");
    let groups = rules["groups"].as_array().unwrap();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    rules.cloned().collect()
}

pub(super) fn name(alert: &Value) -> &str {
    alert["alert"].as_str().unwrap()
}

/// Compares a file with its text as it should be, or writes it.
#[track_caller]
fn is_golden(name: &str, expected: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(format!("{FOLDER}/{name}"), expected).unwrap();
    }
    assert_eq!(text(name), expected, "UPDATE_GOLDEN=1 writes {name}");
}

#[test]
fn the_rule_of_the_operator_has_the_rules() {
    let rules = text("rules.yaml");
    let (_, groups) = rules.split_once("\ngroups:\n").unwrap();
    let mut object = "\
        # Generated from rules.yaml: `UPDATE_GOLDEN=1 cargo test --test all monitoring::files`.\n\
        apiVersion: monitoring.coreos.com/v1\n\
        kind: PrometheusRule\n\
        metadata:\n  name: deltaproxy\n  namespace: kube-system\n  labels:\n    k8s-app: deltaproxy\n\
        spec:\n  groups:\n"
        .to_owned();
    for line in groups.lines() {
        object.extend(["  ", line, "\n"]);
    }
    is_golden("prometheus-rule.yaml", &object);
    assert_eq!(
        yaml("prometheus-rule.yaml")["spec"]["groups"],
        yaml("rules.yaml")["groups"]
    );
}

#[test]
fn alerts_have_what_an_operator_needs() {
    let alerts = alerts();
    assert!(alerts.len() > 15);
    for alert in &alerts {
        let name = name(alert);
        assert!(name.starts_with("Deltaproxy"), "{name}");
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(
            ["critical", "warning", "info"].contains(&severity),
            "{name}"
        );
        // A window over counts has the effect of `for`.
        let expr = alert["expr"].as_str().unwrap();
        let is_window = expr.starts_with("increase(");
        assert!(is_window || alert["for"].is_string(), "{name}");
        let annotations = alert["annotations"].as_object().unwrap();
        let known: Vec<_> = annotations.keys().map(String::as_str).collect();
        assert_eq!(known, ["description", "runbook_url", "summary"], "{name}");
        let anchor = format!("/deploy/docs/alerts.md#{}", name.to_lowercase());
        let url = annotations["runbook_url"].as_str().unwrap();
        assert!(url.ends_with(&anchor), "{url}");
    }
}

/// One section for each alert, and none for others, in the order of the rules.
#[test]
fn each_alert_has_a_section() {
    let headings = PAGE.lines().filter_map(|line| line.strip_prefix("## "));
    let sections: Vec<_> = headings
        .filter(|heading| heading.starts_with("Deltaproxy"))
        .collect();
    let alerts = alerts();
    assert_eq!(sections, alerts.iter().map(name).collect::<Vec<_>>());
    for section in PAGE.split("\n## Deltaproxy").skip(1) {
        let title = section.lines().next().unwrap();
        for part in ["**First command**", "**Worry**"] {
            assert!(section.contains(part), "Deltaproxy{title}: no {part}");
        }
    }
}

/// Names of the alerts with a case in which they fire, or of those with a quiet one.
fn tested(fires: bool) -> BTreeSet<String> {
    let tests = yaml("rules.test.yaml");
    let cases = tests["tests"].as_array().unwrap().iter();
    let cases = cases.flat_map(|test| test["alert_rule_test"].as_array().unwrap());
    let of_kind = cases.filter(|case| case["exp_alerts"].is_array() == fires);
    of_kind
        .map(|case| case["alertname"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_alert_is_tested_to_fire_and_to_be_quiet() {
    let all: BTreeSet<_> = alerts()
        .iter()
        .map(|alert| name(alert).to_owned())
        .collect();
    assert_eq!(tested(true), all);
    assert_eq!(tested(false), all);
}

#[test]
fn alerts_pass_their_tests() {
    if !machine_has(Need::Kernel) || !has_program("promtool") {
        return;
    }
    let promtool = |args: &[&str]| {
        let mut command = Command::new("promtool");
        run(command.current_dir(FOLDER).args(args))
    };
    let checked = promtool(&["check", "rules", "--lint-fatal", "rules.yaml"]);
    assert!(checked.contains("SUCCESS"), "{checked}");
    let tested = promtool(&["test", "rules", "rules.test.yaml"]);
    assert!(tested.contains("SUCCESS"), "{tested}");
}

/// A panel of a dashboard, except rows.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) queries: Vec<String>,
}

/// The panels of a dashboard.
pub(super) fn panels(file: &str) -> Vec<Panel> {
    let dashboard: Value = serde_json::from_str(&text(file)).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let panels = panels.filter(|panel| panel["type"] != "row");
    let panels = panels.map(|panel| {
        let field = |name: &str| panel[name].as_str().unwrap_or_default();
        let unit = &panel["fieldConfig"]["defaults"]["unit"];
        let title = field("title").to_owned();
        assert!(unit.is_string(), "{title}");
        assert!(field("description").ends_with('.'), "{title}");
        let targets = panel["targets"].as_array().unwrap().iter();
        let queries = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
        let queries = queries.collect();
        Panel { title, queries }
    });
    panels.collect()
}

/// Links lead from a node of one dashboard to the other.
#[test]
fn dashboards_link_to_each_other() {
    let texts = DASHBOARDS.map(text);
    let uid =
        |text: &String| -> Value { serde_json::from_str::<Value>(text).unwrap()["uid"].clone() };
    let uids = texts.each_ref().map(uid);
    let links = texts.iter().flat_map(|text| text.split("\"/d/").skip(1));
    let targets = links.map(|link| link.split(['?', '"']).next().unwrap());
    let targets: BTreeSet<_> = targets.collect();
    let known: BTreeSet<_> = uids.iter().map(|uid| uid.as_str().unwrap()).collect();
    assert_eq!(targets, known);
}

#[test]
fn dashboards_are_stable_and_complete() {
    for name in DASHBOARDS {
        let dashboard: Value = serde_json::from_str(&text(name)).unwrap();
        let mut sorted = serde_json::to_string_pretty(&dashboard).unwrap();
        sorted.push('\n');
        is_golden(name, &sorted);
        let panels = panels(name);
        let titles: BTreeSet<_> = panels.iter().map(|panel| &panel.title).collect();
        assert_eq!(titles.len(), panels.len(), "{name}: a title twice");
        let mut queries = panels.iter().flat_map(|panel| &panel.queries);
        let selects = |query: &String| {
            let selectors = query.matches(['{']).count();
            let jobs = query.matches("job=~\"$job\"").count();
            let alerts = query.matches("ALERTS{").count();
            jobs + alerts == selectors && selectors > 0
        };
        let odd = queries.find(|query| !selects(query));
        assert_eq!(odd, None, "{name}: each metric is of the job");
    }
}
