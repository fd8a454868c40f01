//! The matches and targets that rules need, tried in a network namespace of their own.
//!
//! A rule that the kernel does not know makes each restore with it fail.

use super::report::{CheckGroup, CheckResult, NODE_SETUP};
use crate::cli::runtime::runtime;
use crate::cli::terminal::Progress;
use crate::host::{Binaries, Exec, Iptables, RestoreError, in_own_network};
use crate::net::IpFamily;
use crate::rules::{Backend, Table, Text};

const WITHOUT: &str = "rules are written without it, with the same effect on connections";

/// Parameters of iptables for a match or target, the table that it is tried in, and the rules that
/// need it.
struct Feature(&'static str, Table, &'static str, IsNeeded);

/// Effect of a missing feature.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsNeeded {
    /// All restores fail without it.
    Always,
    /// Services with this feature are put into quarantine.
    ByServices,
    /// The daemon leaves it out if the kernel does not have it.
    Never,
}

/// Matches and targets of rendered rules.
const FEATURES: [Feature; 13] = {
    use IsNeeded::{Always, ByServices, Never};
    use Table::{Filter, Nat};
    [
        Feature("-m comment --comment x", Nat, "all rules", Always),
        Feature("-m mark --mark 0x4000/0x4000", Nat, "masquerading", Always),
        Feature("-j MARK --or-mark 0x4000", Nat, "masquerading", Always),
        Feature("-j MASQUERADE", Nat, "masquerading", Always),
        Feature(
            "-j MASQUERADE --random-fully",
            Nat,
            "masquerading, without collisions of ports",
            Never,
        ),
        Feature(
            "-m conntrack --ctstate NEW",
            Filter,
            "chains of filter",
            Always,
        ),
        Feature("-m addrtype --dst-type LOCAL", Nat, "NodePorts", Always),
        Feature(
            "-m statistic --mode random --probability 0.5",
            Nat,
            "Services with several endpoints",
            ByServices,
        ),
        Feature(
            "-m recent --name x --rcheck --seconds 10 --reap",
            Nat,
            "session affinity",
            ByServices,
        ),
        Feature("-p tcp -m tcp --dport 80", Nat, "TCP ports", ByServices),
        Feature("-p udp -m udp --dport 80", Nat, "UDP ports", ByServices),
        Feature("-p sctp -m sctp --dport 80", Nat, "SCTP ports", ByServices),
        Feature(
            "-j REJECT",
            Filter,
            "Services without endpoints",
            ByServices,
        ),
    ]
};

/// Tries all features with these binaries.
pub(super) fn examine(binaries: &[Binaries]) -> CheckGroup {
    let _progress = Progress::start("trying matches and targets in a network namespace");
    let mut checks = Vec::new();
    for binaries in binaries {
        match in_own_network(|| try_all(binaries)) {
            Ok(tried) => checks.extend(tried),
            Err(error) => checks.push(CheckResult::skipped(
                format!(
                    "{}: no network namespace to try matches and targets in: {error}",
                    binaries.family
                ),
                "run as root, or in a container with CAP_SYS_ADMIN",
            )),
        }
    }
    if checks.is_empty() {
        checks.push(CheckResult::skipped(
            "without iptables, no match can be tried",
            "see the group `programs`",
        ));
    }
    CheckGroup::new("kernel", checks)
}

/// Tries the features in the network namespace of this thread.
fn try_all(binaries: &Binaries) -> Vec<CheckResult> {
    let (family, backend) = (binaries.family, binaries.backend());
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return vec![CheckResult::error(&error, NODE_SETUP)],
    };
    let exec = Exec::new(binaries.clone());
    runtime.block_on(async {
        let mut checks = vec![try_tables(&exec, family, backend).await];
        let mut known = Vec::new();
        for feature in &FEATURES {
            match feature.try_in(&exec, family).await {
                Ok(()) => known.push(feature.name()),
                Err(error) if error.is_conclusive() => {
                    checks.push(feature.missing(family, &error));
                }
                Err(error) => checks.push(CheckResult::skipped(
                    format!(
                        "{family}: {} was not tried: {}",
                        feature.name(),
                        reason(&error)
                    ),
                    "run the command again",
                )),
            }
        }
        match exec.make_counter("deltaproxy_check").await {
            Ok(()) => known.push("nfacct"),
            Err(error) => checks.push(CheckResult::warning(
                format!("{family}: nfacct, for counters of dropped packets: {error}"),
                WITHOUT,
                NODE_SETUP,
            )),
        }
        checks.push(CheckResult::ok(format!("{family}: {}", known.join(", "))));
        checks
    })
}

/// Tries to write into the tables that rules are in.
async fn try_tables(exec: &Exec, family: IpFamily, backend: Backend) -> CheckResult {
    let payload = "*filter\n:KUBE-CHECK - [0:0]\nCOMMIT\n*nat\n:KUBE-CHECK - [0:0]\nCOMMIT\n";
    match exec.restore(&mut Text::new(payload), None).await {
        Ok(_) => CheckResult::ok(format!("{family}: tables filter and nat of {backend}")),
        Err(error) => CheckResult::failed(
            format!(
                "{family}: cannot write to filter and nat of {backend}: {}",
                reason(&error)
            ),
            &format!("load the modules of the {backend} backend, or use the other one"),
            NODE_SETUP,
        ),
    }
}

impl Feature {
    /// Returns the name of the match or target, or the target with its parameter if that is what
    /// may be missing.
    fn name(&self) -> &'static str {
        let Self(rule, ..) = *self;
        let option = rule.find("-j ").or_else(|| rule.find("-m "));
        let named = option.and_then(|at| rule.get(at + 3..));
        match named.unwrap_or(rule) {
            whole @ "MASQUERADE --random-fully" => whole,
            named => named.split(' ').next().unwrap_or(named),
        }
    }

    async fn try_in(&self, exec: &Exec, family: IpFamily) -> Result<(), RestoreError> {
        let Self(rule, table, ..) = *self;
        let rule = match (rule, family) {
            ("-j REJECT", IpFamily::V6) => "-j REJECT --reject-with icmp6-port-unreachable",
            (rule, _) => rule,
        };
        let payload = format!("*{table}\n:KUBE-CHECK - [0:0]\n-A KUBE-CHECK {rule}\nCOMMIT\n");
        exec.restore(&mut Text::new(payload), None).await?;
        Ok(())
    }

    fn missing(&self, family: IpFamily, error: &RestoreError) -> CheckResult {
        let Self(_, _, needed_for, is_needed) = *self;
        let name = self.name();
        let found = format!("{family}: {name}, for {needed_for}: {}", reason(error));
        let hint = "load the kernel module, or build a kernel with it";
        match is_needed {
            IsNeeded::Always => CheckResult::failed(found, hint, NODE_SETUP),
            IsNeeded::ByServices => CheckResult::warning(
                found,
                &format!("{hint}; until then such Services are put into quarantine"),
                NODE_SETUP,
            ),
            IsNeeded::Never => CheckResult::warning(found, WITHOUT, NODE_SETUP),
        }
    }
}

/// Returns an error of a restore on one line.
fn reason(error: &RestoreError) -> String {
    let text = error.to_string();
    text.split("\nhint: ")
        .next()
        .unwrap_or_default()
        .replace('\n', " ")
}
