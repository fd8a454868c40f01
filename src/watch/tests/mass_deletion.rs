//! Tests of `mass_deletion`.

use super::*;

#[track_caller]
fn check(deletion: Option<MassDeletion>, expected: Option<(usize, usize)>) {
    let found = deletion.map(|deletion| (deletion.before, deletion.after));
    assert_eq!(found, expected);
}

#[test]
fn a_list_of_less_than_half_is_a_mass_deletion() {
    let now = Instant::now();
    for (before, after, is_mass) in [
        (0, 0, false),
        (1, 0, false),
        (2, 0, true),
        (12, 4, false),
        (20, 10, false),
        (20, 9, true),
        (5000, 0, true),
        (5000, 6000, false),
    ] {
        let mut count = ObjectCount::default();
        check(count.listed(before, now), None);
        let expected = is_mass.then_some((before, after));
        check(count.listed(after, now), expected);
        check(count.listed(after, now), None);
    }
}

#[test]
fn single_deletions_within_a_minute_are_a_mass_deletion() {
    let mut now = Instant::now();
    let mut count = ObjectCount::default();
    count.listed(100, now);
    let deletions = (0..100).filter_map(|_| count.deleted(now));
    let deletions: Vec<_> = deletions
        .map(|deletion| (deletion.before, deletion.after))
        .collect();
    assert_eq!(deletions, [(100, 49), (49, 24), (24, 11), (11, 1)]);
    for _ in 0..100 {
        count.added(now);
    }
    for _ in 0..60 {
        now += DELETION_WINDOW / 30;
        check(count.deleted(now), None);
    }
}
