//! Watches the configuration file, and ends the process for some of its changes, so that kubelet
//! or the service manager restarts it with the new configuration.
//!
//! A configuration that no process can start with is only reported: the previous one is better
//! than none, on every node of a cluster at once. All other modules may assume that their options
//! never change.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `initWatcher`, pkg/util/filesystem/watcher.go
//! (v1.37)
//!
//! Differs from upstream: the content of the file is compared. The swap of a ConfigMap volume is
//! noticed and reported, which upstream misses; rewriting the same content is not a change.
//! Upstream exits even if it cannot start with the new file, and if the file is renamed. Where
//! watching fails, which makes upstream exit, the file is read every minute.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{error, info, warn};

use super::sources;
use crate::config::{Config, ConfigFile};
use crate::events::{Event, Recorder};
use crate::telemetry::{ConfigFileState, Metrics, on_one_line};
use crate::watch::bounded;
use crate::watch::file_events::{FileEvents, POLL_INTERVAL};

/// Failed reads in a row before the failure is logged: a file that is being replaced may be
/// missing for a moment.
const FAILURES_UNTIL_LOGGED: u32 = 2;

const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Reason of a shutdown: the file holds another valid configuration than at the start.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` has changed; exiting to restart with the new configuration")]
pub(super) struct ConfigFileChanged(String);

/// Returns the configuration of a process that is started with this file, or its problems.
pub(crate) type LoadConfig<'a> = dyn Fn(&ConfigFile) -> Result<Config, String> + 'a;

/// Parts of the process that the watch of the file uses.
pub(super) struct ConfigFileContext<'a> {
    pub(super) file: Option<&'a ConfigFile>,
    pub(super) load: &'a LoadConfig<'a>,
    pub(super) recorder: &'a Recorder,
    pub(super) metrics: &'a Metrics,
}

/// Completes when the process has to end because of the file; never without a file. Pipes are not
/// watched: they were read to their end, and opening one again blocks until another program
/// writes.
pub(super) async fn changed(context: &ConfigFileContext<'_>) -> ConfigFileChanged {
    let Some(file) = context.file.filter(|file| bounded::is_file(&file.path)) else {
        return std::future::pending().await;
    };
    let mut events = FileEvents::new();
    events.watch(&directories(&file.path));
    let mut observed = WatchedFile {
        context,
        running: file,
        original: File::open(&file.path).ok(),
        last: file.clone(),
        failed_reads: 0,
        has_changed: false,
    };
    loop {
        observed.read().await;
        if observed.has_changed {
            return ConfigFileChanged(file.path.display().to_string());
        }
        observed.wait(&mut events).await;
        events.watch(&directories(&file.path));
    }
}

/// The file of a running process.
struct WatchedFile<'a> {
    context: &'a ConfigFileContext<'a>,
    /// The file as it was at the start.
    running: &'a ConfigFile,
    /// Kept open, so that no other file can get the same inode number.
    original: Option<File>,
    /// The file as it was last read.
    last: ConfigFile,
    failed_reads: u32,
    /// Another valid configuration was written into the file, so that the process has to end.
    has_changed: bool,
}

impl WatchedFile<'_> {
    async fn read(&mut self) {
        match bounded::regular_file_to_string(&self.last.path, bounded::MAX_CONFIG_BYTES) {
            Ok(text) => {
                self.failed_reads = 0;
                if text != self.last.text {
                    self.last.text = text;
                    self.compare().await;
                }
            }
            Err(error) => self.read_failed(&error),
        }
    }

    /// Decides what a new content means.
    async fn compare(&mut self) {
        if self.last.text == self.running.text {
            let path = self.last.path.display();
            info!("`{path}` holds the running configuration again");
            self.set_state(ConfigFileState::Running);
            return;
        }
        match validate(&self.last, self.context).await {
            Ok(()) => self.valid(),
            Err(problems) => self.invalid(problems),
        }
    }

    fn valid(&mut self) {
        let path = self.last.path.display().to_string();
        self.set_state(ConfigFileState::Stale);
        self.has_changed = self.is_original();
        if !self.has_changed {
            let note = format!(
                "`{path}` was replaced by another configuration; still running with the previous \
                 one until a restart. Restart the Pod to apply it"
            );
            warn!(%path, "{note}");
            let recorder = self.context.recorder;
            recorder.record(Event::ConfigurationStale(note));
        }
    }

    /// Reports whether the path still leads to the file that was read at the start.
    fn is_original(&self) -> bool {
        let inode = |file: io::Result<Metadata>| file.map(|file| (file.dev(), file.ino())).ok();
        let original = self.original.as_ref();
        let original = original.and_then(|original| inode(original.metadata()));
        original.is_some() && original == inode(fs::metadata(&self.last.path))
    }

    fn invalid(&mut self, problems: String) {
        let path = self.last.path.display().to_string();
        let cause = on_one_line(&problems);
        error!(
            %path, %cause,
            "new configuration in `{path}` is invalid; still running with the previous one, so \
             Services are not affected. Fix it before the next restart, which would fail"
        );
        self.record_unusable(problems);
    }

    /// Notes that no process can start with the file.
    fn record_unusable(&mut self, problems: String) {
        self.set_state(ConfigFileState::Invalid);
        let recorder = self.context.recorder;
        recorder.record(Event::ConfigurationRefused(problems));
    }

    fn read_failed(&mut self, error: &io::Error) {
        self.failed_reads = self.failed_reads.saturating_add(1);
        if self.failed_reads == FAILURES_UNTIL_LOGGED {
            let path = self.last.path.display().to_string();
            error!(
                %path, cause = %error,
                "cannot read the configuration file `{path}`; still running with the previous \
                 configuration, so Services are not affected. Restore the file before the next \
                 restart, which would fail"
            );
            self.record_unusable(format!("`{path}`: {error}"));
            self.last.text.clear();
        }
    }

    fn set_state(&mut self, state: ConfigFileState) {
        self.context.metrics.config.set(state);
    }

    /// Waits until the file may have changed.
    async fn wait(&self, events: &mut FileEvents) {
        let retries = (1..FAILURES_UNTIL_LOGGED).contains(&self.failed_reads);
        let interval = if retries { RETRY_DELAY } else { POLL_INTERVAL };
        events.changed(interval).await;
    }
}

/// Checks that a process can start with a file: the configuration is valid, and its source exists.
async fn validate(file: &ConfigFile, context: &ConfigFileContext<'_>) -> Result<(), String> {
    let config = (context.load)(file)?;
    match sources::open(&config.rules, &context.metrics.watch).await {
        Ok(_) => Ok(()),
        Err(missing) => Err(format!("{missing:#}")),
    }
}

/// Returns the directory of the file, where the links of a ConfigMap volume are swapped, and the
/// directory of the target if the file is a link. It is another one after a swap.
fn directories(path: &Path) -> BTreeSet<PathBuf> {
    let absolute = std::path::absolute(path).ok();
    let paths = [absolute, path.canonicalize().ok()].into_iter().flatten();
    paths
        .filter_map(|path| path.parent().map(Path::to_owned))
        .collect()
}
