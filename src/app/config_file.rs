//! Waits for the configuration file to say something else, which is the end of this process:
//! whatever runs it starts it again, with the new configuration. Unless that could not be run with:
//! then the old one is better than none, on every node of a cluster at once.
//!
//! Apart because everything else in this program may assume that its options never change.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `initWatcher`, pkg/util/filesystem/watcher.go (v1.36)
//!
//! Differs from upstream: what counts is the content behind the path. The swap of a ConfigMap
//! volume is seen, which upstream misses, and so is a file that was moved there; writing the same
//! again is no change. What upstream would not start with ends it all the same. Where watching
//! fails, which ends upstream, the file is looked at every minute.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::sources;
use crate::config::{Config, ConfigFile};
use crate::events::{Event as Told, Recorder};
use crate::telemetry::WatchMetrics;
use crate::watch::bounded;

/// How long nothing must happen before the file is read. Shorter reads halves of files, and a
/// restart too many; longer delays the restart.
const QUIET: Duration = Duration::from_millis(200);

/// A directory in which something always changes is still looked at this often.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// How often in a row the file may be unreadable before it is told: it may be gone for a moment
/// while it is exchanged.
const TRIES: u32 = 2;

/// How soon what could not be read is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// For file systems that do not tell, like NFS, and links to links.
const RELOOK: Duration = Duration::from_secs(60);

/// The configuration is not what it was when this process began.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` has changed; ending, to be started again with what it says")]
pub(super) struct Changed(String);

/// What a process would run with if it were started with a file; if it could not be, why.
pub type Judge<'a> = dyn Fn(&ConfigFile) -> Result<Config, String> + 'a;

/// Ends when the file says something else that can be run with; never, if there is none. A pipe was
/// read to its end, and opening it again would wait for somebody to write, with all of the program.
pub(super) async fn changed(
    file: Option<&ConfigFile>,
    judge: &Judge<'_>,
    recorder: &Recorder,
    metrics: &WatchMetrics,
) -> Changed {
    let Some(file) = file.filter(|file| bounded::is_file(&file.path)) else {
        return std::future::pending().await;
    };
    let changed = Arc::new(Notify::new());
    let _watcher = watch(&file.path, Arc::clone(&changed))
        .inspect_err(|error| warn!("the configuration is looked at every minute only: {error}"));
    let mut known = file.clone();
    let mut unread = 0_u32;
    loop {
        match bounded::file_to_string(&file.path, bounded::LARGEST_CONFIGURATION) {
            Ok(text) if text == known.text => unread = 0,
            Ok(text) if text == file.text => {
                info!("`{}` says again what is run with", file.path.display());
                (unread, known.text) = (0, text);
            }
            Ok(text) => {
                (unread, known.text) = (0, text);
                match judged(&known, judge, metrics).await {
                    Ok(()) => return Changed(file.path.display().to_string()),
                    Err(problems) => refuse(&known, problems, recorder),
                }
            }
            Err(error) => {
                unread = unread.saturating_add(1);
                if unread == TRIES {
                    refuse(
                        &known,
                        format!("`{}`: {error}", file.path.display()),
                        recorder,
                    );
                    known.text.clear();
                }
            }
        }
        let relook = if (1..TRIES).contains(&unread) {
            RETRY
        } else {
            RELOOK
        };
        if timeout(relook, changed.notified()).await.is_ok() {
            let quiet = async { while timeout(QUIET, changed.notified()).await.is_ok() {} };
            let _ = timeout(LONGEST_WAIT, quiet).await;
        }
    }
}

/// Whether a process could be started with a file: it says nothing impossible, and the source that
/// it names is there.
async fn judged(
    file: &ConfigFile,
    judge: &Judge<'_>,
    metrics: &WatchMetrics,
) -> Result<(), String> {
    let config = judge(file)?;
    match sources::open(&config.rules, metrics).await {
        Ok(_) => Ok(()),
        Err(missing) => Err(format!("{missing:#}")),
    }
}

fn refuse(file: &ConfigFile, problems: String, recorder: &Recorder) {
    let path = file.path.display();
    error!(
        "`{path}` has changed to what cannot be used; going on with what it said before. A restart \
         would fail:\n{problems}"
    );
    recorder.say(Told::ConfigurationRefused(problems));
}

/// Watches the directory of the file, in which a ConfigMap is swapped, and that of what it may be
/// a link to.
fn watch(path: &Path, changed: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // An error may stand for lost events.
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
