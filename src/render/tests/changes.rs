//! Edits of a dispatch chain, checked by applying them as `iptables-restore` does.

use super::*;

/// Applies the edits; returns their number and the chain.
fn edited(applied: &str, wanted: &str) -> (usize, String) {
    let mut chain: Vec<char> = applied.chars().collect();
    let (removed, added) = fewest_edits(&chain, &wanted.chars().collect::<Vec<_>>());
    for rule in &removed {
        let at = chain.iter().position(|applied| applied == rule).unwrap();
        chain.remove(at);
    }
    for rule in added.iter().rev() {
        chain.insert(0, *rule);
    }
    (removed.len() + added.len(), chain.into_iter().collect())
}

#[test]
fn edits_end_in_the_wanted_order() {
    let lists = [
        "", "a", "b", "ab", "ba", "aba", "aab", "abc", "cab", "acba", "bb", "abcab",
    ];
    for applied in lists {
        for wanted in lists {
            assert_eq!(edited(applied, wanted).1, wanted, "{applied} -> {wanted}");
        }
    }
}

#[test]
fn rules_that_can_stay_are_not_edited() {
    assert_eq!(edited("bc", "abc").0, 1);
    assert_eq!(edited("abc", "bc").0, 1);
    assert_eq!(edited("abc", "ac").0, 1);
    assert_eq!(edited("abc", "abc").0, 0);
    assert_eq!(edited("bc", "bac").0, 3);
}
