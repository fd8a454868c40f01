//! Tests of `markdown`; `tests/golden/diff` has the output of the command.

use super::*;

#[test]
fn no_text_ends_a_cell_or_a_fence() {
    assert_eq!(
        escaped("a|b `c` *:80 <d> \u{1b}[31m[e]\u{1b}[0m"),
        r"a\|b \`c\` \*:80 \<d> \[e]"
    );
    assert_eq!(fence("-A X\n"), "```");
    assert_eq!(fence("-A X --comment ````\n"), "`````");
}
