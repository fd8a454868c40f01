//! Thread that writes to the folder of `--state-dir`, and the bounded queue before it: if the disk
//! is slow, full or gone, records are lost and counted, and no sync waits.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tracing::{info, warn};

use super::folder::{HistoryFolder, MAX_BYTES};
use super::record::HistoryRecord;
use crate::net::IpFamily;
use crate::status::DriftRecord;
use crate::telemetry::HistoryMetrics;

/// Maximum jobs that wait for the disk. Each may have a payload of some hundred kilobytes.
pub(super) const QUEUE: usize = 64;

/// Maximum changes by other programs that wait for the next record.
const MAX_DRIFT: usize = 20;

/// File to write.
#[derive(Debug)]
pub(super) enum Job {
    /// Record to append.
    Record(Box<HistoryRecord>),
    /// Text that replaces the file of the last failed payload of a family.
    FailedPayload(IpFamily, Vec<u8>),
}

/// Queue to the thread that writes. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct HistoryWriter {
    jobs: SyncSender<Job>,
    metrics: HistoryMetrics,
}

impl HistoryWriter {
    /// Starts the thread, which ends with the last clone.
    pub(crate) fn start(folder: PathBuf, metrics: HistoryMetrics) -> io::Result<Self> {
        let (writer, jobs) = Self::with_queue(metrics);
        let metrics = writer.metrics.clone();
        let work = move || write_all(HistoryFolder::new(folder, MAX_BYTES), &jobs, &metrics);
        thread::Builder::new()
            .name("history".to_owned())
            .spawn(work)?;
        Ok(writer)
    }

    /// Returns a writer, and the end of its queue.
    pub(super) fn with_queue(metrics: HistoryMetrics) -> (Self, Receiver<Job>) {
        let (jobs, receiver) = sync_channel(QUEUE);
        (Self { jobs, metrics }, receiver)
    }

    /// Queues the text of a failed payload.
    pub(crate) fn failed_payload(&self, family: IpFamily, text: Vec<u8>) {
        self.queue(Job::FailedPayload(family, text));
    }

    fn queue(&self, job: Job) {
        match self.jobs.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.metrics.queue_full(),
            // The thread ended, which it does only if it panics.
            Err(TrySendError::Disconnected(_)) => self.metrics.write_failed(),
        }
    }
}

/// Writes jobs until all senders are gone. A failure is logged once until a write succeeds.
fn write_all(mut folder: HistoryFolder, jobs: &Receiver<Job>, metrics: &HistoryMetrics) {
    let mut has_failed = false;
    for job in jobs {
        let (what, result) = match job {
            Job::Record(record) => ("the history", folder.append(&record)),
            Job::FailedPayload(family, text) => (
                "the failed payload",
                replace_failed_payload(folder.path(), family, &text),
            ),
        };
        let path = folder.path().display();
        match result {
            Ok(()) if std::mem::take(&mut has_failed) => {
                info!(%path, "writing to --state-dir succeeded after failures");
            }
            Ok(()) => {}
            Err(cause) => {
                metrics.write_failed();
                if !std::mem::replace(&mut has_failed, true) {
                    warn!(
                        %path, %cause,
                        "cannot write {what} to --state-dir; records are lost until it succeeds"
                    );
                }
            }
        }
    }
}

/// Replaces the file atomically. Only its owner can read it.
pub(super) fn replace_failed_payload(
    folder: &Path,
    family: IpFamily,
    text: &[u8],
) -> io::Result<()> {
    let name = match family {
        IpFamily::V4 => "failed-ipv4.payload",
        IpFamily::V6 => "failed-ipv6.payload",
    };
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text)?;
    file.persist(folder.join(name))?;
    Ok(())
}

/// Records of one family. Clones share what waits for the next record.
#[derive(Debug, Clone)]
pub(crate) struct HistoryLog {
    writer: HistoryWriter,
    drift: Arc<Mutex<Vec<DriftRecord>>>,
}

impl HistoryLog {
    /// Returns the log of a family.
    pub(crate) fn new(writer: HistoryWriter) -> Self {
        Self {
            writer,
            drift: Arc::default(),
        }
    }

    /// Notes a change by another program, for the record of the sync that repairs it.
    pub(crate) fn drifted(&self, record: DriftRecord) {
        // A list is valid after each change.
        let mut drift = self.drift.lock().unwrap_or_else(PoisonError::into_inner);
        if drift.len() < MAX_DRIFT {
            drift.push(record);
        }
    }

    /// Queues a record, with the changes by other programs that were noted.
    pub(crate) fn record(&self, mut record: HistoryRecord) {
        let mut drift = self.drift.lock().unwrap_or_else(PoisonError::into_inner);
        record.drift = std::mem::take(&mut drift);
        self.writer.queue(Job::Record(Box::new(record)));
    }
}
