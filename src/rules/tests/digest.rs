//! Digests against parsed rules: those of equal rules are equal, and no others. The tests of rules
//! compare the digests of spellings as well.

use std::collections::BTreeMap;

use super::*;

/// Digest of a chain with this rule.
fn digest_of(rule: &str) -> RulesDigest {
    let mut hasher = RulesHasher::default();
    let of_rule = hasher.add(rule);
    assert_eq!(of_rule, hasher.finish());
    of_rule
}

/// Rules as written, and as both backends print them.
const RULES: [&str; 11] = [
    include_str!("saves/v4.payload"),
    include_str!("saves/v4.legacy"),
    include_str!("saves/v4.nft"),
    include_str!("saves/v6.payload"),
    include_str!("saves/v6.legacy"),
    include_str!("saves/v6.nft"),
    include_str!("../../../tests/dumps/extensions-1.8.9-nft-v4.save"),
    include_str!("../../../tests/dumps/extensions-1.8.9-legacy-v6.save"),
    include_str!("../../../tests/dumps/foreign-v4.save"),
    include_str!("../../../tests/dumps/kube-proxy-1.23-v6.save"),
    include_str!("../../../tests/dumps/kube-proxy-1.29-v4.save"),
];

fn rules() -> impl Iterator<Item = &'static str> {
    let lines = RULES.iter().flat_map(|text| text.lines());
    let rules = lines.filter_map(|line| line.strip_prefix("-A "));
    rules.filter_map(|rule| Some(rule.split_once(' ')?.1))
}

#[test]
fn equal_rules_have_equal_digests_and_others_have_not() {
    let (mut by_rule, mut by_digest) = (BTreeMap::new(), BTreeMap::new());
    let mut count = 0;
    for text in rules() {
        let Ok(rule) = text.parse::<Rule>() else {
            continue;
        };
        count += 1;
        let RulesDigest(digest) = digest_of(text);
        assert_eq!(
            *by_rule.entry(rule.clone()).or_insert(digest),
            digest,
            "{text}"
        );
        assert_eq!(*by_digest.entry(digest).or_insert(rule.clone()), rule);
        assert_eq!(digest_of(&rule.to_string()), RulesDigest(digest));
    }
    assert!(count > 150 && by_rule.len() < count, "{count}");
}

/// In each rule, one word at a time is changed, repeated, negated or removed.
#[test]
fn a_changed_rule_has_another_digest() {
    for text in rules() {
        let words: Vec<&str> = text.split(' ').collect();
        for at in 0..words.len() {
            for how in 0..4 {
                let mut changed: Vec<String> = words.iter().map(|word| (*word).into()).collect();
                match how {
                    0 => drop(changed.remove(at)),
                    1 => changed.insert(at, words[at].into()),
                    2 => changed[at].push('1'),
                    _ => changed.insert(at, "!".into()),
                }
                let changed = changed.join(" ");
                let (one, other) = (text.parse::<Rule>(), changed.parse::<Rule>());
                let is_same = one.is_ok() && one.ok() == other.ok();
                let digest = digest_of(&changed);
                let is_same_digest = digest.is_known() && digest == digest_of(text);
                assert_eq!(is_same_digest, is_same, "{text}\n{changed}");
            }
        }
    }
}

#[test]
fn rules_that_cannot_be_parsed_are_unknown_and_their_order_matters() {
    assert!(!digest_of("-j \"A").is_known());
    assert!(!RulesDigest::UNKNOWN.is_same(RulesDigest::UNKNOWN));
    assert!(!RulesDigest::of_lines("-A X -j A\n-A X -d\n").is_known());
    assert!(RulesDigest::of_lines("").is_known());
    let digests = [
        "",
        "-A X -j A\n",
        "-A X -j A\n-A X -j B\n",
        "-A X -j B\n-A X -j A\n",
    ];
    let digests: Vec<_> = digests.into_iter().map(RulesDigest::of_lines).collect();
    for (at, digest) in digests.iter().enumerate() {
        assert!(!digests[..at].contains(digest));
    }
}
