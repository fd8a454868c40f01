//! The iptables binaries, the backends that have rules, and other proxies on the node.

use std::fs;
use std::path::Path;

use super::report::{CheckGroup, CheckResult, NODE_SETUP, REPLACE};
use crate::host::{
    BackendChoice, Binaries, IPVS_INTERFACE, IPVS_REMEDY, Sysctls, has_interface, has_nft_table,
    kubelet_backend, other_backend,
};
use crate::net::IpFamily;
use crate::sync::SyncMode;

/// Programs that write rules for Services.
const PROXIES: [&str; 2] = ["kube-proxy", "kube-router"];

/// Examines the programs, and returns the binaries of each family that works.
pub(super) async fn examine(choice: BackendChoice, mode: SyncMode) -> (CheckGroup, Vec<Binaries>) {
    let (mut checks, mut found) = (Vec::new(), Vec::new());
    for family in IpFamily::ALL {
        if Sysctls::default().lacks(family) {
            checks.push(CheckResult::skipped(
                format!("{family}: the kernel has none"),
                "nothing to do, unless the cluster uses it",
            ));
            continue;
        }
        match Binaries::discover(choice, family).await {
            Ok(binaries) => {
                checks.push(CheckResult::ok(format!(
                    "{family}: iptables {}",
                    binaries.version
                )));
                checks.extend(backends(&binaries).await);
                found.push(binaries);
            }
            Err(error) => checks.push(CheckResult::error(&error, NODE_SETUP)),
        }
    }
    checks.push(lock(&mount_points()));
    // A shadow runs beside a proxy, and removes nothing.
    if mode != SyncMode::Shadow {
        checks.extend(other_proxies());
    }
    (CheckGroup::new("programs", checks), found)
}

/// Compares the backend with that of kubelet, and looks for rules of a proxy in the other one.
async fn backends(binaries: &Binaries) -> Vec<CheckResult> {
    let (family, used) = (binaries.family, binaries.backend());
    let mut checks = Vec::new();
    match kubelet_backend(family).await {
        Some(hinted) if hinted == used => {
            checks.push(CheckResult::ok(format!(
                "{family}: kubelet uses {hinted} as well"
            )));
        }
        Some(hinted) => checks.push(CheckResult::failed(
            format!("{family}: kubelet uses {hinted}, and rules would be written with {used}"),
            &format!("leave out --iptables-backend, or set it to {hinted}"),
            NODE_SETUP,
        )),
        None => checks.push(CheckResult::skipped(
            format!("{family}: no hint of kubelet about its backend"),
            "it creates the chain KUBE-IPTABLES-HINT when it starts",
        )),
    }
    checks.push(match other_backend(used, family).await {
        Some(other) => CheckResult::warning(
            format!(
                "{family}: backend {other} has rules of a proxy as well; packets traverse both"
            ),
            &format!("if no proxy uses it anymore: deltaproxy cleanup --iptables-backend={other}"),
            REPLACE,
        ),
        None => CheckResult::ok(format!(
            "{family}: the other backend has no rules of a proxy"
        )),
    });
    checks
}

/// Looks for what other proxies are, or have left.
fn other_proxies() -> Vec<CheckResult> {
    let mut checks: Vec<CheckResult> = PROXIES
        .iter()
        .filter(|name| is_running(name))
        .map(|name| {
            CheckResult::warning(
                format!("{name} runs on this node"),
                "two proxies overwrite each other's rules: stop it before deltaproxy starts",
                REPLACE,
            )
        })
        .collect();
    if checks.is_empty() {
        checks.push(CheckResult::ok(
            "no other proxy runs, as far as /proc shows",
        ));
    }
    if has_interface(IPVS_INTERFACE) {
        checks.push(CheckResult::failed(
            format!(
                "kube-proxy's ipvs mode left interface `{IPVS_INTERFACE}`, which accepts packets \
                 to deleted Services"
            ),
            IPVS_REMEDY,
            REPLACE,
        ));
    }
    let tables = IpFamily::ALL.into_iter().filter_map(|family| {
        let has_table = has_nft_table(family).ok()?;
        has_table.then(|| {
            CheckResult::warning(
                format!("{family}: table `kube-proxy` of kube-proxy's nftables mode exists"),
                "deltaproxy removes it when it starts; stop that kube-proxy first",
                REPLACE,
            )
        })
    });
    checks.extend(tables);
    checks
}

/// Reports whether a process in this network namespace has this name. In a container, those of the
/// host show only with `hostPID`.
fn is_running(name: &str) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return false;
    };
    let network = |process: &Path| fs::read_link(process.join("ns/net")).ok();
    let own = network(Path::new("/proc/self"));
    processes.flatten().any(|process| {
        let process = process.path();
        let comm = fs::read_to_string(process.join("comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name) && network(&process) == own
    })
}

/// A mount of this process: its target and its file system.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    target: String,
    filesystem: String,
}

fn mount_points() -> Vec<Mount> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(mount).collect()
}

/// Reads a line of `mountinfo`: its fifth word is the target, and the word after ` - ` the file
/// system.
fn mount(line: &str) -> Option<Mount> {
    let (head, tail) = line.split_once(" - ")?;
    Some(Mount {
        target: head.split(' ').nth(4)?.to_owned(),
        filesystem: tail.split(' ').next()?.to_owned(),
    })
}

/// Checks that a container has the xtables lock of the host.
fn lock(mounts: &[Mount]) -> CheckResult {
    let is_container = mounts
        .iter()
        .any(|mount| mount.target == "/" && mount.filesystem == "overlay");
    let is_mounted = mounts
        .iter()
        .any(|mount| ["/run", "/run/xtables.lock"].contains(&mount.target.as_str()));
    match (is_container, is_mounted) {
        (false, _) => CheckResult::ok("/run/xtables.lock is that of the host"),
        (true, true) => CheckResult::ok("/run/xtables.lock is mounted into this container"),
        (true, false) => CheckResult::failed(
            "this container has an xtables lock of its own: changes of rules by two programs at \
             the same time would be lost",
            "mount the file /run/xtables.lock of the host, with type FileOrCreate",
            NODE_SETUP,
        ),
    }
}

#[cfg(test)]
#[path = "tests/programs.rs"]
mod tests;
