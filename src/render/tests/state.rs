//! Reverting the applied state after a restore that changed nothing.

use std::collections::BTreeMap;

use super::live::KnownServices;
use crate::net::IpFamily;
use crate::render::{AppliedState, Options, PartialRestore, partial_payload};
use crate::rules::Table;

#[test]
fn marks_for_a_rewrite_are_reverted_after_a_restore_that_changed_nothing() {
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
    // The jump to KUBE-NODEPORTS.
    render(&mut applied);
    assert_eq!(render(&mut applied), "");
    applied.mark_for_rewrite(Table::Nat, "KUBE-SERVICES");
    let saved = applied.snapshot(&[]);
    let rejected = render(&mut applied);
    assert!(rejected.contains(":KUBE-SERVICES - [0:0]"), "{rejected}");
    applied.revert_to(saved);
    assert_eq!(render(&mut applied), rejected);
    assert_eq!(render(&mut applied), "");
}
