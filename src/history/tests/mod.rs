//! Ring of segments, and the queue before the disk.

use std::fs;
use std::path::Path;

use prometheus::Registry;

use super::folder::{HistoryFiles, HistoryFolder};
use super::record::HistoryRecord;
use super::writer::{HistoryWriter, QUEUE, replace_failed_payload};
use crate::history::HistoryLog;
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
    let broken = files.read(&mut |record| numbers.push(record.bytes));
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
fn records_are_read_in_order_across_processes() {
    let folder = tempfile::tempdir().unwrap();
    for first in [0, 3] {
        let mut writer = HistoryFolder::new(folder.path().to_owned(), 1 << 20);
        for number in first..first + 3 {
            writer.append(&record(number, "*nat\nCOMMIT\n")).unwrap();
        }
    }
    assert_eq!(numbers(folder.path()), ((0..6).collect(), 0));
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
fn a_removed_folder_is_an_error_until_it_is_back() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("state");
    fs::create_dir(&folder).unwrap();
    let mut writer = HistoryFolder::new(folder.clone(), 1 << 20);
    writer.append(&record(0, "")).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    writer.append(&record(1, "")).unwrap_err();
    fs::create_dir(&folder).unwrap();
    writer.append(&record(2, "")).unwrap();
    assert_eq!(numbers(&folder), (vec![2], 0));
}

#[test]
fn a_failed_payload_replaces_the_file_of_the_previous_one() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["one", "two"] {
        replace_failed_payload(folder.path(), IpFamily::V4, text.as_bytes()).unwrap();
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let path = folder.path().join("failed-ipv4.payload");
    assert_eq!(fs::read_to_string(path).unwrap(), "two");
}

/// The thread behind the queue does not run, as one that waits for a disk.
#[test]
fn a_disk_that_hangs_loses_records_and_delays_nothing() {
    let registry = Registry::new();
    let metrics = HistoryMetrics::register(&registry).unwrap();
    let (writer, _jobs) = HistoryWriter::with_queue(metrics);
    let log = HistoryLog::new(writer);
    for number in 0..QUEUE + 3 {
        log.record(record(number as u64, ""));
    }
    let families = registry.gather();
    let counters = families[0].get_metric().iter();
    let lost: Vec<f64> = counters.map(|one| one.get_counter().get_value()).collect();
    assert_eq!(lost, [3.0, 0.0]);
}

#[test]
fn drift_is_in_the_record_after_it() {
    let metrics = HistoryMetrics::register(&Registry::new()).unwrap();
    let (writer, jobs) = HistoryWriter::with_queue(metrics);
    let log = HistoryLog::new(writer);
    log.drifted(DriftRecord {
        program: "iptables".to_owned(),
        ..DriftRecord::default()
    });
    log.record(record(0, ""));
    log.record(record(1, ""));
    let drift = |job| match job {
        super::writer::Job::Record(record) => record.drift.len(),
        super::writer::Job::FailedPayload(..) => unreachable!("none was queued"),
    };
    let found: Vec<usize> = jobs.try_iter().map(drift).collect();
    assert_eq!(found, [1, 0]);
}
