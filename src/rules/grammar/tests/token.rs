//! Tests of `token`.

use super::*;

#[track_caller]
fn check(line: &str, expected: &[&str]) {
    let mut found = Tokens::new();
    tokens(line, &mut found).unwrap();
    let texts: Vec<&str> = found.iter().map(|token| token.text.as_ref()).collect();
    assert_eq!(texts, expected, "{line}");
}

#[test]
fn words_and_quotes() {
    check("", &[]);
    check("  -d 10.0.0.1\t-j DROP ", &["-d", "10.0.0.1", "-j", "DROP"]);
    check(r#"--comment "a b""#, &["--comment", "a b"]);
    check(r#"--comment "" x"#, &["--comment", "", "x"]);
    check(r#""a \"b\" \'c\' \\d ""#, &[r#"a "b" 'c' \d "#]);
    check(r#"a"b c" d"#, &["ab c", "d"]);
    check(r#""a"b"#, &["a", "b"]);
    check(r"a\b", &[r"a\b"]);
    for open in [r#""a"#, r#""a\"#, r#"a""#] {
        let read = tokens(open, &mut Tokens::new());
        assert_eq!(read, Err(LineError::UnterminatedQuote), "{open}");
    }
}

#[test]
fn texts_are_quoted_like_libxtables_does() {
    for (text, expected) in [
        ("simple", "simple"),
        ("a/b:c", r#""a/b:c""#),
        ("", r#""""#),
        (r#"a "b" 'c' \d "#, r#""a \"b\" \'c\' \\d ""#),
    ] {
        let mut shown = String::new();
        write_text(&mut shown, text).unwrap();
        assert_eq!(shown, expected);
    }
}
