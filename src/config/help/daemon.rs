//! Texts of the commands that change the node.

use super::CommandHelp;

pub(in crate::config) const RUN: CommandHelp = CommandHelp {
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

pub(in crate::config) const CLEANUP: CommandHelp = CommandHelp {
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
