//! Tests of `yaml`.

use serde_json::{Value, json};
use serde_saphyr::DuplicateKeyPolicy;

use super::DocumentText;

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
