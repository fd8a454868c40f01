//! Watches the configuration file. A valid change shuts the process down, so that kubelet or the
//! service manager restarts it with the new configuration.
//!
//! An invalid configuration is only logged: the previous one is better than none, on every node of
//! a cluster at once. All other modules may assume that their options never change.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `initWatcher`, pkg/util/filesystem/watcher.go
//! (v1.36)
//!
//! Differs from upstream: the content of the file is compared. The swap of a ConfigMap volume is
//! noticed, which upstream misses, and so is a file that was moved there; rewriting the same
//! content is not a change. Upstream exits even if it cannot start with the new file. Where
//! watching fails, which makes upstream exit, the file is read every minute.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::sources;
use crate::config::{Config, ConfigFile};
use crate::events::{Event as RecordedEvent, Recorder};
use crate::telemetry::WatchMetrics;
use crate::watch::bounded;

/// Time without a file event before the file is read. A shorter one reads half-written files and
/// restarts once too often; a longer one delays the restart.
const QUIET_PERIOD: Duration = Duration::from_millis(200);

/// Maximum wait for the quiet period, for directories that change all the time.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Failed reads in a row before the failure is logged: a file that is being replaced may be
/// missing for a moment.
const FAILURES_UNTIL_LOGGED: u32 = 2;

/// Retry delay of a failed read.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Interval of reads without a file event, for file systems that report none, like NFS, and for
/// links to links.
const READ_INTERVAL: Duration = Duration::from_secs(60);

/// Reason of a shutdown: the file holds another valid configuration than at the start.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` has changed; exiting to restart with the new configuration")]
pub(super) struct ConfigFileChanged(String);

/// Returns the configuration of a process that is started with this file, or its problems.
pub(crate) type LoadConfig<'a> = dyn Fn(&ConfigFile) -> Result<Config, String> + 'a;

/// Completes when the file holds another valid configuration; never without a file. Pipes are not
/// watched: they were read to their end, and opening one again blocks until another program
/// writes.
pub(super) async fn changed(
    file: Option<&ConfigFile>,
    load: &LoadConfig<'_>,
    recorder: &Recorder,
    metrics: &WatchMetrics,
) -> ConfigFileChanged {
    let Some(file) = file.filter(|file| bounded::is_file(&file.path)) else {
        return std::future::pending().await;
    };
    let changed = Arc::new(Notify::new());
    let _watcher = watch(&file.path, Arc::clone(&changed)).inspect_err(|error| {
        warn!(%error, "cannot watch the configuration file; reading it every minute instead");
    });
    let mut known = file.clone();
    let mut failed_reads = 0_u32;
    loop {
        match bounded::file_to_string(&file.path, bounded::MAX_CONFIG_BYTES) {
            Ok(text) if text == known.text => failed_reads = 0,
            Ok(text) if text == file.text => {
                info!(
                    "`{}` holds the running configuration again",
                    file.path.display()
                );
                (failed_reads, known.text) = (0, text);
            }
            Ok(text) => {
                (failed_reads, known.text) = (0, text);
                match validate(&known, load, metrics).await {
                    Ok(()) => return ConfigFileChanged(file.path.display().to_string()),
                    Err(problems) => report_invalid(&known, problems, recorder),
                }
            }
            Err(error) => {
                failed_reads = failed_reads.saturating_add(1);
                if failed_reads == FAILURES_UNTIL_LOGGED {
                    report_invalid(
                        &known,
                        format!("`{}`: {error}", file.path.display()),
                        recorder,
                    );
                    known.text.clear();
                }
            }
        }
        let interval = if (1..FAILURES_UNTIL_LOGGED).contains(&failed_reads) {
            RETRY_DELAY
        } else {
            READ_INTERVAL
        };
        if timeout(interval, changed.notified()).await.is_ok() {
            let quiet = async { while timeout(QUIET_PERIOD, changed.notified()).await.is_ok() {} };
            let _ = timeout(MAX_WAIT, quiet).await;
        }
    }
}

/// Checks that a process can start with a file: the configuration is valid, and its source exists.
async fn validate(
    file: &ConfigFile,
    load: &LoadConfig<'_>,
    metrics: &WatchMetrics,
) -> Result<(), String> {
    let config = load(file)?;
    match sources::open(&config.rules, metrics).await {
        Ok(_) => Ok(()),
        Err(missing) => Err(format!("{missing:#}")),
    }
}

fn report_invalid(file: &ConfigFile, problems: String, recorder: &Recorder) {
    let path = file.path.display();
    error!(
        "new configuration in `{path}` is invalid; still running with the previous one. Fix it \
         before the next restart:\n{problems}"
    );
    recorder.say(RecordedEvent::ConfigurationRefused(problems));
}

/// Watches the directory of the file, where the links of a ConfigMap volume are swapped, and the
/// directory of the target if the file is a link.
fn watch(path: &Path, changed: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // An error may mean lost events.
        if event.map_or(true, |event| !event.kind.is_access()) {
            changed.notify_one();
        }
    })?;
    let path = std::path::absolute(path)?;
    let target = path.canonicalize()?;
    for directory in [path.parent(), target.parent()].into_iter().flatten() {
        watcher.watch(directory, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}
