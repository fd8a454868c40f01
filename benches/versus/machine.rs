//! Where it was measured: without that a figure means nothing.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::support::process::run;

/// The machine, and the commit that was measured.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub commit: String,
    pub cpus: usize,
    pub kernel: String,
    pub iptables: String,
    pub kube_proxy: String,
}

/// Asks the machine.
pub fn describe() -> Machine {
    let kube_proxy =
        crate::support::kube::binary("kube-proxy").unwrap_or_else(|why| panic!("{why}"));
    Machine {
        commit: said(Command::new("git").args(["describe", "--always", "--dirty"])),
        cpus: std::thread::available_parallelism().map_or(1, Into::into),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
            .expect("a kernel")
            .trim()
            .to_owned(),
        iptables: said(Command::new("iptables-nft").arg("--version")),
        kube_proxy: said(Command::new(kube_proxy).arg("--version")),
    }
}

fn said(command: &mut Command) -> String {
    run(command).trim().to_owned()
}
