//! Lock files of the tests, opened as the programs do it.

use std::fs::{self, File};
use std::path::Path;

use super::*;

fn open(path: &Path) {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .unwrap();
}

#[test]
fn the_generation_changes_when_the_lock_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xtables.lock");
    open(&path);
    let watch = LockWatch::of(path.clone()).unwrap();
    let first = watch.generation();
    assert!(first.is_some());
    assert_eq!(watch.generation(), first);
    open(&path);
    let second = watch.generation();
    assert_ne!(second, first);
    assert_eq!(watch.generation(), second);
}

#[test]
fn a_missing_lock_file_has_no_generation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xtables.lock");
    let watch = LockWatch::of(path.clone()).unwrap();
    assert_eq!(watch.generation(), None);
    open(&path);
    // Anything may have happened before the file was watched.
    let first = watch.generation();
    assert!(first.is_some());
    open(&path);
    assert_ne!(watch.generation(), first);
}

#[test]
fn a_file_that_replaces_the_lock_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xtables.lock");
    open(&path);
    let watch = LockWatch::of(path.clone()).unwrap();
    let first = watch.generation();
    // Held open by a waiting program: the file stays, without a name.
    let held = File::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    open(&path);
    let second = watch.generation();
    assert_ne!(second, first);
    drop(held);
    let second = watch.generation();
    open(&path);
    let third = watch.generation();
    assert_ne!(third, second);
    assert_eq!(watch.generation(), third);
    fs::remove_file(&path).unwrap();
    assert_eq!(watch.generation(), None);
}

#[test]
fn only_flock_counts_as_waiting_for_the_lock() {
    let flock = format!(
        "{} 0x3 0x2 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n",
        libc::SYS_flock
    );
    assert!(is_flock(&flock));
    for other in ["running\n", "-1 0x7ffd 0x7f00\n", "0 0x3 0x2\n", ""] {
        assert!(!is_flock(other), "{other}");
    }
}
