//! Lock files of the tests, opened as the programs do it.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;

use futures::FutureExt;
use tempfile::TempDir;

use super::*;

fn open(path: &Path) {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .unwrap();
}

/// A lock file that was opened before it is watched.
fn watched() -> (TempDir, PathBuf, LockWatch) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xtables.lock");
    open(&path);
    let watch = LockWatch::of(path.clone()).unwrap();
    (folder, path, watch)
}

#[test]
fn the_generation_changes_when_the_lock_is_opened() {
    let (_folder, path, watch) = watched();
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
    let (_folder, path, watch) = watched();
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

/// As in a Pod that mounts the file, after the host deleted it: the path leads to the deleted one.
#[test]
fn a_lock_that_was_deleted_on_the_host_is_not_shared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xtables.lock");
    open(&path);
    let held = File::open(&path).unwrap();
    let mounted = format!("/proc/self/fd/{}", held.as_raw_fd());
    let watch = LockWatch::of(mounted.into()).unwrap();
    assert!(watch.generation().is_some());
    assert_eq!(watch.unshared().now_or_never(), None);
    fs::remove_file(&path).unwrap();
    assert_eq!(watch.generation(), None);
    assert_eq!(watch.unshared().now_or_never(), Some(UnsharedLock::Deleted));
}

#[test]
fn a_file_at_the_path_through_another_folder_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before", "after"].map(|name| folder.path().join(name));
    let path = folder.path().join("run/xtables.lock");
    for (target, run) in [(&before, "run"), (&after, "next")] {
        fs::create_dir(target).unwrap();
        open(&target.join("xtables.lock"));
        symlink(target, folder.path().join(run)).unwrap();
    }
    let watch = LockWatch::of(path.clone()).unwrap();
    let first = watch.generation();
    assert!(first.is_some());
    // As a mount over /run does, this changes no file that is watched.
    fs::rename(folder.path().join("next"), folder.path().join("run")).unwrap();
    let second = watch.generation();
    assert_ne!(second, first);
    open(&path);
    assert_ne!(watch.generation(), second);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_rules_long_after_the_last_opening_bypasses_the_lock() {
    let (_folder, path, watch) = watched();
    // A program may hold the lock for minutes before it changes rules.
    open(&path);
    watch.update();
    tokio::time::advance(LONGEST_HOLD).await;
    watch.rules_changed();
    assert_eq!(watch.unshared().now_or_never(), None);
    assert!(watch.generation().is_some());
    tokio::time::advance(Duration::from_secs(1)).await;
    watch.rules_changed();
    assert_eq!(
        watch.unshared().now_or_never(),
        Some(UnsharedLock::Bypassed)
    );
    assert_eq!(watch.generation(), None);
}

#[test]
fn only_flock_counts_as_waiting_for_the_lock() {
    let flock = format!(
        "{} 0x3 0x2 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n",
        linux::SYS_FLOCK
    );
    assert!(is_flock(&flock));
    for other in ["running\n", "-1 0x7ffd 0x7f00\n", "0 0x3 0x2\n", ""] {
        assert!(!is_flock(other), "{other}");
    }
}

/// Waits for a release, at most for a moment.
async fn released(watch: &LockWatch) -> Option<Instant> {
    let most = CLOSED_FOR * 20;
    tokio::time::timeout(most, watch.released()).await.ok()
}

#[tokio::test]
async fn a_release_is_the_last_closing_of_a_lock_that_stays_closed() {
    let (_folder, path, watch) = watched();
    assert_eq!(released(&watch).await, None);
    // Tables of one restore: the lock is opened again at once.
    let first = File::open(&path).unwrap();
    drop(first);
    let second = File::open(&path).unwrap();
    assert_eq!(released(&watch).await, None);
    let before = Instant::now();
    drop(second);
    let at = released(&watch).await.unwrap();
    assert!(at >= before && at.elapsed() >= CLOSED_FOR);
    // Once, although another function reads the events.
    assert_eq!(released(&watch).await, None);
    open(&path);
    assert!(watch.generation().is_some());
    assert!(released(&watch).await.is_some());
}
