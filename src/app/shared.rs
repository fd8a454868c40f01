//! What the families and the servers of one process have in common.

use std::time::SystemTime;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::config::{Config, Profiling};
use crate::health::Watchdog;
use crate::host::{KeepApplied, PayloadHooks, PayloadLog};

/// Parts that threads share.
pub(super) struct Shared {
    pub(super) watchdog: Watchdog,
    /// The last payloads; `None`: no setting asks for them, so that none is copied.
    pub(super) payloads: Option<PayloadLog>,
    pub(super) stop: CancellationToken,
}

/// The last payloads, where a page or a file shows them.
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
