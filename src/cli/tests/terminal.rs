//! Tests of `terminal`.

use super::*;

#[test]
fn what_a_terminal_acts_on_is_escaped() {
    assert_eq!(escaped("a\tb\né"), "a\tb\né");
    assert_eq!(escaped("\u{1b}[31m\rx\u{9b}"), "\\u{1b}[31m\\rx\\u{9b}");
    assert_eq!(escaped("\u{202e}txt"), "\\u{202e}txt");
}
