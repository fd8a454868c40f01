//! Warns of rules that cannot be read, and says why and what is unknown because of them.
//!
//! They are not a failure, and they are not missing: the kernel has them.

use std::fmt::Display;

use crate::rules::{Rule, RuleSet, Table};

/// Warns of the rules that cannot be parsed.
pub(super) fn warn(origin: &impl Display, rules: &RuleSet) {
    if let Some(text) = warning(rules) {
        tracing::warn!("{origin}: {text}");
    }
}

fn warning(rules: &RuleSet) -> Option<String> {
    let unreadable: Vec<_> = rules.unparsed_rules().collect();
    let (table, chain, first) = unreadable.first()?;
    let count = unreadable.len();
    let mut text =
        format!("rules that cannot be parsed: {count}, the first in `{chain}` of {table}: {first}");
    if unreadable.iter().any(|(table, ..)| *table == Table::Nat) {
        text.push_str(
            "; their Services and endpoints are unknown, and unreferenced chains are not determined",
        );
    }
    let hint = unreadable.iter().find_map(|(_, _, rule)| hint(rule));
    if let Some(hint) = hint {
        text.push_str("\nhint: ");
        text.push_str(hint);
    }
    Some(text)
}

/// Returns what happened to the text of a rule, and what to do.
fn hint(rule: &Rule) -> Option<&'static str> {
    let text = rule.to_string();
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    match () {
        () if has(&[
            "\u{201c}", "\u{201d}", "\u{2018}", "\u{2019}", "&quot;", "&#34;",
        ]) =>
        {
            Some("save the dump as plain text: quotes were replaced by typographic ones or by HTML")
        }
        () if has(&["x.x", "XXX", "xxx", "***", "REDACTED", "redacted", "<"]) => Some(
            "keep the addresses, or replace them by other valid ones: some were made unreadable",
        ),
        () if !has(&[" -j ", " -g ", "-j "]) => {
            Some("save the dump without cutting lines: some end too early")
        }
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: &str, expected: &str) {
        let text = format!("*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES {rule}\nCOMMIT\n");
        let rules = RuleSet::parse(&text).unwrap();
        let warning = warning(&rules).unwrap();
        assert!(
            warning.contains("rules that cannot be parsed: 1"),
            "{warning}"
        );
        assert!(warning.contains("unreferenced chains are not determined"));
        let hint = warning.split_once("\nhint: ").map_or("", |(_, hint)| hint);
        assert!(
            hint.starts_with(expected) && hint.is_empty() == expected.is_empty(),
            "{warning}"
        );
    }

    #[test]
    fn the_cause_of_an_unreadable_rule_is_named() {
        let quotes = "save the dump as plain text";
        check(
            "-m comment --comment \u{201c}shop/web cluster IP\u{201d} -j X",
            quotes,
        );
        check("-m comment --comment \u{201c}shop/web\u{201d} -j X", quotes);
        check(
            "-m comment --comment &quot;shop/web cluster IP&quot; -j X",
            quotes,
        );
        check("-d x.x.x.x/32 -j X", "keep the addresses");
        check(
            "-d 10.96.0.1/32 -p tcp -m comment --comment \"shop/we",
            "save the dump without",
        );
        check("-d 10.96.0.1 20 -j X", "");
    }

    #[test]
    fn readable_rules_need_no_warning() {
        let text = "*nat\n-A OUTPUT -m comment --comment \"don\u{2019}t\" -j ACCEPT\nCOMMIT\n";
        assert_eq!(warning(&RuleSet::parse(text).unwrap()), None);
    }
}
