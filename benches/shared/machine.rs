//! Where it was measured: without that a figure means nothing.

use std::fmt;
use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::support::process::run;

/// The machine, and the commit that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub commit: String,
    pub cpus: usize,
    pub kernel: String,
    pub iptables: String,
    /// None where only iptables is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<String>,
}

/// Asks the machine.
pub fn describe() -> Machine {
    let kube_proxy = crate::support::kube::binary("kube-proxy").ok();
    Machine {
        commit: said(Command::new("git").args(["describe", "--always", "--dirty"])),
        cpus: std::thread::available_parallelism().map_or(1, Into::into),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
            .expect("a kernel")
            .trim()
            .to_owned(),
        iptables: said(Command::new("iptables-nft").arg("--version")),
        kube_proxy: kube_proxy.map(|path| said(Command::new(path).arg("--version"))),
    }
}

fn said(command: &mut Command) -> String {
    run(command).trim().to_owned()
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commit {}; ", self.commit)?;
        if let Some(kube_proxy) = &self.kube_proxy {
            write!(f, "{kube_proxy}; ")?;
        }
        let (cpus, kernel, iptables) = (self.cpus, &self.kernel, &self.iptables);
        write!(f, "{cpus} CPUs, kernel {kernel}, {iptables}.")
    }
}
