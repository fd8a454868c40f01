//! Texts that other programs wrote: listings, dumps and payloads of rules, addresses.
//!
//! Each goes through several modules.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use deltaproxy::testing::inspect::catalog::Catalog;
use deltaproxy::testing::net::{IpFamily, Protocol, parse_cidr, parse_ip};
use deltaproxy::testing::render::{LiveChains, LiveRules, guarded_chains, has_desired_rules};
use deltaproxy::testing::rules::{BridgePort, Match, Packet, RuleSet, Table, TracedNode, trace};
use proptest::prelude::*;

use crate::cluster::upstream_options;
use crate::support::hostile::{cases, mutated, mutated_text};

/// Lines of dumps and payloads of all kinds, a few dozen at a time: one mutation in thousands of
/// lines would mostly hit the same kind.
fn samples() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut files: Vec<_> = ["dumps", "golden", "explain"]
        .iter()
        .flat_map(|folder| fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let is_rules = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("restore-") || path.extension().is_some_and(|end| end == "save")
    };
    let mut samples = Vec::new();
    for path in files.iter().filter(|path| is_rules(path)) {
        let text = fs::read_to_string(path).unwrap();
        for table in text.split_inclusive("COMMIT\n") {
            let lines: Vec<&str> = table.lines().collect();
            let head = lines
                .iter()
                .find(|line| line.starts_with('*'))
                .unwrap_or(&"*nat");
            for some in lines.chunks(12) {
                let some = some
                    .iter()
                    .filter(|line| !line.starts_with('*') && **line != "COMMIT");
                let body: Vec<&str> = some.copied().collect();
                samples.push(format!("{head}\n{}\nCOMMIT\n", body.join("\n")).into_bytes());
            }
        }
    }
    assert!(samples.len() > 60, "{}", samples.len());
    samples
}

fn texts() -> impl Strategy<Value = String> {
    mutated(samples()).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Everything that is checked of rules, whichever program wrote them.
fn is_looked_at(rules: &RuleSet) {
    let _ = Catalog::read(rules);
    for (source, destination) in [("10.0.0.2", "10.96.0.10"), ("fd00::2", "fd00:10:96::a")] {
        let packet = Packet {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol: Protocol::Udp,
            port: 53.try_into().unwrap(),
            in_interface: None,
            bridge_port: BridgePort::None,
        };
        let traced_node = TracedNode {
            addresses: [source.parse().unwrap()].into(),
            ..TracedNode::default()
        };
        let _ = trace(rules, &packet, &traced_node);
    }
}

/// Whether each option of each rule belongs to a match or a target. Another one may belong to
/// another match in another place.
fn is_known(rules: &RuleSet) -> bool {
    let chains = Table::ALL.into_iter().flat_map(|table| rules.chains(table));
    let mut matches = chains
        .flat_map(|(_, chain)| &chain.rules)
        .flat_map(|rule| &rule.matches);
    !matches.any(|one| matches!(one, Match::Other(extension) if extension.name.is_empty()))
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn any_dump_is_rules_or_an_error(text in texts()) {
        if let Ok(rules) = RuleSet::parse(&text) {
            let saved = rules.to_save_text();
            // Tables that are not modelled are counted, and not printed.
            let again = RuleSet::parse(&saved);
            prop_assert!(again.is_ok(), "{again:?}: {saved}");
            if is_known(&rules) {
                prop_assert_eq!(again.unwrap().to_save_text(), saved);
            }
            is_looked_at(&rules);
        }
    }

    #[test]
    fn any_payload_is_taken_whole_or_not_at_all(before in texts(), text in texts()) {
        let mut rules = RuleSet::parse(&before).unwrap_or_default();
        let untouched = rules.clone();
        match rules.apply(&text) {
            Ok(()) => is_looked_at(&rules),
            Err(refused) => {
                prop_assert!(refused.line <= text.lines().count() + 1);
                let mut above = text.lines().take(refused.line.saturating_sub(1));
                let is_first = !above.any(|line| line.trim() == "COMMIT");
                prop_assert!(!is_first || rules == untouched, "{refused:?}");
            }
        }
    }

    #[test]
    fn any_listing_is_noted(text in texts()) {
        for table in Table::ALL {
            let (mut live, mut found) = (LiveChains::default(), LiveRules::of_chains());
            live.read_table(table, &text);
            text.lines().for_each(|line| found.read_line(table, line));
            for family in IpFamily::ALL {
                let options = upstream_options(family);
                let _ = (has_desired_rules(table, &text, &options), guarded_chains(table, &options));
            }
        }
    }
}

/// Spellings that count, and neighbors of them.
const SPELLINGS: [&str; 10] = [
    "10.96.0.1",
    "255.255.255.255",
    "0.0.0.0/0",
    "10.0.0.0/8",
    "::",
    "fd00:10:96::a",
    "::ffff:10.0.0.1",
    "1:2:3:4:5:6:7:8",
    "fd00::/64",
    "::ffff:10.0.0.0/104",
];

proptest! {
    #![proptest_config(cases(20_000))]

    /// The standard library knows all spellings but those with leading zeros.
    #[test]
    fn addresses_are_those_of_the_standard_library(text in mutated_text(&SPELLINGS)) {
        let plain: Vec<String> = text.split('.').map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0".to_owned(),
            rest => rest.to_owned(),
        }).collect();
        let spelled = if text.contains(':') { text.clone() } else { plain.join(".") };
        let reference = spelled.parse().ok();
        prop_assert_eq!(parse_ip(&text), reference.map(|ip: IpAddr| ip.to_canonical()), "{}", text);
        if let Some(ip) = parse_ip(&text) {
            prop_assert_eq!(parse_ip(&ip.to_string()), Some(ip));
        }
        if let Some(net) = parse_cidr(&text) {
            prop_assert_eq!(parse_cidr(&net.to_string()), Some(net));
            prop_assert_eq!(net, net.trunc());
        }
    }
}
