//! Tests of `chains`.

use super::*;

#[track_caller]
fn check(remaining: usize, expected: &str) {
    let mut rule = Vec::new();
    if let Some(share) = even_share(remaining) {
        RuleWriter::new(&mut rule).probability(share).end();
    }
    let rule = String::from_utf8(rule).unwrap();
    let written = rule.trim_end().rsplit(' ').next();
    assert_eq!(written.unwrap_or_default(), expected);
}

#[test]
fn shares_are_even_and_have_ten_decimals() {
    check(1, "");
    check(2, "0.5000000000");
    check(3, "0.3333333333");
    check(6, "0.1666666667");
    check(7, "0.1428571429");
}
