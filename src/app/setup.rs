//! Sets this machine up: what is done once, before there are any rules, and takes privileges.
//!
//! Apart from the families, which come later and go on for ever, so that it can be done alone: by
//! an init container that has the right to, for a daemon that has not.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/server_linux.go`, `platformSetup`, `platformCheckSupported`
//! (v1.36)
//!
//! Differs from upstream: the API server is not waited for, as nothing here depends on it.

use anyhow::{Context, bail};
use tokio::runtime::Builder;
use tracing::{info, warn};

use super::localnet;
use super::programs::{is_lasting, programs, surroundings};
use crate::config::{Config, NodeSettings};
use crate::host::{
    Changed, Exec, IPVS_INTERFACE, IPVS_REMEDY, Options, RunError, Sysctls, has_interface,
    processors, remove_nft_table, set_oom_score_adj,
};
use crate::net::IpFamily;

/// `run --init-only`: sets everything up that takes privileges, for a daemon that has fewer, and
/// ends.
pub fn init(config: &Config) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(everything(config))
}

async fn everything(config: &Config) -> anyhow::Result<()> {
    if config.is_dry_run {
        info!("--dry-run: nothing is set up");
        return Ok(());
    }
    machine(&config.node)?;
    let mut lacking: Option<RunError> = None;
    let mut usable = 0;
    for family in IpFamily::ALL {
        if Sysctls::default().lacks(family) {
            info!(%family, "this machine has no IPv6");
            continue;
        }
        // Asking for a table loads its modules, which takes rights as well.
        match programs(config, family).await {
            Ok(programs) => {
                let surroundings = surroundings(config, &programs)?;
                info!(%family, version = %programs.version, "found iptables");
                let exec = Exec::new(programs, Options::default());
                localnet::guard_and_open(&exec, &surroundings).await?;
                usable += 1;
            }
            Err(cause) if is_lasting(&cause) => {
                warn!(%family, %cause, "cannot be programmed");
                lacking.get_or_insert(cause);
            }
            Err(cause) => return Err(cause.into()),
        }
    }
    if usable == 0 {
        let cause = lacking.map_or_else(String::new, |cause| format!(": {cause}"));
        bail!("this machine cannot be programmed{cause}");
    }
    info!("all is set up that takes privileges; --init-only ends here");
    Ok(())
}

/// What a daemon does of it first. A daemon without privileges finds all of it done.
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
    for family in IpFamily::ALL {
        match remove_nft_table(family) {
            Ok(Changed::No) => {}
            Ok(Changed::Yes) => info!(%family, "removed the table that mode nftables left"),
            Err(cause) => {
                warn!(%family, %cause, "cannot tell whether mode nftables left a table");
            }
        }
    }
    if has_interface(IPVS_INTERFACE) {
        warn!(
            "mode ipvs left `{IPVS_INTERFACE}`, which takes packets to Services that are gone; \
             {IPVS_REMEDY}"
        );
    }
    Ok(())
}
