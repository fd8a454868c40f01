//! What was typed: the commands.
//!
//! Apart from the meaning of their [`flags`](super::flags) because commands come and go.

use clap::{Arg, Parser, Subcommand};

use super::flags::{CleanupArgs, DiffArgs, ExplainArgs, RenderArgs, RunArgs, ServicesArgs};

/// A drop-in replacement for kube-proxy's iptables mode that restores only what changed.
#[derive(Debug, Parser)]
#[command(
    name = "deltaproxy",
    version = VERSION,
    propagate_version = true,
    max_term_width = 100
)]
#[command(after_help = "Without a command but with flags, and when called `kube-proxy`, it runs.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keep this node's rules up to date: the daemon
    #[command(
        after_help = RUN_EXAMPLES,
        args_override_self = true,
        disable_version_flag = true
    )]
    Run(Box<RunArgs>),
    /// Print rules as a payload for `iptables-restore --noflush`: all, or what changed
    #[command(after_help = RENDER_EXAMPLES, args_override_self = true, mut_arg("names", excerpt))]
    Render(Box<RenderArgs>),
    /// Show how the rules that are there differ from those that are desired
    #[command(after_help = DIFF_EXAMPLES, args_override_self = true)]
    Diff(Box<DiffArgs>),
    /// List the service ports that rules are for, and who answers
    #[command(after_help = SERVICES_EXAMPLES, args_override_self = true)]
    Services(Box<ServicesArgs>),
    /// Tell what becomes of packets to an address or a Service, rule by rule, and why
    #[command(after_help = EXPLAIN_EXAMPLES, args_override_self = true)]
    Explain(Box<ExplainArgs>),
    /// Remove all rules of Services, whoever wrote them, and nothing else
    #[command(after_help = CLEANUP_EXAMPLES, args_override_self = true)]
    Cleanup(CleanupArgs),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page: of a command, or of the program
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// The command
        #[arg(value_parser = ["run", "render", "diff", "services", "explain", "cleanup", "completions", "man"])]
        command: Option<String>,
    },
}

/// Cut down to some Services, a payload is none.
fn excerpt(names: Arg) -> Arg {
    let help = names
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    names.help(format!(
        "{help}; prints an excerpt to read, which iptables-restore refuses"
    ))
}

/// Ours, and whose place it takes: `kube-proxy --version` is asked, too.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), ", in place of kube-proxy v1.36");

const RUN_EXAMPLES: &str = "\
Examples:
  Beside a cluster, as kube-proxy would be run:
    deltaproxy run --kubeconfig /var/lib/kube-proxy/kubeconfig.conf --cluster-cidr 10.244.0.0/16
  The same with kube-proxy's file, as kubeadm runs it:
    deltaproxy run --config /var/lib/kube-proxy/config.conf --hostname-override $NODE_NAME
  Without a cluster, following a folder of manifests:
    deltaproxy run --manifests ./services
  Only show what would be restored:
    deltaproxy run --manifests ./services --dry-run";

const RENDER_EXAMPLES: &str = "\
Examples:
  deltaproxy render --manifests ./services --cluster-cidr 10.244.0.0/16
  kubectl get services,endpointslices -A -o yaml | deltaproxy render --manifests - --family ipv6
  What one Service amounts to, and which objects say so; to read, not for iptables-restore:
    deltaproxy render shop/web --manifests ./services --annotate
  Would the kernel take it:
    deltaproxy render --manifests ./services | iptables-restore --noflush --test
  What a change of the manifests would make a partial restore of:
    deltaproxy render --since ./services.old --manifests ./services";

const DIFF_EXAMPLES: &str = "\
Exit codes, as of kubectl diff:
  0  no packet can tell a difference; there may be other comments, which --strict counts, too
  1  differences
  2  could not compare
 64  unusable flags

Examples:
  On a node, beside kube-proxy or in its place, with the flags that it runs with:
    deltaproxy diff --kubeconfig /var/lib/kube-proxy/kubeconfig.conf --cluster-cidr 10.244.0.0/16
  The same with its file, which names the kubeconfig, too; in its Pod, if it is kubeadm's:
    deltaproxy diff --config /var/lib/kube-proxy/config.conf
  A node's dump and a cluster, on a laptop:
    deltaproxy diff --from-save iptables.txt --from-save ip6tables.txt \\
      --kubeconfig ~/.kube/config --hostname-override node-a --cluster-cidr 10.244.0.0/16
  A change before it is merged, with what a node would restore:
    deltaproxy diff --from-manifests main/ --manifests branch/
  Only some Services; the last line tells how many others differ:
    deltaproxy diff shop/web --from-manifests main/ --manifests branch/
  For a program:
    deltaproxy diff --from-save iptables.txt --manifests services/ --output json
  Service ports that lose an endpoint:
    deltaproxy diff --output json | jq -r '.servicePorts[] |
      select(any(.effects[]; .kind == \"endpoints\" and .removed != [])) | .service'

--output json: {families: [those that were compared], summary: {changed, added, removed, cosmetic,
setUp, stale, chains, foreignRules, leftOut: {servicePorts, chains}}, servicePorts: [{namespace, service, port, protocol, family,
verdict, effects: [{kind, ...}], chains: [chain]}], setUp: [chain], staleChains: [chain], restores:
[{family, scope, reason, services, chains, lines, bytes, payload}]}, lists sorted. A verdict is
appears, disappears, changes or cosmetic. A restore is full, or partial: then it has a payload, and
the number of Services that changed. One beside rules is what a daemon writes that trusts none of
them; at its start it takes over what is right, and writes less. A chain is
{table, chain, side, cosmetic, reordered, removed: [rule], added: [rule]}, with a family where it is
in no service port; its side is left (what is), right (what is desired) or both. By their kind,
effects have:
  entranceAdded, entranceRemoved          entrance: {kind, ip, port, fate, chain}
  fate                                    entrance, before: Served, Dropped or Rejected
  internalTrafficPolicy, externalTrafficPolicy, affinitySeconds    before, after
  endpoints                               policy, entrances, before, after, added, removed
  clusterShare, localShare                address, before, after
  sourceRanges                            added, removed
  masquerade                              before, after: {kind, network, interface}, kind being all
                                          or outside; null: nobody; neither: see the chains
  refusals, order, rules                  nothing else: see the chains
The words are those of `deltaproxy services -o json`. Fields may be added, nothing else changes.";

const SERVICES_EXAMPLES: &str = "\
Examples:
  On a node, whoever wrote its rules:
    deltaproxy services
    deltaproxy services -n shop --watch
    deltaproxy services --address 10.96.0.10:53 -o wide
  From a dump, without root:
    deltaproxy services --from-save iptables.txt --from-save ip6tables.txt
  What would be written for some manifests:
    deltaproxy services --manifests ./services
  Service ports without any endpoint:
    deltaproxy services -o json | jq -r '.servicePorts[] | select(.endpoints == []) | .service'

A row is of both families: `3+3` are endpoints of IPv4 and of IPv6. ENDPOINTS are those that traffic
may go to under any policy, each counted once; LOCAL are those of them on this node, where a policy
asks for them. If all policies are Local, rules know of no others. Rules do not say which endpoints
are terminating, and headless Services have no rules. `(unreachable)` is what PREROUTING does not lead
to (stderr says which jump is missing), or what leads on to no endpoint.

JSON and YAML have one entry for each service port and family, sorted: namespace, service, port,
protocol, family, type, entrances (kind, ip, port, fate, chain), internalTrafficPolicy,
externalTrafficPolicy, affinitySeconds, sourceRanges, endpoints (address, chain, clusterShare,
localShare), chains and rules. A fate is Served, Dropped, Rejected or Unreachable. Beside servicePorts
there are staleChains (family, chain), missingJumps (family, from, to) and frontendConflicts (family,
namespace, service, port, protocol, entrance, owner): what a service port asks for and another Service
has, which has the rules. They are known of manifests and of a cluster, and the first ten of a node
whose deltaproxy answers on port 10256; tables have them on stderr. Fields may be added, nothing else
changes. With --watch, each line or document is one `servicePort` and its `event`:
ADDED, CHANGED or GONE; lines of a table begin with the time.

Exit codes: 0 listed, if only nothing; 1 failed, or no Service of a NAME or the NAMESPACE has rules
or asks for a frontend of another; 64 unusable flags.";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  On a node, whoever wrote its rules:
    deltaproxy explain 10.96.0.10:53/udp
    deltaproxy explain prod/web:http --from outside
    deltaproxy explain :30080 --source 198.51.100.7
  From a dump, without root:
    deltaproxy explain kube-dns --from-save iptables.txt --node-ip 192.168.0.2
  What would be written for some manifests, as a picture:
    deltaproxy explain prod/web --manifests ./services --graph svg > web.svg

--output json: {destinations: [{address, port, protocol, services: [{name, kind}], endpointOf,
affinitySeconds, sourceRanges, conflicts: [{name, kind, owner}], near, nodeAddressKnown, podAddressKnown, missingTables,
tablesNotRead, ways: [{clients: [{kind, address, interface}], rulesOf, summary, outcomes: [{share,
result, to, sees, reason, rules: [{table, chain, rule, comment}]}], hairpinMasqueraded, unsure:
[rule]}]}]}. A result is served, local (this node itself), routed (as if there were no rules),
dropped, rejected or unclear; who is served sees the client, the node or other. What a dump without
filter or nat would not tell is in missingTables, rules of raw and security are in tablesNotRead; where no
pod's address is known, the ways have none of a pod. Shares are fractions of new connections.
Clients of one way have the same fate; if they meet different rules
on it, rulesOf is the kind of the one whose rules these are. Where no rule but the policy of a chain
drops packets, that is the last of the rules: its rule is empty, and it has a policy.

Exit codes: 0 explained, whatever becomes of the packets; 1 failed, no such name for example;
64 unusable flags.";

const CLEANUP_EXAMPLES: &str = "\
Examples:
  On a node that no proxy is to write rules for any more, or that changes to another one:
    deltaproxy cleanup
  Rules that a proxy left with the other programs; those of the one that runs stay:
    deltaproxy cleanup --iptables-backend legacy
  What that would be:
    deltaproxy cleanup --dry-run

Stop the proxy first: one that runs notices the loss, and writes its rules again.

Removed are the chains of kube-proxy and deltaproxy of any release, canaries included, and the jumps
to them, of both families; and the tables of kube-proxy's mode nftables, unless --iptables-backend
is given. What kubelets make stays, whether one runs or not: KUBE-FIREWALL, KUBE-MARK-DROP,
KUBE-KUBELET-CANARY and KUBE-IPTABLES-HINT. A chain of ours that somebody else's rule leads to is
emptied, and stays, too. Kernel settings stay as they are, and so does what mode ipvs left, which is told.

Exit codes: 0 nothing is left but what is named above; 1 something could not be removed, and all
else was; 64 unusable flags.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(deltaproxy completions bash)
  deltaproxy completions fish > ~/.config/fish/completions/deltaproxy.fish

In bash, `services`, `explain` and `render` complete names of Services and, behind -n, of namespaces,
too: of the kernel's rules, for root, or of the dump or the manifests that were named before. `sto`
becomes `shop/storefront`; with -n names are without their namespace.";

const MAN_EXAMPLES: &str = "\
Examples:
  deltaproxy man services | man -l -
  deltaproxy man > /usr/local/share/man/man1/deltaproxy.1";
