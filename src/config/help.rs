//! Texts of help and manual pages.
//!
//! Help has descriptions, examples and exit codes, pages have all sections. Lines have at most 76
//! columns, so that help does not wrap them; pages join the lines of a paragraph.

use std::fmt::Write as _;

/// Texts of the program or of one of its commands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandHelp {
    /// Name of the command; empty for the program.
    pub name: &'static str,
    /// Paragraphs, separated by empty lines.
    pub description: &'static str,
    /// Captions, and the command lines that they announce, indented.
    pub examples: &'static str,
    /// Exit codes, each with its meaning, whose further lines are indented; without
    /// [`INVALID_FLAGS`].
    pub exit_status: &'static str,
}

impl CommandHelp {
    /// Renders the sections that follow the flags in help.
    pub(super) fn after_flags(&self) -> String {
        let indented = |lines: &str| format!("  {}\n", lines.replace('\n', "\n  "));
        let mut text = format!("Examples:\n{}", indented(self.examples));
        if !self.description.is_empty() {
            let _ = write!(text, "\n{}\n", self.description);
        }
        let status = indented(self.exit_status);
        let _ = write!(text, "\nExit codes:\n{status} {INVALID_FLAGS}");
        text
    }
}

/// Last exit code of every command.
pub(crate) const INVALID_FLAGS: &str = "64  invalid flags or configuration file; nothing was done";

pub(super) const RUN: CommandHelp = CommandHelp {
    name: "run",
    description: "\
Watches Services, EndpointSlices and the Node, and restores the chains of those
that change. Flags and configuration file are those of kube-proxy.",
    examples: "\
In a cluster, with the flags of kube-proxy:
  deltaproxy run --kubeconfig /var/lib/kube-proxy/kubeconfig.conf \\
    --cluster-cidr 10.244.0.0/16
In a cluster, with the configuration file of kubeadm:
  deltaproxy run --config /var/lib/kube-proxy/config.conf \\
    --hostname-override $NODE_NAME
Without a cluster, with a folder of manifests that is watched:
  deltaproxy run --manifests ./services
Print restore input instead of applying it:
  deltaproxy run --manifests ./services --dry-run
Check a configuration file in a pipeline:
  deltaproxy run --config config.conf --check-config --strict",
    exit_status: "\
0  stopped by a signal, or a one-shot action is done
1  failed, the file of --config has changed, or --strict found warnings",
};

pub(super) const CLEANUP: CommandHelp = CommandHelp {
    name: "cleanup",
    description: "\
Stop the proxy first: a running proxy detects the loss and restores its rules.

Removed are, for both families, all chains of kube-proxy and of this program,
of any release and with their canaries, and the jumps to them. Without
--iptables-backend, so are the tables of kube-proxy's mode nftables.

Kept are the chains of kubelet, whether it runs or not: KUBE-FIREWALL,
KUBE-MARK-DROP, KUBE-KUBELET-CANARY and KUBE-IPTABLES-HINT. A chain of a proxy
that a third-party rule jumps to is emptied and kept. Kernel settings are
unchanged. Remains of mode ipvs are reported and kept.",
    examples: "\
On a node that changes to another proxy, or needs none:
  deltaproxy cleanup
Rules that a proxy left in the other backend; the current one keeps its
rules:
  deltaproxy cleanup --iptables-backend legacy
Print the restore input only:
  deltaproxy cleanup --dry-run",
    exit_status: "\
0  only what is listed above as kept is left
1  something could not be removed, while everything else was; or a proxy
   that still runs restored rules",
};
