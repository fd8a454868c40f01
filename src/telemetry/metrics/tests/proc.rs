//! Arbitrary content of `/proc`.

use proptest::prelude::*;

use super::field;
use crate::hostile::{cases, mutated_text};

const STAT: &str =
    "42 (deltaproxy (x) y) S 1 42 42 0 -1 4194304 1 2 3 4 50 60 7 8 20 0 5 0 1234 1 2 3";

proptest! {
    #![proptest_config(cases(5000))]

    #[test]
    fn any_stat_is_read(stat in mutated_text(&[STAT])) {
        for index in 0..60 {
            let _ = field(&stat, index);
        }
    }
}
