//! Manifests that are followed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::manifests::{directory, options, service};
use crate::model::Change;
use crate::telemetry::{ManifestMetrics, Metrics};
use crate::watch::manifests::follow;
use crate::watch::{ChangeReceivers, Ingester, change_channels};

/// Follows a directory and looks at IPv4.
struct Followed {
    changes: ChangeReceivers,
    /// Services of all changes so far.
    services: BTreeSet<String>,
    metrics: ManifestMetrics,
    task: JoinHandle<()>,
}

impl Followed {
    fn start(path: &Path) -> Self {
        let (senders, changes) = change_channels(None);
        let ingester = Ingester::new(senders, "here".into());
        let path = path.to_owned();
        let metrics = Metrics::new().unwrap().manifests;
        let followed = metrics.clone();
        let task = tokio::spawn(async move {
            let _ = follow(path, options(), &followed, ingester).await;
        });
        Self {
            changes,
            services: BTreeSet::new(),
            metrics,
            task,
        }
    }

    /// Waits until so many files cannot be used, objects are skipped, and fields are ignored.
    async fn expect_counted(&self, expected: [i64; 3]) {
        let metrics = &self.metrics;
        let found = || {
            let (files, objects) = (&metrics.unusable_files, &metrics.skipped_objects);
            [files.get(), objects.get(), metrics.ignored_fields.get()]
        };
        let wait = async {
            while found() != expected {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let outcome = timeout(Duration::from_secs(20), wait).await;
        assert!(outcome.is_ok(), "{:?}", found());
    }

    /// Waits until these are all Services.
    async fn expect(&mut self, expected: &[&str]) {
        let mut last = Vec::new();
        let wait = async {
            while last != expected {
                last = self.next_list().await;
            }
        };
        let outcome = timeout(Duration::from_secs(20), wait).await;
        assert!(outcome.is_ok(), "expected {expected:?}, last was {last:?}");
    }

    /// Returns all Services after the next changes.
    async fn next_list(&mut self) -> Vec<String> {
        for change in self.changes.families.v4.recv().await.unwrap() {
            match change {
                Change::Service(name, Some(_)) => drop(self.services.insert(name.to_string())),
                Change::Service(name, None) => drop(self.services.remove(&name.to_string())),
                _ => {}
            }
        }
        self.services.iter().cloned().collect()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn write(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join(name), text).unwrap();
}

#[tokio::test]
async fn changes_of_files_are_followed() {
    let directory = directory(&[("a.yaml", &service("a", ""))]);
    let path = directory.path();
    let mut followed = Followed::start(path);
    followed.expect(&["default/a"]).await;
    write(path, "b.yaml", &service("b", ""));
    followed.expect(&["default/a", "default/b"]).await;
    // As editors save: beside it, then over it.
    write(path, ".a.yaml.swp", &service("c", ""));
    fs::rename(path.join(".a.yaml.swp"), path.join("a.yaml")).unwrap();
    followed.expect(&["default/b", "default/c"]).await;
    fs::create_dir(path.join("sub")).unwrap();
    write(&path.join("sub"), "d.yaml", &service("d", ""));
    followed
        .expect(&["default/b", "default/c", "default/d"])
        .await;
    fs::remove_file(path.join("b.yaml")).unwrap();
    followed.expect(&["default/c", "default/d"]).await;
}

#[tokio::test]
async fn a_file_that_was_never_valid_costs_only_itself() {
    let directory = directory(&[("b.yaml", "spec: [1\n")]);
    let path = directory.path();
    let mut followed = Followed::start(path);
    // Without any valid file, the rules of an earlier process stay.
    let wrong = "kind: Service\nmetadata: {name: c}\nspec: {ports: 5}\n---\n";
    write(path, "a.yaml", &format!("{wrong}{}", service("a", "")));
    let list = timeout(Duration::from_secs(20), followed.next_list());
    assert_eq!(list.await.unwrap(), ["default/a"]);
    followed.expect_counted([1, 1, 0]).await;
    write(path, "b.yaml", &service("b", ""));
    followed.expect(&["default/a", "default/b"]).await;
    followed.expect_counted([0, 1, 0]).await;
}

#[tokio::test]
async fn swapped_config_maps_are_followed() {
    let directory = directory(&[
        ("..1/a.yaml", &service("a", "")),
        ("..2/a.yaml", &service("b", "")),
    ]);
    let path = directory.path();
    let link = |from: &str, to: &str| std::os::unix::fs::symlink(from, path.join(to)).unwrap();
    link("..1", "..data");
    link("..data/a.yaml", "a.yaml");
    let mut followed = Followed::start(path);
    followed.expect(&["default/a"]).await;
    link("..2", "..data_tmp");
    fs::rename(path.join("..data_tmp"), path.join("..data")).unwrap();
    fs::remove_dir_all(path.join("..1")).unwrap();
    followed.expect(&["default/b"]).await;
}

#[tokio::test]
async fn deleted_directory_keeps_its_last_content() {
    let parent = directory(&[("m/a.yaml", &service("a", ""))]);
    let path = parent.path().join("m");
    let mut followed = Followed::start(&path);
    followed.expect(&["default/a"]).await;
    fs::remove_dir_all(&path).unwrap();
    fs::create_dir(parent.path().join("new")).unwrap();
    write(&parent.path().join("new"), "b.yaml", &service("b", ""));
    fs::rename(parent.path().join("new"), &path).unwrap();
    followed.expect(&["default/b"]).await;
}

#[tokio::test]
async fn path_must_exist_at_the_start() {
    let ingester = Ingester::new(change_channels(None).0, "here".into());
    let metrics = Metrics::new().unwrap().manifests;
    let outcome = follow("/nowhere/at/all".into(), options(), &metrics, ingester).await;
    assert_eq!(outcome.unwrap_err().file, Path::new("/nowhere/at/all"));
}

#[tokio::test]
async fn ignored_fields_are_counted() {
    let spec = "clusterIP: 10.0.0.1, type: LoadBalnacer, internalTrafficPolicy: local, selektor: a";
    let directory = directory(&[("a.yaml", &service("a", spec))]);
    let mut followed = Followed::start(directory.path());
    followed.expect(&["default/a"]).await;
    followed.expect_counted([0, 0, 3]).await;
    write(directory.path(), "a.yaml", &service("a", ""));
    write(directory.path(), "b.yaml", &service("b", ""));
    followed.expect(&["default/a", "default/b"]).await;
    followed.expect_counted([0, 0, 0]).await;
}

/// Files of other names next to the path are ignored, unless a link leads to them.
#[tokio::test]
async fn the_target_of_a_link_is_followed_next_to_the_path() {
    let parent = directory(&[
        ("v1.yaml", &service("a", "")),
        ("v1/b.yaml", &service("b", "")),
    ]);
    let path = parent.path();
    let link = |from: &str, to: &str| std::os::unix::fs::symlink(from, path.join(to)).unwrap();
    link("v1.yaml", "current.yaml");
    let mut of_file = Followed::start(&path.join("current.yaml"));
    of_file.expect(&["default/a"]).await;
    link("v1", "between");
    fs::create_dir(path.join("m")).unwrap();
    link("../between/b.yaml", "m/b.yaml");
    let mut of_directory = Followed::start(&path.join("m"));
    of_directory.expect(&["default/b"]).await;
    write(path, "v1.yaml", &service("c", ""));
    of_file.expect(&["default/c"]).await;
    fs::create_dir(path.join("v2")).unwrap();
    write(&path.join("v2"), "b.yaml", &service("d", ""));
    link("v2", "between.new");
    fs::rename(path.join("between.new"), path.join("between")).unwrap();
    of_directory.expect(&["default/d"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_written_in_place_is_used_after_the_last_write() {
    let [a, b] = ["a", "b"].map(|name| service(name, ""));
    let both = format!("{a}---\n{b}");
    let directory = directory(&[("m/ab.yaml", &both), ("v.yaml", &service("v", ""))]);
    let path = directory.path().join("m");
    std::os::unix::fs::symlink("../v.yaml", path.join("v.yaml")).unwrap();
    let mut followed = Followed::start(&path);
    let all = ["default/a", "default/b", "default/v"];
    assert_eq!(followed.next_list().await, all);
    let start = Instant::now();
    // Texts of different lengths: less time passes than the file system notes.
    for text in ["", &a, &format!("{a}---\n{}", service("z", ""))] {
        write(&path, "ab.yaml", text);
        let comment = format!("# {}\n", "x".repeat(text.len()));
        write(directory.path(), "v.yaml", &comment);
        tokio::time::sleep(Duration::from_millis(900)).await;
        // The part that is there now is not used.
        let changes = followed.changes.families.v4.take();
        assert!(changes.is_empty(), "{text}: {changes:?}");
    }
    assert_eq!(followed.next_list().await, ["default/a", "default/z"]);
    let waited = start.elapsed();
    assert!((2700..4800).contains(&waited.as_millis()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_renamed_file_is_used_at_once() {
    let parent = directory(&[("m/a.yaml", &service("a", "")), ("new/b", "")]);
    let path = parent.path();
    write(&path.join("new"), "b", &service("b", ""));
    let mut followed = Followed::start(&path.join("m"));
    assert_eq!(followed.next_list().await, ["default/a"]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let start = Instant::now();
    fs::rename(path.join("new/b"), path.join("m/b.yaml")).unwrap();
    assert_eq!(followed.next_list().await, ["default/a", "default/b"]);
    let waited = start.elapsed();
    assert!(waited < Duration::from_secs(1), "{waited:?}");
}

/// Where programs write all the time.
#[tokio::test(start_paused = true)]
async fn a_change_is_used_after_ten_seconds_at_most() {
    let parent = directory(&[("m/a.yaml", &service("a", ""))]);
    let path = parent.path().join("m");
    let mut followed = Followed::start(&path);
    assert_eq!(followed.next_list().await, ["default/a"]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let start = Instant::now();
    write(&path, "a.yaml", &service("b", ""));
    while followed.changes.families.v4.take().is_empty() {
        write(&path, "log", "");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let waited = start.elapsed();
    assert!((10..13).contains(&waited.as_secs()), "{waited:?}");
}

/// No event is reported for a change through another name of a file.
#[tokio::test(start_paused = true)]
async fn a_change_without_an_event_is_found_within_a_minute() {
    // Below a directory of its own: the parent is watched, and tests make others in that of all.
    let directory = directory(&[("m/a.yaml", &service("a", "")), ("elsewhere/b", "")]);
    let [path, elsewhere] = ["m", "elsewhere"].map(|name| directory.path().join(name));
    fs::hard_link(path.join("a.yaml"), elsewhere.join("a")).unwrap();
    let mut followed = Followed::start(&path);
    assert_eq!(followed.next_list().await, ["default/a"]);
    // The event of the new link.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let start = Instant::now();
    write(&elsewhere, "a", &service("other", ""));
    assert_eq!(followed.next_list().await, ["default/other"]);
    let waited = start.elapsed();
    assert!((50..65).contains(&waited.as_secs()), "{waited:?}");
}
