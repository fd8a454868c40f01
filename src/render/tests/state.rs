//! What the record notes after restores that succeeded or failed.

use super::live::KnownServices;
use crate::net::IpFamily;
use crate::render::{
    AppliedState, LiveChains, LiveRules, Options, PartialRestore, partial_payload,
};
use crate::rules::Table;

#[test]
fn a_damaged_chain_is_written_until_a_restore_has_succeeded() {
    let (services, options) = (KnownServices::new(), Options::defaults(IpFamily::V4));
    let mut applied = AppliedState::default();
    let render = |applied: &mut AppliedState| {
        let names = std::iter::empty();
        let partial_restore = PartialRestore::ChangedChains;
        partial_payload(applied, &services, names, &options, partial_restore)
    };
    // The dispatch chains, which are not recorded yet.
    let first = render(&mut applied);
    applied.written(first.rendered);
    assert_eq!(render(&mut applied).text, b"");
    let mut read = LiveRules::of_chains();
    read.note_missing(Table::Nat, "KUBE-SERVICES");
    assert_eq!(applied.observe(&read, &LiveChains::default()).len(), 1);
    let rejected = render(&mut applied);
    let text = String::from_utf8(rejected.text).unwrap();
    assert!(text.contains(":KUBE-SERVICES - [0:0]"), "{text}");
    // A restore of which the kernel has nothing, and one of which it may have a part.
    assert_eq!(render(&mut applied).text, text.as_bytes());
    applied.maybe_written(rejected.rendered);
    let again = render(&mut applied);
    assert_eq!(again.text, text.as_bytes());
    applied.written(again.rendered);
    assert_eq!(render(&mut applied).text, b"");
}
