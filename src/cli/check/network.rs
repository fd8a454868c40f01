//! Settings of the node's network, and programs beside a proxy that change rules.

use std::fs;
use std::path::Path;

use super::report::{CheckGroup, CheckResult, NO_ANSWER, NODE_SETUP};
use crate::host::{Binaries, Exec, Iptables, ListedChains, Sysctls, has_table};
use crate::net::IpFamily;
use crate::rules::Table;
use crate::status::{ConntrackStatus, Problem};

const DRIFT: &str = "deploy/docs/drift.md";

pub(super) async fn examine(binaries: &[Binaries]) -> CheckGroup {
    let sysctls = Sysctls::default();
    let read = |name: &str| sysctls.read(name).ok();
    let mut checks = Vec::new();
    for family in IpFamily::ALL
        .into_iter()
        .filter(|family| !sysctls.lacks(*family))
    {
        let name = match family {
            IpFamily::V4 => "net/ipv4/ip_forward",
            IpFamily::V6 => "net/ipv6/conf/all/forwarding",
        };
        checks.push(forwarding(family, name, read(name)));
    }
    checks.push(reverse_path(
        read("net/ipv4/conf/all/rp_filter"),
        read("net/ipv4/conf/default/rp_filter"),
    ));
    checks.extend(bridges(
        has_bridge(Path::new("/sys/class/net")),
        read("net/bridge/bridge-nf-call-iptables"),
    ));
    checks.push(conntrack(ConntrackStatus::read()));
    for binaries in binaries {
        let (family, backend) = (binaries.family, binaries.backend());
        if !has_table(backend, Table::Filter, family) {
            checks.push(forward_policy(family, ""));
            continue;
        }
        let exec = Exec::new(binaries.clone());
        let listed = exec.list(Table::Filter, &["FORWARD"]).await;
        checks.push(match listed {
            Ok(ListedChains::Whole(text) | ListedChains::Truncated { printed: text, .. }) => {
                forward_policy(family, &text)
            }
            Ok(ListedChains::Missing) => forward_policy(family, ""),
            Err(error) => CheckResult::error(&error, NODE_SETUP),
        });
    }
    let firewalld = fs::read_to_string("/etc/firewalld/firewalld.conf");
    checks.extend(firewalld.ok().map(|text| firewalld_reload(&text)));
    CheckGroup::new("network", checks)
}

fn forwarding(family: IpFamily, name: &str, value: Option<i64>) -> CheckResult {
    let name = name.replace('/', ".");
    if value.is_some_and(|value| value != 0) {
        return CheckResult::ok(format!("{family}: {name} is on"));
    }
    let found = format!("{family}: {name} is 0: packets to endpoints are dropped");
    let hint = format!("sysctl -w {name}=1, and in /etc/sysctl.d");
    match family {
        IpFamily::V4 => CheckResult::failed(found, &hint, NODE_SETUP),
        // Most clusters are of IPv4 only, on nodes that have both.
        IpFamily::V6 => CheckResult::warning(
            found,
            &format!("if the cluster uses IPv6: {hint}"),
            NODE_SETUP,
        ),
    }
}

/// The kernel uses the larger of the values of `all` and of the interface, which begins with that
/// of `default`: 1 is strict, 2 loose.
fn reverse_path(all: Option<i64>, default: Option<i64>) -> CheckResult {
    if [all, default].contains(&Some(1)) && all != Some(2) {
        return CheckResult::warning(
            "rp_filter is strict: answers that leave by another interface than their request came \
             in by are dropped",
            "where NodePorts are reached by several interfaces, set net.ipv4.conf.all.rp_filter=2",
            NODE_SETUP,
        );
    }
    CheckResult::ok("rp_filter is off or loose")
}

fn has_bridge(interfaces: &Path) -> bool {
    let interfaces = fs::read_dir(interfaces);
    interfaces.is_ok_and(|all| all.flatten().any(|one| one.path().join("bridge").is_dir()))
}

/// Pods of one bridge reach each other without the rules, unless the kernel passes bridged packets
/// to iptables.
fn bridges(has_bridge: bool, calls_iptables: Option<i64>) -> Option<CheckResult> {
    has_bridge.then(|| match calls_iptables {
        Some(1) => CheckResult::ok("packets of bridges pass the rules (br_netfilter)"),
        _ => CheckResult::warning(
            "this node has a bridge, whose packets do not pass the rules: if Pods are on it, a Pod \
             cannot reach a Service whose endpoint is another Pod of the node",
            "modprobe br_netfilter && sysctl -w net.bridge.bridge-nf-call-iptables=1",
            NODE_SETUP,
        ),
    })
}

fn conntrack(status: Option<ConntrackStatus>) -> CheckResult {
    let Some(status) = status else {
        return CheckResult::failed(
            "connection tracking is not available: no packet to a Service would be translated",
            "modprobe nf_conntrack",
            NODE_SETUP,
        );
    };
    match status.problem() {
        Some(Problem { summary, hint, .. }) => CheckResult::failed(summary, &hint, NO_ANSWER),
        None => CheckResult::ok(format!(
            "connection tracking has {} of {} entries",
            status.entries, status.max
        )),
    }
}

fn forward_policy(family: IpFamily, listing: &str) -> CheckResult {
    if listing.lines().any(|line| line == "-P FORWARD DROP") {
        return CheckResult::warning(
            format!(
                "{family}: the policy of FORWARD is DROP: only what the network plugin accepts \
                 reaches Pods"
            ),
            "it is Docker's default; see that the network plugin accepts packets of Pods",
            NO_ANSWER,
        );
    }
    CheckResult::ok(format!("{family}: the policy of FORWARD is ACCEPT"))
}

/// firewalld removes the rules of all programs when it is reloaded, unless its configuration
/// forbids it.
fn firewalld_reload(text: &str) -> CheckResult {
    let value = |line: &str| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "FlushAllOnReload").then(|| value.trim().to_owned())
    };
    let setting = text.lines().filter_map(value).next_back();
    if setting.is_some_and(|value| value.eq_ignore_ascii_case("no")) {
        return CheckResult::ok("firewalld keeps the rules of other programs when it is reloaded");
    }
    CheckResult::warning(
        "firewalld is installed, and a reload removes the rules of all programs; deltaproxy writes \
         its own again at once, others may not",
        "set FlushAllOnReload=no in /etc/firewalld/firewalld.conf",
        DRIFT,
    )
}

#[cfg(test)]
#[path = "tests/network.rs"]
mod tests;
