//! What asks this process to end: two signals, and another configuration.
//!
//! Apart because all of them end it alike, in order, and the rules stay.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;

use super::config_file::{self, Judge};
use crate::config::ConfigFile;
use crate::events::Recorder;
use crate::telemetry::WatchMetrics;

/// How long the API server may take to note why the process ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Catches signals from now on.
pub(super) struct Ending {
    terminate: Signal,
    interrupt: Signal,
}

impl Ending {
    pub(super) fn prepare() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits until the process is to end.
    ///
    /// # Errors
    ///
    /// It is to end as if it had failed, for it to be started again.
    pub(super) async fn asked(
        &mut self,
        file: Option<&ConfigFile>,
        judge: &Judge<'_>,
        recorder: &Recorder,
        metrics: &WatchMetrics,
    ) -> anyhow::Result<()> {
        let signal = tokio::select! {
            changed = config_file::changed(file, judge, recorder, metrics) => {
                return Err(changed.into());
            }
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        info!("{signal}: ending; the rules stay");
        Ok(())
    }
}

/// Lets what was said last reach the API server, which `source` talks to.
pub(super) async fn tell(recorder: &Recorder, source: impl Future) {
    let told = tokio::time::timeout(LAST_WORDS, recorder.flush());
    tokio::select! {
        _ = source => {}
        _ = told => {}
    }
}
