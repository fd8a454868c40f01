//! Tests of `reader`.

use super::*;

/// Anchors in anchors: each keeps a copy of what is in it.
#[test]
fn nested_anchors_keep_a_limited_number_of_nodes() {
    let leaves = "x,".repeat(MAX_COPIED_NODES / 50);
    let text = |depth: usize| format!("{}{leaves}{}", "&a [".repeat(depth), "]".repeat(depth));
    for (depth, is_read) in [(40, true), (100, false)] {
        let text = text(depth);
        let mut reader = YamlReader::new(&text, 0, false);
        let read = reader.read();
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
        let read = YamlReader::new(&text, 0, false).read();
        assert_eq!(read.is_ok(), is_read, "{lines}");
    }
}

#[test]
fn long_texts_count_for_several_nodes() {
    let long = "x".repeat(10 * NODE_BYTES);
    assert_eq!(nodes(&serde_json::json!([1, "a", {"b": null}])), 5);
    assert_eq!(nodes(&serde_json::json!([long])), 12);
    assert_eq!(nodes(&serde_json::json!({long: 1})), 12);
}

/// Lines of keys, and of the beginnings of items.
#[test]
fn lines_and_the_first_repeated_key_are_found() {
    let text = "a:\n  b:\n    - c: 1\n    -\n      c: 2\n  b: {}\nb: 3\nb: 4\n";
    let document = YamlReader::new(text, 10, true).read().unwrap().unwrap();
    let mut lines: Vec<_> = document.lines.into_iter().collect();
    lines.sort();
    let expected = [
        ("", 11),
        ("a", 11),
        ("a.b", 16),
        ("a.b[0]", 13),
        ("a.b[0].c", 13),
        ("a.b[1]", 15),
        ("a.b[1].c", 15),
        ("b", 18),
    ];
    assert_eq!(lines, expected.map(|(path, line)| (path.to_owned(), line)));
    let key = "b".to_owned();
    assert_eq!(document.repeated, Some(RepeatedKey { line: 16, key }));
    let merged = "a: &a {b: 1}\nc: {<<: *a, b: 2}\n";
    let document = YamlReader::new(merged, 0, false).read().unwrap().unwrap();
    assert_eq!((document.repeated, document.lines.len()), (None, 0));
}
