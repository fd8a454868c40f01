//! Tests of `problem`.

use super::*;

#[test]
fn paths_are_parsed_as_they_are_displayed() {
    for text in ["", "spec", "spec.ports[0].port", "a[1][2].b"] {
        assert_eq!(FieldPath::parse(text).to_string(), text);
    }
    let path = FieldPath::parse("spec.ports[12]");
    assert_eq!(path.0.last(), Some(&FieldSegment::Index(12)));
}
