//! What a family has on this machine: its programs, and what they and the kernel can do.
//!
//! Apart from [`families`](super::families), which go on with it, because [`setup`](super::setup)
//! asks the same before there are any.

use super::localnet;
use crate::config::Config;
use crate::host::{Ending, Programs, RunError, Sysctls, TCP_BE_LIBERAL};
use crate::net::IpFamily;
use crate::render::InvalidPackets;
use crate::sync::Surroundings;

/// Whether a program that failed so would fail again: it is missing, or the kernel lacks what it
/// needs. One that could not get the lock, or was killed, may do better next time.
pub(super) fn is_lasting(cause: &RunError) -> bool {
    match cause {
        RunError::Spawn { .. } => true,
        RunError::Failed { ending, stderr, .. } => {
            matches!(ending, Ending::Exited(_)) && !stderr.contains("xtables lock")
        }
        // The kernel has the table, and somebody may take the rules out again.
        RunError::Unprintable { .. } => false,
    }
}

/// A dry run asks the kernel nothing: that needs no root.
pub(super) async fn programs(config: &Config, family: IpFamily) -> Result<Programs, RunError> {
    let programs = Programs::discover(config.rules.backend, family).await?;
    if !config.is_dry_run {
        programs.probe().await?;
    }
    Ok(programs)
}

/// What the flags say, with what this machine is.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `NewProxier` (v1.36)
pub(super) fn surroundings(config: &Config, programs: &Programs) -> anyhow::Result<Surroundings> {
    let mut surroundings = config.rules.surroundings.get(programs.family).clone();
    let sysctls = Sysctls::default();
    if surroundings.needs_route_localnet() && !config.is_dry_run {
        localnet::check(&sysctls)?;
    }
    let fixed = &mut surroundings.fixed;
    fixed.backend = programs.backend();
    fixed.masquerade.is_random_fully = programs.version.features().random_fully;
    if sysctls.read(TCP_BE_LIBERAL).is_ok_and(|value| value != 0) {
        fixed.invalid_packets = InvalidPackets::Forwarded;
    }
    Ok(surroundings)
}
