//! Tests of `probability`.

use super::*;

#[track_caller]
fn denominator(text: &str) -> Option<u32> {
    Probability::read(text).unwrap().denominator()
}

#[test]
fn the_denominator_of_every_text_is_found() {
    for n in 1..=20_000_u32 {
        let chance = 1.0 / f64::from(n);
        let written = Probability::read(&format!("{chance:.10}")).unwrap();
        assert_eq!(written.denominator(), Some(n));
        assert_eq!(denominator(&written.to_string()), Some(n), "as printed");
        // For larger n, two probabilities have the same text.
        if n <= 316 {
            let written = Probability::read(&format!("{chance:.5}")).unwrap();
            assert_eq!(written.denominator(), Some(n), "{chance:.5}");
            assert_eq!(denominator(&written.to_string()), Some(n), "{written}");
        }
    }
}

#[test]
fn other_probabilities_have_no_denominator() {
    for text in ["0", "0.75", "0.333", "0.50001", "0.99999", "0.123456"] {
        assert_eq!(denominator(text), None, "{text}");
        let chance = Probability::read(text).unwrap();
        assert_eq!(chance.rounded(), chance);
    }
    assert_eq!(
        Probability::read("0.333").unwrap().five_decimals(),
        Some(33_300)
    );
    assert_eq!(Probability::read("0.123456").unwrap().five_decimals(), None);
}
