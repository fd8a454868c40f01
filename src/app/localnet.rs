//! Opens 127.0.0.0/8 for NodePorts, once the rule is in place that keeps neighbors out.
//!
//! With `net.ipv4.conf.all.route_localnet` the kernel accepts packets for 127.0.0.0/8 from the
//! network: without the rule in `KUBE-FIREWALL`, a neighbor reaches whatever listens on localhost.
//!
//! Differs from upstream: there the setting is written first, and until the first sync has
//! succeeded, which takes a while or for ever, nothing guards localhost.

use anyhow::Context;
use tokio::sync::oneshot;
use tracing::{error, info};

use crate::host::{
    Changed, Exec, Iptables, ListedChains, ROUTE_LOCALNET, RunError, SysctlError, Sysctls,
};
use crate::render::{FIREWALL, JUMPS, Options, localnet_guard};
use crate::rules::{Table, Text};
use crate::sync::Surroundings;

/// Reason given with errors about the setting.
const PURPOSE: &str =
    "NodePorts on 127.0.0.1 need a setting, unless --iptables-localhost-nodeports=false";

/// Checks at the start that the setting is there or can be written later.
///
/// # Errors
///
/// The setting is neither 1 nor writable.
pub(super) fn check(sysctls: &Sysctls) -> anyhow::Result<()> {
    sysctls.check(ROUTE_LOCALNET, 1).context(PURPOSE)
}

/// Writes the setting, if it is needed, as soon as the first sync has succeeded: the rule is in
/// place then. Never ends.
pub(super) async fn open_after<T>(applied: oneshot::Receiver<()>, is_needed: bool) -> T {
    if applied.await.is_ok() && is_needed {
        match open() {
            Ok(Changed::Yes) => info!("{ROUTE_LOCALNET} is 1 now: NodePorts answer on 127.0.0.1"),
            Ok(Changed::No) => {}
            Err(cause) => error!("NodePorts do not answer on 127.0.0.1: {cause}"),
        }
    }
    std::future::pending().await
}

/// Puts the rule in place and writes the setting, for a daemon that may not.
///
/// # Errors
///
/// One of the two cannot be written. Without the rule, the setting is not.
pub(super) async fn guard_and_open(exec: &Exec, surroundings: &Surroundings) -> anyhow::Result<()> {
    let sysctls = Sysctls::default();
    let is_open = sysctls.read(ROUTE_LOCALNET).is_ok_and(|value| value == 1);
    if !surroundings.needs_route_localnet() || is_open {
        return Ok(());
    }
    if let Some(payload) = guard(exec, &surroundings.fixed).await? {
        exec.restore(&mut Text::new(payload))
            .await
            .context("cannot guard 127.0.0.0/8 against neighbors")?;
        info!("127.0.0.0/8 is guarded against neighbors by a rule in {FIREWALL}");
    }
    open().context(PURPOSE)?;
    Ok(())
}

fn open() -> Result<Changed, SysctlError> {
    Sysctls::default().ensure(ROUTE_LOCALNET, 1)
}

/// Payload with what is missing of the rule, its chain and the jumps there; `None` if nothing is.
/// Rules of kubelet in the chain stay.
async fn guard(exec: &Exec, options: &Options) -> Result<Option<Vec<u8>>, RunError> {
    let table = Table::Filter;
    let Some(rule) = localnet_guard(options) else {
        return Ok(None);
    };
    let mut lines = Vec::new();
    let listed = exec.list(table, &[FIREWALL]).await?;
    if matches!(listed, ListedChains::Missing) {
        lines.push(format!(":{FIREWALL} - [0:0]"));
    }
    if !has(exec, FIREWALL, &rule).await? {
        lines.push(format!("-I {FIREWALL} {rule}"));
    }
    let to_firewall = format!("-j {FIREWALL}");
    for jump in JUMPS.iter().filter(|jump| jump.rule == to_firewall) {
        if !has(exec, jump.from, jump.rule).await? {
            lines.push(format!("-I {} {}", jump.from, jump.rule));
        }
    }
    let payload = format!("*{table}\n{}\nCOMMIT\n", lines.join("\n"));
    Ok((!lines.is_empty()).then(|| payload.into_bytes()))
}

/// A rule behind one that cannot be printed is written once more, before that.
async fn has(exec: &Exec, chain: &str, rule: &str) -> Result<bool, RunError> {
    match exec.has(Table::Filter, chain, rule).await {
        Err(RunError::Unprintable { .. }) => Ok(false),
        answer => answer,
    }
}
