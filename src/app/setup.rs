//! Sets up the node: kernel settings, iptables binaries, and 127.0.0.0/8 for NodePorts.
//!
//! All that takes privileges can run alone, in an init container, for a daemon without them.
//!
//! With `net.ipv4.conf.all.route_localnet` the kernel accepts packets to 127.0.0.0/8 from the
//! network: without the rule in `KUBE-FIREWALL`, other hosts on the link reach all services on
//! localhost. So the rule is written first.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/server_linux.go`, `platformSetup`, `platformCheckSupported`,
//! pkg/proxy/iptables/proxier.go, `NewProxier` (v1.37)
//!
//! Differs from upstream: setup does not wait for the API server, as nothing here depends on it.
//! kube-proxy writes `route_localnet` before the first sync, which may take long or fail forever;
//! until then no rule protects localhost.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use crate::config::{Config, NodeSettings};
use crate::host::{
    Binaries, Changed, Exec, IPVS_INTERFACE, IPVS_REMEDY, Iptables, ListedChains, ProgramExit,
    ROUTE_LOCALNET, RunError, SysctlError, Sysctls, TCP_BE_LIBERAL, has_interface, processors,
    remove_nft_table, set_oom_score_adj,
};
use crate::net::IpFamily;
use crate::render::RenderSettings;
use crate::render::{JUMPS, Options, localnet_drop_rule};
use crate::rules::{Table, Text};
use crate::ruleset::KUBE_FIREWALL;
use crate::sync::SyncMode;
use crate::telemetry::on_one_line;

/// Adds to an error about `route_localnet` what needs it.
fn localnet_error(error: &SysctlError) -> anyhow::Error {
    anyhow!(
        "{error}\nhint: NodePorts on 127.0.0.1 require it; --iptables-localhost-nodeports=false \
         turns them off"
    )
}

/// Runs `run --init-only`: does all setup that takes privileges, and exits.
pub(crate) fn init(config: &Config) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(set_up(config))
}

async fn set_up(config: &Config) -> anyhow::Result<()> {
    if config.mode != SyncMode::Restore {
        info!("--dry-run or --shadow: node setup skipped");
        return Ok(());
    }
    apply_settings(&config.node)?;
    let mut failure: Option<RunError> = None;
    let mut usable_families = 0;
    for family in IpFamily::ALL {
        if Sysctls::default().lacks(family) {
            info!(%family, "the kernel has no IPv6; IPv6 is disabled");
            continue;
        }
        // Listing a table loads its kernel modules, which takes privileges as well.
        match find_binaries(config, family).await {
            Ok(binaries) => {
                let render_settings = render_settings(config, &binaries)?;
                info!(%family, version = %binaries.version, "found iptables");
                let exec = Exec::new(binaries);
                guard_and_open_localnet(&exec, &render_settings).await?;
                usable_families += 1;
            }
            Err(cause) if is_permanent(&cause) => {
                let text = on_one_line(&cause.to_string());
                warn!(
                    %family, cause = %text,
                    "iptables is not usable for {family}; its node setup is skipped, and the daemon \
                     will disable {family} if it meets the same failure. If the cluster uses \
                     {family}, fix the cause and restart"
                );
                failure.get_or_insert(cause);
            }
            Err(cause) => return Err(cause.into()),
        }
    }
    if usable_families == 0 {
        let cause = failure.map_or_else(String::new, |cause| format!(": {cause}"));
        bail!("iptables is not usable on this node{cause}");
    }
    info!("privileged setup is complete; exiting because of --init-only");
    Ok(())
}

/// Applies the kernel settings at the start of the daemon. Without privileges it finds them
/// applied by the init container.
pub(super) fn prepare(config: &Config) -> anyhow::Result<()> {
    if config.mode != SyncMode::Restore {
        return Ok(());
    }
    apply_settings(&config.node)?;
    let score = config.node.oom_score_adj;
    match set_oom_score_adj(score) {
        Ok(Changed::Yes) => info!("set oom_score_adj to {score}"),
        Ok(Changed::No) => {}
        // Kubelet sets it for a Pod by its priority, and nothing else depends on it.
        Err(cause) => info!(%cause, "cannot set oom_score_adj to {score}; leaving it unchanged"),
    }
    Ok(())
}

/// Applies kernel settings, and warns of what mode ipvs left.
///
/// # Errors
///
/// A kernel setting has another value and cannot be written.
fn apply_settings(settings: &NodeSettings) -> anyhow::Result<()> {
    let sysctls = Sysctls::default();
    for wanted in settings.conntrack.desired_sysctls(processors()) {
        let written = wanted.apply(&sysctls).map_err(|error| {
            let (flag, value) = (wanted.flag, wanted.value);
            anyhow!("{error}\nhint: --{flag} requires {value}; with 0, the setting is not changed")
        })?;
        if let Some(written) = written {
            info!("set {written}");
        }
    }
    if has_interface(IPVS_INTERFACE) {
        warn!(
            "kube-proxy's ipvs mode left interface `{IPVS_INTERFACE}`, which accepts packets to \
             deleted Services; {IPVS_REMEDY}"
        );
    }
    Ok(())
}

/// Reports whether a retry would fail as well: a binary is missing or too old, or the kernel lacks
/// a feature it needs. After a timeout of the lock, or a kill, a retry may succeed.
pub(super) fn is_permanent(cause: &RunError) -> bool {
    match cause {
        RunError::Spawn { .. } | RunError::TooOld { .. } => true,
        RunError::Failed { exit, stderr, .. } => {
            matches!(exit, ProgramExit::Exited(_)) && !stderr.contains("xtables lock")
        }
        // The kernel has the table, and the rule that cannot be printed may be removed.
        RunError::Unprintable { .. } => false,
    }
}

/// Finds the iptables binaries of a family, and probes that they work with the kernel. A dry run
/// does not probe, so it needs no root.
pub(super) async fn find_binaries(config: &Config, family: IpFamily) -> Result<Binaries, RunError> {
    match config.mode {
        SyncMode::Restore | SyncMode::Shadow => {
            Binaries::discover_usable(config.rules.backend, family).await
        }
        SyncMode::DryRun => Binaries::discover(config.rules.backend, family).await,
    }
}

/// Returns the render settings of a family: flags, and features of kernel and binaries.
pub(super) fn render_settings(
    config: &Config,
    binaries: &Binaries,
) -> anyhow::Result<RenderSettings> {
    let mut render_settings = config.rules.render_settings.get(binaries.family).clone();
    let sysctls = Sysctls::default();
    if render_settings.needs_route_localnet() && config.mode == SyncMode::Restore {
        // Fails early if the setting is neither 1 nor writable later.
        sysctls
            .check(ROUTE_LOCALNET, 1)
            .map_err(|error| localnet_error(&error))?;
    }
    let fixed = &mut render_settings.fixed;
    fixed.backend = binaries.backend();
    if sysctls.read(TCP_BE_LIBERAL).is_ok_and(|value| value != 0) {
        fixed.drops_invalid_packets = false;
    }
    Ok(render_settings)
}

/// Retry delay of the removal of the table of mode nftables.
const TABLE_RETRY_DELAY: Duration = Duration::from_secs(60);

/// Maximum attempts: what fails for minutes, such as for want of a privilege, fails forever.
const MOST_TABLE_RETRIES: u32 = 5;

/// Completes the setup for a family once its first sync has succeeded: removes the table of mode
/// nftables, and opens 127.0.0.0/8 for NodePorts, if needed. Never returns.
///
/// Differs from upstream: kube-proxy removes the table before it writes rules, and no Service is
/// reachable in between.
pub(super) async fn complete_after<T>(
    applied: oneshot::Receiver<()>,
    family: IpFamily,
    needs_localnet: bool,
) -> T {
    if applied.await.is_ok() {
        if needs_localnet {
            open_localnet_now();
        }
        for _ in 0..MOST_TABLE_RETRIES {
            if remove_table_of_nftables_mode(family) {
                break;
            }
            tokio::time::sleep(TABLE_RETRY_DELAY).await;
        }
    }
    std::future::pending().await
}

/// Returns false if the table may still be there.
fn remove_table_of_nftables_mode(family: IpFamily) -> bool {
    match remove_nft_table(family) {
        Ok(Changed::No) => {}
        Ok(Changed::Yes) => info!(%family, "removed the table of kube-proxy's nftables mode"),
        Err(cause) => {
            let cause = on_one_line(&cause.to_string());
            warn!(
                %family, %cause,
                "cannot remove, or look for, the table of kube-proxy's nftables mode; retrying in \
                 {TABLE_RETRY_DELAY:?}"
            );
            return false;
        }
    }
    true
}

/// Opens 127.0.0.0/8 when the rule is in place, and logs a failure.
fn open_localnet_now() {
    match open_localnet() {
        Ok(Changed::Yes) => info!("set {ROUTE_LOCALNET} to 1: NodePorts work on 127.0.0.1"),
        Ok(Changed::No) => {}
        Err(cause) => {
            let cause = on_one_line(&cause.to_string());
            error!(%cause, "NodePorts do not work on 127.0.0.1: cannot set {ROUTE_LOCALNET}");
        }
    }
}

/// Writes the rule, then the setting, for a daemon without the privilege.
///
/// # Errors
///
/// One of the two cannot be written. Without the rule, the setting is not written.
async fn guard_and_open_localnet(
    exec: &Exec,
    render_settings: &RenderSettings,
) -> anyhow::Result<()> {
    let sysctls = Sysctls::default();
    let is_open = sysctls.read(ROUTE_LOCALNET).is_ok_and(|value| value == 1);
    if !render_settings.needs_route_localnet() || is_open {
        return Ok(());
    }
    if let Some(payload) = missing_guard(exec, &render_settings.fixed).await? {
        exec.restore(&mut Text::new(payload), None)
            .await
            .context("cannot add the rule that protects 127.0.0.0/8 from other hosts")?;
        info!("added a rule to {KUBE_FIREWALL} that protects 127.0.0.0/8 from other hosts");
    }
    open_localnet().map_err(|error| localnet_error(&error))?;
    Ok(())
}

fn open_localnet() -> Result<Changed, SysctlError> {
    Sysctls::default().ensure(ROUTE_LOCALNET, 1)
}

/// Returns a payload with the missing parts of the rule, its chain and the jumps to it; `None` if
/// none is missing. Rules of kubelet in the chain stay.
async fn missing_guard(exec: &Exec, options: &Options) -> Result<Option<Vec<u8>>, RunError> {
    let table = Table::Filter;
    let Some(rule) = localnet_drop_rule(options) else {
        return Ok(None);
    };
    let mut lines = Vec::new();
    let listed = exec.list(table, &[KUBE_FIREWALL]).await?;
    if matches!(listed, ListedChains::Missing) {
        lines.push(format!(":{KUBE_FIREWALL} - [0:0]"));
    }
    if !has_rule(exec, KUBE_FIREWALL, &rule).await? {
        lines.push(format!("-I {KUBE_FIREWALL} {rule}"));
    }
    let to_firewall = format!("-j {KUBE_FIREWALL}");
    for jump in JUMPS.iter().filter(|jump| jump.rule == to_firewall) {
        if !has_rule(exec, jump.from, jump.rule).await? {
            lines.push(format!("-I {} {}", jump.from, jump.rule));
        }
    }
    let payload = format!("*{table}\n{}\nCOMMIT\n", lines.join("\n"));
    Ok((!lines.is_empty()).then(|| payload.into_bytes()))
}

/// Reports whether a chain has a rule. Behind a rule that cannot be printed it counts as missing,
/// and is written again before that one.
async fn has_rule(exec: &Exec, chain: &str, rule: &str) -> Result<bool, RunError> {
    match exec.has(Table::Filter, chain, rule).await {
        Err(RunError::Unprintable { .. }) => Ok(false),
        result => result,
    }
}
