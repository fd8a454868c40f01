//! Tests of `reader`.

use std::marker::PhantomData;

use super::*;

/// Anchors in anchors: each keeps a copy of what is in it.
#[test]
fn nested_anchors_keep_a_limited_number_of_nodes() {
    let leaves = "x,".repeat(MAX_COPIED_NODES / 50);
    let text = |depth: usize| format!("{}{leaves}{}", "&a [".repeat(depth), "]".repeat(depth));
    for (depth, is_read) in [(40, true), (100, false)] {
        let text = text(depth);
        let mut reader = YamlReader::new(&text);
        let read = reader.next_document(PhantomData::<Value>);
        assert_eq!(read.is_ok(), is_read, "{depth}");
        let kept: usize = reader.anchors.values().map(nodes).sum();
        assert!(kept <= MAX_COPIED_NODES, "{kept}");
    }
}

/// Aliases in anchors: each adds a hundred levels to the last one. Deep values would overflow
/// the stack.
#[test]
fn aliases_do_not_nest_deeper_than_text() {
    let nested = |last: &str| format!("{}{last}{}", "[".repeat(100), "]".repeat(100));
    for (lines, is_read) in [(1, true), (2, false), (60, false)] {
        let mut text = "a0: &a0 1\n".to_owned();
        for line in 1..=lines {
            let nested = nested(&format!("*a{}", line - 1));
            text.extend([
                "a",
                &line.to_string(),
                ": &a",
                &line.to_string(),
                " ",
                &nested,
                "\n",
            ]);
        }
        let read = YamlReader::new(&text).next_document(PhantomData::<Value>);
        assert_eq!(read.is_ok(), is_read, "{lines}");
    }
}
