//! Feature gates: known, locked and unknown.

use super::*;

#[test]
fn an_empty_mode_is_noted() {
    let noted = |config: Config| config.empty_mode.map(|note| note.text().to_owned());
    let note = noted(configured("").unwrap()).unwrap();
    assert!(
        note.contains("From 1.40 on, an empty mode means nftables"),
        "{note}"
    );
    assert_eq!(noted(loaded("mode: ''")), Some(note));
    assert_eq!(noted(loaded("mode: iptables")), None);
    assert_eq!(noted(configured("--proxy-mode=iptables").unwrap()), None);
}

#[test]
fn unknown_gates_and_fields_are_counted() {
    let config = loaded("featureGates: {Foo: true}\nclusterCdir: 10.0.0.0/8\n");
    assert_eq!(config.unknown.feature_gates, ["Foo"]);
    assert_eq!(config.unknown.fields, ["clusterCdir"]);
}
