//! Texts of the program's page, and of the commands that inspect rules or are for packages.

use super::help::{CLEANUP, CommandHelp, RUN};

/// Returns the texts of a command; those of the program for an unknown name.
pub(crate) fn help_of(command: &str) -> &'static CommandHelp {
    let mut all = COMMANDS.iter().copied();
    all.find(|help| help.name == command).unwrap_or(&PROGRAM)
}

const COMMANDS: [&CommandHelp; 13] = [
    &RUN,
    &RENDER,
    &STATUS,
    &SHADOW_REPORT,
    &CHECK,
    &DIFF,
    &SERVICES,
    &EXPLAIN,
    &HISTORY,
    &BUNDLE,
    &CLEANUP,
    &COMPLETIONS,
    &MAN,
];

/// Names and their descriptions.
type HelpEntries = &'static [(&'static str, &'static str)];

/// Files that are read or written without being named on the command line.
pub(crate) const FILES: HelpEntries = &[
    (
        "/run/xtables.lock",
        "lock that the iptables binaries hold while they change or read legacy rules",
    ),
    (
        "/var/run/secrets/kubernetes.io/serviceaccount/",
        "token and certificate for the API server in a Pod",
    ),
    (
        "/proc/sys/net/",
        "kernel settings that run reads and sets, such as those of conntrack",
    ),
];

pub(crate) const ENVIRONMENT: HelpEntries = &[
    (
        "KUBECONFIG",
        "kubeconfigs that commands other than run merge without --kubeconfig, instead of \
         ~/.kube/config",
    ),
    (
        "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT",
        "address of the API server in a Pod, if no flag selects a source",
    ),
    (
        "NO_COLOR",
        "disables colors if set and not empty, unless --color is set",
    ),
    (
        "PATH",
        "folders of the iptables binaries, such as iptables-restore",
    ),
    (
        "RUST_LOG",
        "filter of the log on stderr, such as debug or deltaproxy::watch=trace",
    ),
    (
        "XTABLES_LOCKFILE",
        "path of the lock of the iptables binaries, instead of /run/xtables.lock",
    ),
];

const PROGRAM: CommandHelp = CommandHelp {
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
State of the daemon on this node:
  deltaproxy status
Service ports programmed on this node:
  deltaproxy services
Packets to a cluster IP:
  deltaproxy explain 10.96.0.10:53/udp",
    exit_status: "\
0  done
1  failed; for diff: differences
2  a manifest cannot be used; the others were. For diff also: the comparison
   failed",
};

pub(super) const RENDER: CommandHelp = CommandHelp {
    name: "render",
    description: "\
Renders the rules of Services for a node and one IP family, and needs neither
root nor a kernel with iptables. With names of Services, the output is an
excerpt for reading.",
    examples: "\
All rules of manifests:
  deltaproxy render --manifests ./services --cluster-cidr 10.244.0.0/16
Rules of a cluster for IPv6:
  kubectl get services,endpointslices -A -o yaml |
    deltaproxy render --manifests - --family ipv6
Rules of one Service; not for iptables-restore:
  deltaproxy render shop/web --manifests ./services
Test whether the kernel accepts the rules:
  deltaproxy render --manifests ./services |
    iptables-restore --noflush --test
Partial restore after a change of manifests:
  deltaproxy render --since ./services.old --manifests ./services",
    exit_status: "\
0  rendered
1  failed, a source is missing, or no Service of a NAME or the NAMESPACE has
   rules
2  a manifest cannot be used; the others were",
};

pub(super) const HISTORY: CommandHelp = CommandHelp {
    name: "history",
    description: "\
Reads the records that the daemon writes with --state-dir, on the node or from a
copy of the folder: time, family, scope, duration, size and cause of each sync
that wrote rules or failed, and changes by other programs that it repaired.

TIME of --since is a duration before now, as 30m, or in RFC 3339.

JSON has one record on each line, with the input of iptables-restore. Fields may
be added; nothing else changes.",
    examples: "\
On a node:
  deltaproxy history --state-dir /var/lib/deltaproxy --since 1h
Syncs that wrote rules of a Service, with these rules:
  deltaproxy history shop/web --state-dir /var/lib/deltaproxy
Failed syncs:
  deltaproxy history --state-dir . -o json | jq 'select(.error)'",
    exit_status: "\
0  the records were printed
1  the folder cannot be read, or has no history",
};

pub(super) const BUNDLE: CommandHelp = CommandHelp {
    name: "bundle",
    description: "\
Packs into one file: the rules of both backends and families; rules, status,
metrics and effective configuration from the daemon on this node; versions of
programs and kernel; with --state-dir the history. Parts that cannot be read are
named on stderr and in errors.txt.

No kubeconfig, certificate or environment variable is read, and credentials in
URLs and tokens are removed from texts. Names and addresses of Services, Pods
and nodes are in it; with --redact the same one becomes the same word, such as
`namespace-1/service-7`. Commands read the rules of such a bundle as well. Names
of chains stay, and names alone in comments of other programs.",
    examples: "\
On a node, as root:
  deltaproxy bundle --state-dir /var/lib/deltaproxy -o case-4711.tar.gz",
    exit_status: "\
0  the bundle was written; parts may be missing
1  the file exists, or cannot be written",
};

pub(super) const STATUS: CommandHelp = CommandHelp {
    name: "status",
    description: "\
Asks the daemon on its metrics port; root is not needed. Names of Services are
shown only if the port has a loopback address.

JSON is the document of the daemon, GET /status. Fields may be added; nothing
else changes.",
    examples: "\
On a node:
  deltaproxy status
A daemon with another metrics port:
  deltaproxy status --metrics-bind-address 127.0.0.1:9090
Another node, and all nodes of a cluster:
  deltaproxy status --node node1
  deltaproxy status --all-nodes
Services in quarantine:
  deltaproxy status -o json |
    jq -r '.families[].quarantined[].service'",
    exit_status: "\
0  the daemon has no problem
1  it has one, which is shown first
2  no daemon answers; with --all-nodes, some do not",
};

pub(super) const SHADOW_REPORT: CommandHelp = CommandHelp {
    name: "shadow-report",
    description: "\
Asks deltaproxy run --shadow on its metrics port; root is not needed. It writes
nothing, and compares the rules of the running kube-proxy with those that it
would write.

JSON is the document of the daemon, GET /shadow, or with --all-nodes a list of
them. Fields may be added; nothing else changes.",
    examples: "\
On a node:
  deltaproxy shadow-report
All nodes of a cluster together:
  deltaproxy shadow-report --all-nodes
Services with differences:
  deltaproxy shadow-report -o json |
    jq -r '.families[].differences[].service' | sort -u",
    exit_status: "\
0  no difference that affects packets
1  differences
2  no daemon in shadow mode answers; with --all-nodes, some do not",
};

pub(super) const CHECK: CommandHelp = CommandHelp {
    name: "check",
    description: "\
Takes the flags of run, so that the configuration which the daemon will have is
examined. Changes no rules: what rules need is tried in a network namespace of
its own, for which root is needed, and for which the kernel may load modules.

FAIL is what keeps the daemon or a part of its rules from working. WARN is what
may get in its way. A check that is not possible here is skipped.",
    examples: "\
Before an installation, with the configuration file of kube-proxy:
  deltaproxy check --pre --config /var/lib/kube-proxy/config.conf
On a node that runs deltaproxy, with its flags:
  deltaproxy check --kubeconfig /var/lib/kube-proxy/kubeconfig.conf \\
    --cluster-cidr 10.244.0.0/16
In its Pod:
  kubectl -n kube-system exec ds/deltaproxy -- deltaproxy check
What failed, in a pipeline:
  deltaproxy check -o json |
    jq -r '.groups[].checks[] | select(.status == \"failed\") | .found'",
    exit_status: "\
0  nothing failed; there may be warnings
1  something failed",
};

pub(super) const DIFF: CommandHelp = CommandHelp {
    name: "diff",
    description: "\
Reads the kernel, and not what the daemon on this node has recorded, because a
comparison verifies the daemon as well. With --node, the rules of deltaproxy are
those that it has recorded, and those of kube-proxy are the kernel's.

Each difference is reported with its effect on traffic. Names of Services limit
the output to these; the first line has the number of others that differ.

The fields of JSON are described in deploy/docs/schema/diff.json. Fields may be
added; nothing else changes.",
    examples: "\
On a node, with the flags of its kube-proxy or deltaproxy:
  deltaproxy diff --kubeconfig /var/lib/kube-proxy/kubeconfig.conf \\
    --cluster-cidr 10.244.0.0/16
With its configuration file, which names the kubeconfig; in the Pod if
the file is from kubeadm:
  deltaproxy diff --config /var/lib/kube-proxy/config.conf
A node, from any host; `live:` says when its rules were verified:
  deltaproxy diff --node node-a --cluster-cidr 10.244.0.0/16
A dump of a node against a cluster, from any host:
  deltaproxy diff --from-save iptables.txt --from-save ip6tables.txt \\
    --kubeconfig ~/.kube/config --hostname-override node-a \\
    --cluster-cidr 10.244.0.0/16
A change of manifests before it is merged, with the restore of a node:
  deltaproxy diff --from-manifests main/ --manifests branch/
Some Services only:
  deltaproxy diff shop/web --from-manifests main/ --manifests branch/
Two moments of a node, from its --state-dir or a copy of it:
  deltaproxy diff --at 2h --at 10m --state-dir /var/lib/deltaproxy
Manifests for a pull request:
  deltaproxy diff -o markdown --from-manifests main/ --manifests branch/
Service ports that lose an endpoint:
  deltaproxy diff --output json | jq -r '.servicePorts[] |
    select(any(.effects[]; .kind == \"endpoints\" and .removed != [])) |
    .service'",
    exit_status: "\
0  no difference that affects packets; comments may differ, which only
   --strict reports
1  differences
2  the comparison failed, for example if a source is missing; or a manifest or
   a live rule cannot be used",
};

pub(super) const SERVICES: CommandHelp = CommandHelp {
    name: "services",
    description: "\
The rules are those of the daemon on this node, as it wrote and verified them,
or without one, or with --kernel, those in the kernel.

What is not ok is listed first. STATUS is ok, unknown (rules cannot be read, or
were not), no local endpoint (a policy is Local), no path (a jump or a rule is
missing), conflict (another Service has the frontend), no endpoints, over limit
(of manifests and clusters) or quarantined (where deltaproxy runs). The number
of service ports and their source are on stderr.

A row covers both families: 3+3 are the endpoints of IPv4 and of IPv6.
ENDPOINTS counts each endpoint once that receives traffic under any policy;
LOCAL counts those on this node, if a policy is Local. If all policies are
Local, the rules contain only local endpoints. The rules do not contain the
terminating state of endpoints, nor headless Services. (unreachable) marks a
frontend without a path from PREROUTING or to an endpoint.

JSON and YAML have one sorted entry for each service port and family. The fields
are described in deploy/docs/schema/services.json. Fields may be added; nothing
else changes.",
    examples: "\
On a node, with any proxy; without root if deltaproxy runs:
  deltaproxy services
  watch -n2 deltaproxy services -n shop
  deltaproxy services shop/web -o wide
On another node, and where the nodes of a cluster disagree:
  deltaproxy services --node node1
  deltaproxy services --all-nodes
At a moment in the past:
  deltaproxy explain prod/web --at 2h --state-dir /var/lib/deltaproxy
From a dump, without root:
  deltaproxy services --from-save iptables.txt --from-save ip6tables.txt
Rendered from manifests:
  deltaproxy services --manifests ./services
What is not ok, in a pipeline:
  deltaproxy services --problems
Service ports without endpoints:
  deltaproxy services -o json |
    jq -r '.servicePorts[] | select(.status == \"no endpoints\") | .service'",
    exit_status: "\
0  listed, even if a source has no service ports
1  failed, a source is missing, or no Service of a NAME or the NAMESPACE has
   rules or requests a frontend of another Service. With --problems also:
   something is not ok; with --all-nodes: nodes disagree
2  a manifest cannot be used; the others were. Neither a flag nor this machine
   has rules to read. With --all-nodes, some nodes do not answer, or none has
   rules of a NAME",
};

pub(super) const EXPLAIN: CommandHelp = CommandHelp {
    name: "explain",
    description: "\
The rules are those of the daemon on this node, as it wrote and verified them,
or without one, or with --kernel, those in the kernel, which include rules of
other programs.

Traces one packet of each kind of client through the rules. The verdict for each
is a line with its reason; shares are fractions of new connections. --verbose
adds the rules.

The fields of JSON are described in deploy/docs/schema/explain.json. Fields may
be added; nothing else changes.",
    examples: "\
On a node, with any proxy:
  deltaproxy explain 10.96.0.10:53/udp
  deltaproxy explain prod/web:http --from outside
  deltaproxy explain :30080 --source 198.51.100.7
  deltaproxy explain https://web.prod.svc.cluster.local/login --from pod
  deltaproxy explain prod/web http
On another node, and where the nodes of a cluster disagree:
  deltaproxy explain prod/web --node node1
  deltaproxy explain prod/web --all-nodes
From a dump, without root:
  deltaproxy explain kube-dns --from-save iptables.txt --node-ip 192.168.0.2
Rendered from manifests, as an image:
  deltaproxy explain prod/web --manifests ./services --graph svg > web.svg
In a pipeline:
  deltaproxy explain web.prod.svc:80 --from pod --expect reachable",
    exit_status: "\
0  explained, with any outcome, or the one of --expect
1  failed, for example if there is no such name, or a source is missing; or a
   client has another outcome than that of --expect. With --all-nodes: nodes
   disagree
2  a manifest cannot be used; the others were. Neither a flag nor this machine
   has rules to read. With --all-nodes, some nodes do not answer, or none has
   rules for the destination",
};

pub(super) const COMPLETIONS: CommandHelp = CommandHelp {
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
};

pub(super) const MAN: CommandHelp = CommandHelp {
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
};
