//! Tests of `notes`.

use super::*;

#[test]
fn services_in_quarantine_are_named() {
    let v4 = ServiceNames {
        count: 3,
        names: vec!["shop/a".to_owned(), "shop/b".to_owned()],
    };
    let quarantined = PerFamily {
        v4,
        v6: ServiceNames::default(),
    };
    let expected = "note: quarantined because they make restores fail (IPv4): 3: shop/a, \
                    shop/b, ...; their changes are not applied, see the log of the \
                    proxy\n";
    assert_eq!(quarantine_note(&quarantined), expected);
    assert_eq!(quarantine_note(&PerFamily::default()), "");
}
