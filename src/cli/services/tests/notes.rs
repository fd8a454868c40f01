//! Tests of `notes`.

use super::*;

#[test]
fn services_in_quarantine_are_named() {
    let json = r#"{"status":{
        "IPv4":{"healthy":true,"quarantinedServices":{"count":3,"names":["shop/a","shop/b"]}},
        "IPv6":{"healthy":true}}}"#;
    let expected = "note: quarantined because they make restores fail (IPv4): 3: shop/a, \
                    shop/b, ...; their changes are not applied, see the log of the \
                    proxy\n";
    assert_eq!(quarantine_note_of(json), expected);
}

#[test]
fn an_invalid_report_gives_no_note() {
    for json in [
        "",
        "not found",
        r#"{"status":{"IPv4":{"healthy":true}}}"#,
        r#"{"status":{"IPv4":{"quarantinedServices":[]}}}"#,
        "[1]",
    ] {
        assert_eq!(quarantine_note_of(json), "", "{json}");
    }
    let odd = r#"{"status":{"IPv4":{"quarantinedServices":{"count":1,"names":["\u001b[2J"]}}}}"#;
    assert!(!quarantine_note_of(odd).contains('\u{1b}'));
}
