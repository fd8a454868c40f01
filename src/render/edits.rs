//! Which rules of a shared chain to remove and which to put on top, so that those of one service
//! port end in their order.
//!
//! Apart from [`changes`](super::changes) because it knows nothing of rules but whether two are
//! equal, and is easily got wrong.

/// Which of the rules that are held to remove, and which of the wanted ones to put on top.
///
/// A deletion takes the first rule of its text. Where one of two equal rules is to go, that might
/// be the one to stay, so all of the place go and come again.
pub(super) fn edits<T: PartialEq + Clone>(held: Vec<T>, wanted: Vec<T>) -> (Vec<T>, Vec<T>) {
    let (mut removed, mut added) = (held.clone(), wanted.clone());
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
    if removed.iter().any(|rule| stays.contains(rule)) {
        return (held, wanted);
    }
    (removed, added)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a chain holds once the edits are made as a restore program makes them.
    fn edited(held: &str, wanted: &str) -> (usize, String) {
        let (removed, added) = edits(held.chars().collect(), wanted.chars().collect());
        let mut chain: Vec<char> = held.chars().collect();
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
