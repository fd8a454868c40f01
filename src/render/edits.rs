//! Fewest edits that bring the rules of one service port in a shared chain into their order.
//!
//! Kept separate from [`changes`](super::changes) because only the equality of rules matters here,
//! and it is easily got wrong.

use std::hash::Hash;

use hashbrown::HashSet;

/// Finds the rules to remove, and those to put on top. Linear in the number of rules: a Service
/// may have 90,000 external IPs.
///
/// A deletion takes the first rule of its text. Where one of two equal rules is to go, that might
/// be the one to stay, so all of the place go and come again.
pub(super) fn edits<T: Eq + Hash + Copy>(held: &[T], wanted: &[T]) -> (Vec<T>, Vec<T>) {
    if held == wanted {
        return (Vec::new(), Vec::new());
    }
    let (mut removed, mut added) = (held.to_vec(), wanted.to_vec());
    let mut behind = Vec::new();
    while let Some(last) = added.last() {
        let Some(at) = removed.iter().rposition(|rule| rule == last) else {
            break;
        };
        behind.extend(removed.drain(at..).skip(1));
        added.pop();
    }
    removed.append(&mut behind);
    let stays = wanted.get(added.len()..).unwrap_or_default();
    if has_any(stays, &removed) {
        return (held.to_vec(), wanted.to_vec());
    }
    (removed, added)
}

/// Reports whether any of `rules` is among these.
fn has_any<T: Eq + Hash>(these: &[T], rules: &[T]) -> bool {
    if these.is_empty() || rules.is_empty() {
        return false;
    }
    let these: HashSet<&T> = these.iter().collect();
    rules.iter().any(|rule| these.contains(rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a chain holds once the edits are made as a restore program makes them.
    fn edited(held: &str, wanted: &str) -> (usize, String) {
        let mut chain: Vec<char> = held.chars().collect();
        let (removed, added) = edits(&chain, &wanted.chars().collect::<Vec<_>>());
        for rule in &removed {
            let at = chain.iter().position(|held| held == rule).unwrap();
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
        for held in lists {
            for wanted in lists {
                assert_eq!(edited(held, wanted).1, wanted, "{held} -> {wanted}");
            }
        }
    }

    #[test]
    fn what_can_stay_stays() {
        assert_eq!(edited("bc", "abc").0, 1);
        assert_eq!(edited("abc", "bc").0, 1);
        assert_eq!(edited("abc", "ac").0, 1);
        assert_eq!(edited("abc", "abc").0, 0);
        assert_eq!(edited("bc", "bac").0, 3);
    }
}
