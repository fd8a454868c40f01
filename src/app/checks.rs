//! What answers health checks and says what happened, before there is anything to answer or say.
//!
//! Apart because whether anybody is told depends on where objects come from.

use tracing::warn;

use crate::config::{Config, Source, environment};
use crate::events::{Event, Origin, Recorder, Writer, recorder};
use crate::health::{Checks, Health};
use crate::host::raise_open_files;
use crate::telemetry::ConnectionLimit;

/// Connections of health checks, all Services together: some hundred Services, each with some
/// probers that keep theirs open. Some kilobytes each.
const CONNECTIONS: usize = 1024;

/// The parts, and who writes events down: an API server has use for them, unless nothing really
/// happens. The first event is that the process starts.
pub(super) fn prepare(config: &Config) -> (Checks, Option<Writer>) {
    let (recorder, writer) = match config.rules.source {
        Source::Cluster(_) if !config.is_dry_run => {
            let (recorder, writer) = recorder(Origin {
                node_name: config.rules.node_name.clone(),
                host_name: environment::host_name(),
            });
            (recorder, Some(writer))
        }
        _ => (Recorder::to_nobody(), None),
    };
    recorder.say(Event::Starting);
    if let Err(cause) = raise_open_files() {
        warn!("there may be too few sockets for health checks: {cause}");
    }
    let checks = Checks {
        health: Health::new(config.sync_period),
        recorder,
        node_name: config.rules.node_name.clone(),
        connection_limit: ConnectionLimit::new(CONNECTIONS),
    };
    (checks, writer)
}
