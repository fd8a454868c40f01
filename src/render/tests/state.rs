//! Reverting the applied state after a restore that changed nothing.

use std::collections::BTreeMap;

use super::live::KnownServices;
use crate::net::IpFamily;
use crate::render::{
    AppliedState, LiveChains, LiveRules, Options, PartialRestore, partial_payload,
};
use crate::rules::Table;

#[test]
fn damaged_chains_are_damaged_again_after_a_restore_that_changed_nothing() {
    let (services, options) = (
        KnownServices(BTreeMap::new()),
        Options::defaults(IpFamily::V4),
    );
    let mut applied = AppliedState::default();
    let render = |applied: &mut AppliedState| {
        let names = std::iter::empty();
        let partial_restore = PartialRestore::ChangedChains;
        let payload = partial_payload(applied, &services, names, &options, partial_restore);
        String::from_utf8(payload.text).unwrap()
    };
    // The dispatch chains, which are not recorded yet.
    render(&mut applied);
    assert_eq!(render(&mut applied), "");
    let mut read = LiveRules::default();
    read.note_missing(Table::Nat, "KUBE-SERVICES");
    assert_eq!(applied.observe(&read, &LiveChains::default()).len(), 1);
    let saved = applied.snapshot(&[]);
    let rejected = render(&mut applied);
    assert!(rejected.contains(":KUBE-SERVICES - [0:0]"), "{rejected}");
    applied.revert_to(saved);
    assert_eq!(render(&mut applied), rejected);
    assert_eq!(render(&mut applied), "");
}
