//! Tests of `notes`.

use super::*;

#[test]
fn services_in_quarantine_are_named() {
    let quarantined = PerFamily {
        v4: ServiceNames(vec!["shop/a".to_owned(), "shop/b".to_owned()]),
        v6: ServiceNames::default(),
    };
    let expected = "note: quarantined because they make restores fail (IPv4): 2: shop/a, \
                    shop/b; their changes are not applied, see the log of the proxy\n";
    assert_eq!(quarantine_note(&quarantined), expected);
    assert_eq!(quarantine_note(&PerFamily::default()), "");
}
