//! A lock file of the test's own, opened as the programs do it.

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
fn without_a_file_there_is_no_generation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xtables.lock");
    let watch = LockWatch::of(path.clone()).unwrap();
    assert_eq!(watch.generation(), None);
    open(&path);
    // Whatever happened before the file was watched is unknown.
    let first = watch.generation();
    assert!(first.is_some());
    open(&path);
    assert_ne!(watch.generation(), first);
}

#[test]
fn a_file_that_takes_the_place_of_the_lock_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xtables.lock");
    open(&path);
    let watch = LockWatch::of(path.clone()).unwrap();
    let first = watch.generation();
    // Held open by a program that waits: the file stays, without a name.
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
