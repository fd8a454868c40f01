//! Tests of `svg`.

use super::*;

#[test]
fn lines_break_at_blanks_and_in_words_that_are_too_long() {
    assert_eq!(wrapped("", 4), Vec::<String>::new());
    assert_eq!(wrapped("one two", 7), ["one two"]);
    assert_eq!(wrapped("one two", 6), ["one", "two"]);
    assert_eq!(wrapped("a longest one", 4), ["a", "long", "est", "one"]);
}
