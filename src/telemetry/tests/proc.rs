//! Whatever `/proc` holds.

use proptest::prelude::*;

use super::super::process::field;
use super::CpuTimes;
use crate::hostile::{cases, mutated_text, text};

const STAT: &str =
    "42 (deltaproxy (x) y) S 1 42 42 0 -1 4194304 1 2 3 4 50 60 7 8 20 0 5 0 1234 1 2 3";

proptest! {
    #![proptest_config(cases(5000))]

    #[test]
    fn any_text_of_proc_is_read(process in mutated_text(&[STAT]), thread in mutated_text(&[STAT]), other in text()) {
        for place in 0..60 {
            let _ = field(&process, place);
        }
        let before = CpuTimes::of(&process, [thread.clone(), other].into_iter());
        let after = CpuTimes::of(&process, [thread].into_iter());
        let _ = (after.since(&before), before.since(&after));
    }
}
