//! Tests of completion.

use super::*;

#[track_caller]
fn check(words: &[&str], expected: &[&str]) {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let text = candidates(&words);
    let lines = text.lines().map(|line| line.split('\t').next().unwrap());
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[test]
fn words_are_completed_by_what_may_follow() {
    check(&["s"], &["status", "shadow-report", "services", ":4"]);
    check(&["r"], &["render", ":4"]);
    check(&["-n", "shop", "exp"], &["explain", ":4"]);
    check(&["services", "--no-"], &["--no-headers", ":4"]);
    check(
        &["services", "-o", ""],
        &["table", "wide", "name", "json", "yaml", ":4"],
    );
    check(&["services", "--node", ""], &[":4"]);
    check(
        &["services", "-n", "shop", "--all-n"],
        &["--all-namespaces", "--all-nodes", ":4"],
    );
}
