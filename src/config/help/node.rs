//! Texts of the program, of the commands that change the node, and of those for packages.

use super::text::{
    API_SERVER, CommandHelp, LOCK_FILE, NO_COLOR, PATH, RUST_LOG, SERVICE_ACCOUNT, XTABLES_LOCK,
};

pub(in crate::config) const PROGRAM: CommandHelp = CommandHelp {
    name: "",
    description: "\
Keeps the Service rules of a Kubernetes node up to date, with the flags, the
configuration file, the rules and the metrics of kube-proxy in mode iptables.
Other commands show, explain, compare and remove these rules; they work with
the rules of any kube-proxy as well.

With flags but no command, and under the name kube-proxy, run is implied. Under
the name kubectl-deltaproxy, the program is a plugin of kubectl, which changes
nothing: it has no run and no cleanup.",
    examples: "\
The daemon, with the flags of kube-proxy:
  deltaproxy --config /var/lib/kube-proxy/config.conf
Service ports programmed on this node:
  deltaproxy services
Packets to a cluster IP:
  deltaproxy explain 10.96.0.10:53/udp",
    exit_status: "\
0  done
1  failed; for diff: differences
2  a manifest cannot be used; the others were. For diff also: the comparison
   failed",
    files: &[XTABLES_LOCK, SERVICE_ACCOUNT],
    environment: &[NO_COLOR, RUST_LOG],
    see_also: &["iptables(8)", "iptables-save(8)", "iptables-restore(8)"],
};

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
    files: &[
        XTABLES_LOCK,
        SERVICE_ACCOUNT,
        (
            "/proc/sys/net/",
            "kernel settings that are read and set, such as those of conntrack",
        ),
    ],
    environment: &[API_SERVER, NO_COLOR, PATH, RUST_LOG, LOCK_FILE],
    see_also: &["iptables-restore(8)", "ip6tables-restore(8)"],
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
    files: &[XTABLES_LOCK],
    environment: &[NO_COLOR, PATH, LOCK_FILE],
    see_also: &["iptables-restore(8)"],
};

pub(in crate::config) const COMPLETIONS: CommandHelp = CommandHelp {
    name: "completions",
    description: "\
Scripts complete the names of commands and flags, and the words that flags take
as values.",
    examples: "\
In the current shell:
  source <(deltaproxy completions bash)
In every fish:
  deltaproxy completions fish > ~/.config/fish/completions/deltaproxy.fish",
    exit_status: "\
0  printed
1  failed",
    files: &[
        (
            "/usr/share/bash-completion/completions/deltaproxy",
            "script that bash loads at the first completion, for packages",
        ),
        (
            "~/.config/fish/completions/deltaproxy.fish",
            "script that fish loads at the first completion",
        ),
    ],
    environment: &[],
    see_also: &["bash(1)", "fish(1)", "zsh(1)"],
};

pub(in crate::config) const VERSION: CommandHelp = CommandHelp {
    name: "version",
    description: "\
Prints the version of the program and that of the kube-proxy whose rules it
writes.",
    examples: "\
The version:
  deltaproxy version
The kube-proxy that it replaces:
  deltaproxy version -o json | jq -r .kubeProxyVersion",
    exit_status: "\
0  printed
1  failed",
    files: &[],
    environment: &[],
    see_also: &[],
};

pub(in crate::config) const MAN: CommandHelp = CommandHelp {
    name: "man",
    description: "\
Without --dir, one page is printed. With it, the folder is created if it does
not exist, and existing pages in it are replaced.",
    examples: "\
Read a page:
  deltaproxy man services | man -l -
Install all pages:
  deltaproxy man --dir /usr/local/share/man/man1",
    exit_status: "\
0  printed or written
1  failed, for example if DIR is not a folder",
    files: &[(
        "deltaproxy.1, deltaproxy-COMMAND.1",
        "pages of the program and of each command, in the folder of --dir",
    )],
    environment: &[(
        "MANPATH",
        "folders that man searches; their folder man1 holds the pages of commands",
    )],
    see_also: &["man(1)"],
};
