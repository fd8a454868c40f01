//! Where it was measured: without that a figure means nothing.

use std::fs;
use std::process::Command;

use serde::Serialize;

use crate::support::process::run;

/// The machine, and the commit that was measured.
#[derive(Debug, Serialize)]
pub struct Machine {
    pub commit: String,
    pub cpus: usize,
    pub kernel: String,
    pub iptables: String,
}

/// Asks the machine.
pub fn describe() -> Machine {
    let said = |command: &mut Command| run(command).trim().to_owned();
    Machine {
        commit: said(Command::new("git").args(["describe", "--always", "--dirty"])),
        cpus: std::thread::available_parallelism().map_or(1, Into::into),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
            .expect("a kernel")
            .trim()
            .to_owned(),
        iptables: said(Command::new("iptables-nft").arg("--version")),
    }
}
