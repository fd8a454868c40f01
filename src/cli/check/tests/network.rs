//! Settings of the network that suit the daemon, and such that do not.

use super::{bridges, conntrack, firewalld_reload, reverse_path};
use crate::status::ConntrackStatus;

/// The kernel uses the larger value, so that a loose `all` wins over a strict interface.
#[test]
fn only_a_strict_filter_is_reported() {
    assert!(reverse_path(Some(0), Some(0)).is_ok());
    assert!(reverse_path(Some(2), Some(1)).is_ok());
    assert!(!reverse_path(Some(1), Some(0)).is_ok());
    assert!(!reverse_path(Some(0), Some(1)).is_ok());
    assert!(reverse_path(None, None).is_ok());
}

#[test]
fn bridges_need_br_netfilter() {
    assert_eq!(bridges(false, None), None);
    let is_ok = |calls| bridges(true, calls).is_some_and(|check| check.is_ok());
    assert!(is_ok(Some(1)));
    assert!(!is_ok(Some(0)));
    assert!(!is_ok(None));
}

#[test]
fn a_full_table_fails() {
    let is_ok = |entries, max| conntrack(Some(ConntrackStatus { entries, max })).is_ok();
    assert!(is_ok(10, 100));
    assert!(!is_ok(95, 100));
    assert!(!conntrack(None).is_ok());
}

/// The last line counts, and the default is to remove everything.
#[test]
fn firewalld_has_to_be_told_to_keep_rules() {
    let is_ok = |text| firewalld_reload(text).is_ok();
    assert!(!is_ok(""));
    assert!(!is_ok("# FlushAllOnReload=no\n"));
    assert!(!is_ok("FlushAllOnReload=yes\n"));
    assert!(is_ok("FlushAllOnReload=yes\nFlushAllOnReload = No\n"));
}
