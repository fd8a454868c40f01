//! Tests of `scalar`.

use super::*;

#[track_caller]
fn check(text: &str, expected: &Scalar) {
    assert_eq!(&Scalar::plain(text.to_owned()), expected, "{text}");
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
        check(text, &Scalar::Integer(80));
    }
    check("0", &Scalar::Integer(0));
    check("-0x10", &Scalar::Integer(-16));
    check("18446744073709551615", &Scalar::Integer(u64::MAX.into()));
    check("1.5", &Scalar::Float(1.5));
    check(".5", &Scalar::Float(0.5));
    check("-.5", &Scalar::Float(-0.5));
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
            "08" => Scalar::Integer(8),
            _ => Scalar::Text(text.to_owned()),
        };
        check(text, &expected);
    }
}

#[test]
fn words_are_booleans_and_null() {
    for (text, expected) in [
        ("yes", Scalar::Bool(true)),
        ("Off", Scalar::Bool(false)),
        ("n", Scalar::Bool(false)),
        ("~", Scalar::Null),
        ("", Scalar::Null),
        ("nope", Scalar::Text("nope".to_owned())),
    ] {
        check(text, &expected);
    }
}
