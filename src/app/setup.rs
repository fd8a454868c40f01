//! Sets this machine up: what is done once, before there are any rules, and takes privileges.
//!
//! Apart from the families, which come later and go on for ever.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/server_linux.go`, `platformSetup`, `platformCheckSupported` (v1.36)
//!
//! Differs from upstream: the API server is not waited for, as nothing here depends on it.

use anyhow::Context;
use tracing::info;

use crate::config::{Config, NodeSettings};
use crate::host::{Changed, Sysctls, processors, set_oom_score_adj};

/// What a daemon does first. A daemon without privileges may find all of it done.
pub(super) fn begin(config: &Config) -> anyhow::Result<()> {
    if config.is_dry_run {
        return Ok(());
    }
    machine(&config.node)?;
    let score = config.node.oom_score_adj;
    match set_oom_score_adj(score) {
        Ok(Changed::Yes) => info!("oom_score_adj is {score} now"),
        Ok(Changed::No) => {}
        // Kubelet has set that of a Pod by its priority, and nothing else depends on it.
        Err(cause) => info!(%cause, "oom_score_adj stays as it is, and is not {score}"),
    }
    Ok(())
}

/// # Errors
///
/// A kernel setting is not what it has to be.
fn machine(settings: &NodeSettings) -> anyhow::Result<()> {
    let sysctls = Sysctls::default();
    for wanted in settings.conntrack.wanted(processors()) {
        let written = wanted.apply(&sysctls).with_context(|| {
            let (flag, value) = (wanted.flag, wanted.value);
            format!("--{flag}, of which 0 leaves the setting as it is, asks for {value}")
        })?;
        if let Some(written) = written {
            info!("set {written}");
        }
    }
    Ok(())
}
