//! Mounts of the xtables lock.

use super::{Mount, lock, mount};

fn mounts(lines: &[&str]) -> Vec<Mount> {
    lines.iter().filter_map(|line| mount(line)).collect()
}

const ROOT: &str = "1 0 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/a";
const LOCK: &str = "2 1 0:25 /xtables.lock /run/xtables.lock rw - tmpfs tmpfs rw";

#[test]
fn a_container_needs_the_lock_of_the_host() {
    let is_ok = |lines: &[&str]| lock(&mounts(lines)).is_ok();
    assert!(!is_ok(&[ROOT]));
    assert!(is_ok(&[ROOT, LOCK]));
    let run = LOCK.replace("/xtables.lock /run/xtables.lock", "/ /run");
    assert!(is_ok(&[ROOT, &run]));
    let other = LOCK.replace("/run/xtables.lock", "/run/other");
    assert!(!is_ok(&[ROOT, &other]));
}

#[test]
fn a_host_has_its_own_lock() {
    let disk = "1 0 254:1 / / rw,relatime - ext4 /dev/vda1 rw";
    assert!(lock(&mounts(&[disk])).is_ok());
    assert_eq!(mounts(&["nonsense", ""]), []);
}
