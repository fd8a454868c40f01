//! Tests of `yaml`.

use serde_json::json;
use serde_saphyr::DuplicateKeyPolicy;

use super::*;

/// If this fails, `serde-saphyr` may replace this reader: compare it with `tests/yaml`.
#[test]
fn the_yaml_library_still_reads_another_dialect() {
    for (text, expected) in [
        ("a: 'b\nc'", json!({"a": "b c"})),
        ("a: {\n\tb: 1}", json!({"a": {"b": 1}})),
        ("yes: 1", json!({"true": 1})),
        ("a: 1_", json!({"a": 1})),
    ] {
        let options = serde_saphyr::options! {
            duplicate_keys: DuplicateKeyPolicy::LastWins,
            legacy_octal_numbers: true,
            strict_booleans: false,
            strict_indentation: false,
        };
        let read = serde_saphyr::from_str_with_options::<Value>(text, options);
        assert_ne!(read.ok().as_ref(), Some(&expected), "{text}");
        let own = DocumentText::new(1, text).read(false).unwrap();
        assert_eq!(own.map(|own| own.value), Some(expected), "{text}");
    }
}

fn lines(text: &str) -> Vec<(u64, String)> {
    let documents = divide(text);
    documents
        .map(|one| (one.first_line, one.text.into_owned()))
        .collect()
}

#[test]
fn documents_are_divided_at_separators() {
    let text = "a\n---\nb\n--- # c\n--- d\n----\n---";
    let expected = [(1, "a\n"), (3, "b\n"), (5, "--- d\n----\n"), (8, "")];
    assert_eq!(
        lines(text),
        expected.map(|(line, text)| (line, text.to_owned()))
    );
    assert_eq!(lines(""), [(1, String::new())]);
    assert_eq!(
        lines("---\r\na: 1\r\n"),
        [(1, String::new()), (2, "a: 1\r\n".to_owned())]
    );
}

#[test]
fn text_may_be_utf_16() {
    let units = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    };
    assert_eq!(
        decode(&units("\u{feff}aé", u16::to_le_bytes)).unwrap(),
        "aé"
    );
    assert_eq!(
        decode(&units("\u{feff}aé", u16::to_be_bytes)).unwrap(),
        "aé"
    );
    assert_eq!(decode("\u{feff}aé".as_bytes()).unwrap(), "aé");
    assert_eq!(decode(b"a\xff"), None);
}

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

#[track_caller]
fn check(text: &str, expected: impl Into<Value>) {
    assert_eq!(plain(text.to_owned()), expected.into(), "{text}");
}

#[test]
fn numbers_are_those_of_yaml_1_1() {
    let texts = "80|+80|0120|0x50|0b1010000|0o120|8_0|80.0|8e1";
    for text in texts.split('|') {
        check(text, 80);
    }
    check("0", 0);
    check("-0x10", -16);
    check("18446744073709551615", u64::MAX);
    check("1.5", 1.5);
    check(".5", 0.5);
    check("-.5", -0.5);
}

#[test]
fn text_that_resembles_a_number_is_text() {
    let texts = "1.2.3|0x|08|--1|+-1|0x-1|1e|.|-|1:20|2001-01-01|.inf|1e999|-inf|0xg|é|10.0.0.1";
    for text in texts.split('|') {
        let expected = match text {
            // Not octal, but a float.
            "08" => Value::from(8),
            _ => Value::from(text),
        };
        check(text, expected);
    }
}
