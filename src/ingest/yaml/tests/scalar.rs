//! Tests of `scalar`.

use super::*;

#[track_caller]
fn check(text: &str, expected: impl Into<Value>) {
    assert_eq!(plain(text.to_owned()), expected.into(), "{text}");
}

#[test]
fn numbers_are_those_of_yaml_1_1() {
    for text in [
        "80",
        "+80",
        "0120",
        "0x50",
        "0b1010000",
        "0o120",
        "8_0",
        "80.0",
        "8e1",
    ] {
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
    for text in [
        "1.2.3",
        "0x",
        "08",
        "--1",
        "+-1",
        "0x-1",
        "1e",
        ".",
        "-",
        "1:20",
        "2001-01-01",
        ".inf",
        "1e999",
        "-inf",
        "0xg",
        "é",
        "10.0.0.1",
    ] {
        let expected = match text {
            // Not octal, but a float.
            "08" => Value::from(8),
            _ => Value::from(text),
        };
        check(text, expected);
    }
}

#[test]
fn words_are_booleans_and_null() {
    for (text, expected) in [
        ("yes", Value::Bool(true)),
        ("Off", Value::Bool(false)),
        ("n", Value::Bool(false)),
        ("~", Value::Null),
        ("", Value::Null),
        ("nope", Value::from("nope")),
    ] {
        check(text, expected);
    }
}
