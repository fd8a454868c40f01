//! Tests of `edit`.

use super::*;

#[track_caller]
fn check(live: &str, desired: &str, expected: &str) {
    let (live, desired): (Vec<char>, Vec<char>) =
        (live.chars().collect(), desired.chars().collect());
    let shown: Vec<String> = edits(&live, &desired)
        .into_iter()
        .map(|edit| match edit {
            Edit::Kept(c) => format!("{c}"),
            Edit::Removed(c) => format!("-{c}"),
            Edit::Added(c) => format!("+{c}"),
        })
        .collect();
    assert_eq!(shown.join(" "), expected);
}

#[test]
fn the_edit_script_is_the_shortest() {
    check("", "", "");
    check("abc", "abc", "a b c");
    check("abc", "ac", "a -b c");
    check("ac", "abc", "a +b c");
    check("ab", "ba", "+b a -b");
    check("abcd", "axcy", "a -b +x c -d +y");
    check("a", "", "-a");
    check("", "a", "+a");
}
