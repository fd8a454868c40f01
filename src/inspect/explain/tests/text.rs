//! Tests of `text`.

use super::*;

#[test]
fn long_numbers_are_in_groups_of_three_digits() {
    let numbers = [0, 999, 1_000, 98_765, 1_234_567].map(grouped);
    assert_eq!(numbers, ["0", "999", "1,000", "98,765", "1,234,567"]);
}
