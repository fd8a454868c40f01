//! Parts of the process that its threads share.

use std::time::SystemTime;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::config::{Config, Profiling, Source, environment};
use crate::events::{Event, Origin, Recorder, Writer, recorder};
use crate::health::{CheckServerContext, Health, Watchdog};
use crate::host::{KeepApplied, PayloadHooks, PayloadLog, raise_open_files};
use crate::telemetry::ConnectionLimit;

/// Maximum connections of health check node ports, all Services together: some hundred Services,
/// each with some probers that keep theirs open. A connection takes some kilobytes.
const MAX_CHECK_CONNECTIONS: usize = 1024;

/// Parts that the threads of both families and of the servers share.
pub(super) struct Shared {
    pub(super) watchdog: Watchdog,
    /// Last payloads; `None`: no setting asks for them, so that none is copied.
    pub(super) payloads: Option<PayloadLog>,
    pub(super) stop: CancellationToken,
}

/// Returns the parts of health checks, and the writer of Events: only with an API server, and not
/// in a dry run. Records that the process starts.
pub(super) fn health_checks(config: &Config) -> (CheckServerContext, Option<Writer>) {
    let (recorder, writer) = match config.rules.source {
        Source::Cluster(_) if !config.is_dry_run => {
            let (recorder, writer) = recorder(Origin {
                node_name: config.rules.node_name.clone(),
                host_name: environment::host_name(),
            });
            (recorder, Some(writer))
        }
        _ => (Recorder::disabled(), None),
    };
    recorder.say(Event::Starting);
    if let Err(cause) = raise_open_files() {
        warn!(
            %cause,
            "cannot raise the limit of open files; health check node ports may run out of sockets"
        );
    }
    let checks = CheckServerContext {
        health: Health::new(config.sync_period),
        recorder,
        node_name: config.rules.node_name.clone(),
        connection_limit: ConnectionLimit::new(MAX_CHECK_CONNECTIONS),
    };
    (checks, writer)
}

/// Returns the log of the last payloads, if a page or a file shows them.
pub(super) fn payload_log(config: &Config) -> Option<PayloadLog> {
    let keep_applied = match config.serving.profiling {
        Profiling::On => KeepApplied::Last,
        Profiling::Off => KeepApplied::No,
    };
    if keep_applied == KeepApplied::No && config.state_dir.is_none() {
        return None;
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the composition root hands out the clock"
    )]
    let hooks = PayloadHooks {
        clock: SystemTime::now,
        unwritable: |path, cause| {
            warn!(
                path = %path.display(), %cause,
                "cannot write the failed payload to --state-dir"
            );
        },
    };
    Some(PayloadLog::new(
        keep_applied,
        config.state_dir.clone(),
        hooks,
    ))
}
