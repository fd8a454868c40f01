//! Tests of `divide`.

use super::*;

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
