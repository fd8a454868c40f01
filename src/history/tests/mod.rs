//! Ring of segments, and the queue before the disk.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use prometheus::Registry;

use super::folder::{HistoryEntry, HistoryFiles, HistoryFolder};
use super::record::HistoryRecord;
use super::writer::{FAILED_PAYLOADS, Job, MAX_QUEUED_BYTES, QUEUE};
use super::{HistoryLog, HistoryThread, HistoryWriter};
use crate::clock::instant;
use crate::net::IpFamily;
use crate::status::DriftRecord;
use crate::telemetry::HistoryMetrics;

fn record(number: u64, payload: &str) -> HistoryRecord {
    HistoryRecord {
        bytes: number,
        payload: payload.to_owned(),
        ..HistoryRecord::default()
    }
}

fn numbers(folder: &Path) -> (Vec<u64>, usize) {
    let mut numbers = Vec::new();
    let files = HistoryFiles::find(folder).unwrap();
    let broken = files.read(&mut |entry| match entry {
        HistoryEntry::Record(record) => numbers.push(record.bytes),
        HistoryEntry::Checkpoint(..) => unreachable!("none was written"),
    });
    (numbers, broken)
}

fn total(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

/// Text that gzip cannot shorten much.
fn noise(bytes: usize) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    (0..bytes).map(|_| random.alphanumeric()).collect()
}

#[test]
fn the_oldest_segments_are_deleted() {
    const MAX: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let mut writer = HistoryFolder::new(folder.path().to_owned(), MAX);
    let payload = noise(20_000);
    for number in 0..200 {
        writer.append(&record(number, &payload)).unwrap();
        assert!(total(folder.path()) <= MAX);
    }
    let (found, _) = numbers(folder.path());
    assert!(found.len() > 20, "{}", found.len());
    let first = found[0];
    assert!(first > 0);
    assert_eq!(found, (first..200).collect::<Vec<_>>());
}

#[test]
fn a_segment_that_is_cut_off_keeps_its_other_records() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = HistoryFolder::new(folder.path().to_owned(), 1 << 20);
    for number in 0..3 {
        writer.append(&record(number, "*nat\nCOMMIT\n")).unwrap();
    }
    let entry = fs::read_dir(folder.path()).unwrap().next().unwrap();
    let path = entry.unwrap().path();
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() - 20]).unwrap();
    let mut writer = HistoryFolder::new(folder.path().to_owned(), 1 << 20);
    writer.append(&record(7, "")).unwrap();
    assert_eq!(numbers(folder.path()), (vec![0, 1, 7], 1));
}

#[test]
fn a_failed_payload_replaces_the_file_of_the_previous_one() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["one", "two"] {
        let writer = HistoryFolder::new(folder.path().to_owned(), 1 << 20);
        let name = FAILED_PAYLOADS.v4;
        writer.replace(name, text.as_bytes()).unwrap();
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let path = folder.path().join("failed-ipv4.payload");
    assert_eq!(fs::read_to_string(path).unwrap(), "two");
}

fn writer(folder: &Path) -> (Registry, HistoryWriter, HistoryThread) {
    let registry = Registry::new();
    let metrics = HistoryMetrics::register(&registry).unwrap();
    let (writer, thread) =
        HistoryWriter::with_thread(folder.to_owned(), metrics, Timestamp::UNIX_EPOCH);
    (registry, writer, thread)
}

fn log(writer: &HistoryWriter) -> HistoryLog {
    HistoryLog::new(writer.clone(), IpFamily::V4)
}

/// Jobs that were lost because the queue was full, and because of the disk.
fn lost(registry: &Registry) -> Vec<f64> {
    let families = registry.gather();
    let counters = families[0].get_metric().iter();
    counters.map(|one| one.get_counter().get_value()).collect()
}

/// The thread behind the queue does not run, as one that waits for a disk.
#[test]
fn a_disk_that_hangs_loses_records_and_delays_nothing() {
    let (registry, writer, _thread) = writer(Path::new("/"));
    let log = log(&writer);
    for number in 0..QUEUE + 3 {
        log.record(record(number as u64, ""));
    }
    assert_eq!(lost(&registry), [3.0, 0.0]);
}

#[test]
fn the_bytes_in_the_queue_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let (registry, writer, mut thread) = writer(folder.path());
    let piece = MAX_QUEUED_BYTES / 8;
    for _ in 0..2 {
        for _ in 0..10 {
            writer.failed_payload(IpFamily::V4, vec![b'#'; piece]);
        }
        thread.write_queued();
    }
    assert_eq!(lost(&registry), [4.0, 0.0]);
}

#[test]
fn temporary_files_of_killed_processes_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    for name in [".tmpAb3xYz", ".tmp", ".tmp-notes", "failed-ipv4.payload"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let writer = HistoryFolder::new(folder.path().to_owned(), 1 << 20);
    writer.remove_temporary_files().unwrap();
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".tmp", ".tmp-notes", "failed-ipv4.payload"]);
}

#[test]
fn drift_is_in_the_record_after_it() {
    let (_, writer, thread) = writer(Path::new("/"));
    let log = log(&writer);
    log.drifted(DriftRecord {
        program: "iptables".to_owned(),
        ..DriftRecord::default()
    });
    log.record(record(0, ""));
    log.record(record(1, ""));
    let drift = |job| match job {
        Job::Record(record) => (record.number, record.drift.len()),
        _ => unreachable!("none was queued"),
    };
    let found: Vec<_> = thread.jobs.try_iter().map(drift).collect();
    assert_eq!(found, [(1, 1), (2, 0)]);
}

/// A checkpoint is asked for before the last one is deleted, so that one is always there.
#[test]
fn a_checkpoint_is_replaced_before_it_is_deleted() {
    const MAX: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let mut writer = HistoryFolder::new(folder.path().to_owned(), MAX);
    let rules = vec![0; 100_000];
    writer.checkpoint(IpFamily::V4, &rules).unwrap();
    let (payload, mut count) = (noise(20_000), 1);
    for number in 0..300 {
        let due = writer.append(&record(number, &payload)).unwrap();
        if !due.is_empty() {
            assert_eq!(due, [IpFamily::V4]);
            writer.checkpoint(IpFamily::V4, &rules).unwrap();
            count += 1;
        }
        assert!(total(folder.path()) <= MAX);
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().file_name());
        assert!(names.any(|name| name.to_string_lossy().starts_with("checkpoint-")));
    }
    assert!((5..20).contains(&count), "{count}");
}

#[test]
fn a_checkpoint_that_is_too_large_is_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let (_, writer, mut thread) = writer(folder.path());
    let log = log(&writer);
    assert!(log.is_checkpoint_due(instant()));
    let text = noise(1 << 20);
    log.checkpoint(instant, |sink| (0..20).for_each(|_| sink(text.as_bytes())));
    assert!(!log.is_checkpoint_due(instant()));
    thread.write_queued();
    let (mut errors, files) = (Vec::new(), HistoryFiles::find(folder.path()).unwrap());
    files.read(&mut |entry| match entry {
        HistoryEntry::Record(record) => errors.push(record.error),
        HistoryEntry::Checkpoint(..) => unreachable!("none was written"),
    });
    assert_eq!(errors, ["the rules take more than 4 MiB"]);
}
