//! Shares of endpoints in the rules of a Service.

use super::*;

#[track_caller]
fn check(position: usize, of: usize, expected: &str) {
    let shown = EvenShare::at(position, of).map(|share| share.to_string());
    assert_eq!(shown.as_deref().unwrap_or("always"), expected);
}

#[test]
fn shares_are_even_and_have_ten_decimals() {
    check(0, 1, "always");
    check(0, 2, "0.5000000000");
    check(0, 3, "0.3333333333");
    check(1, 3, "0.5000000000");
    check(2, 3, "always");
    check(0, 6, "0.1666666667");
    check(0, 7, "0.1428571429");
}
