//! Names of the kernel's counters in rules.

use super::*;

#[test]
fn rules_name_counters_as_the_kernel_does() {
    for counter in Counter::ALL {
        let text = format!("-m nfacct --nfacct-name {}", counter.name());
        assert_eq!(counter.match_text(), text);
        assert!(Counters::ALL.has(counter) && !Counters::NONE.has(counter));
        let mut one = Counters::NONE;
        one.add(counter);
        assert_eq!(
            Counter::ALL.map(|other| one.has(other)),
            Counter::ALL.map(|other| other == counter)
        );
    }
}
