//! Tests of `options`.

use super::*;

#[test]
fn rules_name_counters_as_the_kernel_does() {
    for counter in Counter::ALL {
        let text = format!("-m nfacct --nfacct-name {}", counter.name());
        assert_eq!(counter.match_text(), text);
    }
}
