//! Thread that writes to the folder of `--state-dir`, and the bounded queue before it: if the disk
//! is slow, full or gone, records are lost and counted, and no sync waits.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Instant;

use jiff::Timestamp;
use tracing::{info, warn};

use super::folder::{HistoryFolder, MAX_BYTES};
use super::record::{CHECKPOINT_SCOPE, CheckpointHead, HistoryRecord, MAX_CHECKPOINT};
use crate::net::{IpFamily, Locked, PerFamily};
use crate::status::DriftRecord;
use crate::telemetry::HistoryMetrics;

/// Maximum jobs that wait for the disk.
pub(super) const QUEUE: usize = 64;

/// Maximum bytes of payloads and checkpoints that wait for the disk: the checkpoints of both
/// families.
pub(super) const MAX_QUEUED_BYTES: usize = 2 * MAX_CHECKPOINT;

/// Pause after a checkpoint as a multiple of the time that it took: one percent of a processor.
const PAUSE_FACTOR: u32 = 100;

/// Maximum changes by other programs that wait for the next record.
const MAX_DRIFT: usize = 20;

#[derive(Debug)]
pub(super) enum Job {
    Record(Box<HistoryRecord>),
    /// File with all rules of a family.
    Checkpoint(IpFamily, Vec<u8>),
    /// Text that replaces the file of the last failed payload of a family.
    FailedPayload(IpFamily, Vec<u8>),
}

impl Job {
    fn bytes(&self) -> usize {
        match self {
            Self::Record(record) => record.payload.len(),
            Self::Checkpoint(_, bytes) | Self::FailedPayload(_, bytes) => bytes.len(),
        }
    }
}

/// Queue to the thread that writes. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct HistoryWriter {
    started: Timestamp,
    jobs: SyncSender<Job>,
    shared: Arc<QueueState>,
    metrics: HistoryMetrics,
}

/// State that the thread and all senders share.
#[derive(Debug, Default)]
struct QueueState {
    queued_bytes: AtomicUsize,
    /// Families of which the folder needs a checkpoint.
    needs_checkpoint: PerFamily<AtomicBool>,
}

impl QueueState {
    fn need_checkpoint(&self, family: IpFamily) {
        let needed = self.needs_checkpoint.get(family);
        needed.store(true, Ordering::Relaxed);
    }
}

impl HistoryWriter {
    /// Starts the thread, which ends with the last clone.
    pub(crate) fn start(
        folder: PathBuf,
        metrics: HistoryMetrics,
        started: Timestamp,
    ) -> io::Result<Self> {
        let (writer, thread) = Self::with_thread(folder, metrics, started);
        thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || thread.run())?;
        Ok(writer)
    }

    /// Returns a writer, and its thread, which does not run yet.
    pub(crate) fn with_thread(
        folder: PathBuf,
        metrics: HistoryMetrics,
        started: Timestamp,
    ) -> (Self, HistoryThread) {
        let (jobs, receiver) = sync_channel(QUEUE);
        let shared = Arc::default();
        let thread = HistoryThread {
            folder: HistoryFolder::new(folder, MAX_BYTES),
            jobs: receiver,
            shared: Arc::clone(&shared),
            metrics: metrics.clone(),
            has_failed: false,
        };
        let writer = Self {
            started,
            jobs,
            shared,
            metrics,
        };
        (writer, thread)
    }

    /// Returns the writer of a process that starts later.
    #[cfg(test)]
    pub(crate) fn restarted(&self, started: Timestamp) -> Self {
        Self {
            started,
            ..self.clone()
        }
    }

    pub(crate) fn failed_payload(&self, family: IpFamily, text: Vec<u8>) {
        self.queue(Job::FailedPayload(family, text));
    }

    /// Queues a job; returns whether there was room for it.
    fn queue(&self, job: Job) -> bool {
        let bytes = job.bytes();
        let queued = &self.shared.queued_bytes;
        let before = queued.fetch_add(bytes, Ordering::Relaxed);
        let result = if before + bytes > MAX_QUEUED_BYTES {
            Err(TrySendError::Full(job))
        } else {
            self.jobs.try_send(job)
        };
        if result.is_err() {
            queued.fetch_sub(bytes, Ordering::Relaxed);
        }
        match &result {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.metrics.queue_full(),
            // The thread ended, which it does only if it panics.
            Err(TrySendError::Disconnected(_)) => self.metrics.write_failed(),
        }
        result.is_ok()
    }
}

#[derive(Debug)]
pub(crate) struct HistoryThread {
    folder: HistoryFolder,
    pub(super) jobs: Receiver<Job>,
    shared: Arc<QueueState>,
    metrics: HistoryMetrics,
    has_failed: bool,
}

impl HistoryThread {
    /// Writes jobs until all senders are gone.
    fn run(mut self) {
        // What prevents this is an error of the first write as well.
        let _ = self.folder.remove_temporary_files();
        while let Ok(job) = self.jobs.recv() {
            self.write(&job);
        }
    }

    /// Writes the jobs in the queue, and returns their number.
    #[cfg(test)]
    pub(crate) fn write_queued(&mut self) -> usize {
        let jobs: Vec<Job> = self.jobs.try_iter().collect();
        for job in &jobs {
            self.write(job);
        }
        jobs.len()
    }

    /// Writes a job. A failure is logged once until a write succeeds. The folder then needs
    /// checkpoints, as records were lost.
    fn write(&mut self, job: &Job) {
        let folder = &mut self.folder;
        let (what, result) = match job {
            Job::Record(record) => ("the history", folder.append(record)),
            Job::Checkpoint(family, file) => {
                let written = folder.checkpoint(*family, file);
                ("a checkpoint", written.map(|()| Vec::new()))
            }
            Job::FailedPayload(family, text) => {
                let written = folder.replace(FAILED_PAYLOADS.get(*family), text);
                ("the failed payload", written.map(|()| Vec::new()))
            }
        };
        let queued = &self.shared.queued_bytes;
        queued.fetch_sub(job.bytes(), Ordering::Relaxed);
        let path = folder.path().display();
        match result {
            Ok(mut needing) => {
                if std::mem::take(&mut self.has_failed) {
                    info!(%path, "writing to --state-dir succeeded after failures");
                    needing = IpFamily::ALL.into();
                }
                for family in needing {
                    self.shared.need_checkpoint(family);
                }
            }
            Err(cause) => {
                self.metrics.write_failed();
                if !std::mem::replace(&mut self.has_failed, true) {
                    warn!(
                        %path, %cause,
                        "cannot write {what} to --state-dir; records are lost until it succeeds"
                    );
                }
            }
        }
    }
}

/// Names of the files of failed payloads.
pub(crate) const FAILED_PAYLOADS: PerFamily<&str> = PerFamily {
    v4: "failed-ipv4.payload",
    v6: "failed-ipv6.payload",
};

/// Records of one family. Clones share what waits for the next record.
#[derive(Debug, Clone)]
pub(crate) struct HistoryLog {
    writer: HistoryWriter,
    family: IpFamily,
    state: Arc<Locked<LogState>>,
}

/// State between two records.
#[derive(Debug, Default)]
struct LogState {
    /// Changes by other programs that wait for the next record.
    drift: Vec<DriftRecord>,
    /// Head of a checkpoint, if one is made now.
    head: CheckpointHead,
    /// Earliest time of the next checkpoint.
    not_before: Option<Instant>,
}

impl HistoryLog {
    pub(crate) fn new(writer: HistoryWriter, family: IpFamily) -> Self {
        writer.shared.need_checkpoint(family);
        let head = CheckpointHead {
            at: writer.started,
            process: writer.started.as_millisecond().unsigned_abs(),
            number: 0,
        };
        let state = LogState {
            head,
            ..LogState::default()
        };
        Self {
            writer,
            family,
            state: Arc::new(Locked::new(state)),
        }
    }

    /// Notes a change by another program, for the record of the sync that repairs it.
    pub(crate) fn drifted(&self, record: DriftRecord) {
        let drift = &mut self.state.lock().drift;
        if drift.len() < MAX_DRIFT {
            drift.push(record);
        }
    }

    /// Queues a record, with the changes by other programs that were noted.
    pub(crate) fn record(&self, record: HistoryRecord) {
        let mut state = self.state.lock();
        state.head.number += 1;
        let has_failed = !record.error.is_empty();
        if !has_failed {
            state.head.at = record.at;
        }
        let is_complete = !record.payload.is_empty() && !record.is_truncated;
        let record = HistoryRecord {
            process: state.head.process,
            number: state.head.number,
            drift: std::mem::take(&mut state.drift),
            ..record
        };
        let is_queued = self.writer.queue(Job::Record(Box::new(record)));
        if !is_queued || !(is_complete || has_failed) {
            self.writer.shared.need_checkpoint(self.family);
        }
    }

    /// Notes that rules were written, or found, which no record has.
    pub(crate) fn not_recorded(&self, at: Timestamp) {
        let head = &mut self.state.lock().head;
        head.number += 1;
        head.at = at;
        self.writer.shared.need_checkpoint(self.family);
    }

    pub(crate) fn is_checkpoint_due(&self, now: Instant) -> bool {
        let needed = self.writer.shared.needs_checkpoint.get(self.family);
        let is_over = |until| now >= until;
        needed.load(Ordering::Relaxed) && self.state.lock().not_before.is_none_or(is_over)
    }

    /// Queues a checkpoint of the rules that `write` writes piece by piece into its argument. A
    /// pause follows.
    pub(crate) fn checkpoint(
        &self,
        clock: impl Fn() -> Instant,
        write: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) {
        let (started, head) = (clock(), self.state.lock().head);
        // Before it is written: if that fails, another one is needed.
        let needed = self.writer.shared.needs_checkpoint.get(self.family);
        needed.store(false, Ordering::Relaxed);
        match head.render(self.family, MAX_CHECKPOINT, write) {
            Some(file) => {
                if !self.writer.queue(Job::Checkpoint(self.family, file)) {
                    needed.store(true, Ordering::Relaxed);
                }
            }
            None => drop(self.writer.queue(Job::Record(Box::new(HistoryRecord {
                at: head.at,
                process: head.process,
                number: head.number,
                family: self.family.to_string(),
                scope: CHECKPOINT_SCOPE.to_owned(),
                error: format!("the rules take more than {} MiB", MAX_CHECKPOINT >> 20),
                ..HistoryRecord::default()
            })))),
        }
        let ended = clock();
        let pause = ended.saturating_duration_since(started) * PAUSE_FACTOR;
        self.state.lock().not_before = Some(ended + pause);
    }
}
